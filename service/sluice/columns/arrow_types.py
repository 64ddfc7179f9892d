"""The Arrow types of the attributes of a stream, and of the headers of a record."""

from __future__ import annotations

import pyarrow as pa

from sluice.columns.column_forms import form
from sluice.model.types import Schema, Type

#: headers in their order; a record without headers has null
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrow_type(type_: Type) -> pa.DataType:
    return form(type_).arrow


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in schema])
