"""How the values of each type stand in columns: the table of the types for this floor, one form for each.

Other modules ask the form of a type what its columns are; they do not compare types. Processes that need only Arrow
types import this module, so it imports compiled kernels where they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from sluice.columns.forms.bytes_forms import Base64Form, JsonTextForm, StringForm
from sluice.columns.forms.composite_forms import MapForm, StructForm
from sluice.columns.forms.decimal_forms import DecimalWordForm
from sluice.columns.forms.form_contract import ColumnForm
from sluice.columns.forms.list_form import ListForm
from sluice.columns.forms.optional_form import OptionalForm
from sluice.columns.forms.word_forms import BooleanForm, Float64Form, Int64Form, TimestampForm
from sluice.model.types import (
    BooleanType,
    BytesType,
    Float64Type,
    Int64Type,
    JsonType,
    ListType,
    MapType,
    OptionalType,
    StringType,
    StructType,
    TimestampType,
    Type,
)
from sluice.model.types.decimal_type import DecimalType

FORMS: Mapping[type[Type], type[ColumnForm]] = {
    BooleanType: BooleanForm,
    Int64Type: Int64Form,
    Float64Type: Float64Form,
    StringType: StringForm,
    TimestampType: TimestampForm,
    ListType: ListForm,
    OptionalType: OptionalForm,
    BytesType: Base64Form,
    JsonType: JsonTextForm,
    MapType: MapForm,
    StructType: StructForm,
    DecimalType: DecimalWordForm,
}


@cache
def form(type_: Type) -> ColumnForm:
    return FORMS[type(type_)].of(type_, form)


@lru_cache(maxsize=1024)
def type_of(arrow: pa.DataType) -> Type:
    """The type with this Arrow type. A dictionary-encoded Arrow type has the type of its values."""
    if pa.types.is_dictionary(arrow):
        return type_of(arrow.value_type)
    types = (form_.type_of(arrow, type_, type_of) for type_, form_ in FORMS.items())
    return next(type_ for type_ in types if type_ is not None)


def column(values: Sequence[Any], type_: Type) -> pa.Array:
    """The JSON values as an Arrow array. Raises ValueError (or a subclass), KeyError or OverflowError if one is not of
    the type.
    """
    return form(type_).column(values)
