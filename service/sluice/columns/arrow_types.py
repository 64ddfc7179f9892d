"""The Arrow types of the attributes of a stream, and of the headers of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sluice.columns.column_forms import form
from sluice.model.types import Schema, Type

#: headers in their order; a record without headers has null
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrow_type(type_: Type) -> pa.DataType:
    return form(type_).arrow


def array_of(values: Sequence[Any], type_: Type) -> pa.Array:
    """The array of values of the model (`Value`): a timestamp is its nanoseconds, a list a tuple or list."""
    return form(type_).from_values(values)


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in schema])
