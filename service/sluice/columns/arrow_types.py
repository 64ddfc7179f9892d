"""The Arrow type of each type of the pipeline file, and of the headers of a record."""

from __future__ import annotations

import pyarrow as pa

from sluice.model.types import Kind, Schema, Type, list_of

SCALARS = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT64: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.TIMESTAMP: pa.timestamp("ns", "UTC"),
}
#: headers in their order; a record without headers has null
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrow_type(type_: Type) -> pa.DataType:
    return pa.list_(arrow_type(type_.element)) if type_.element else SCALARS[type_.kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in schema])


def type_of(arrow: pa.DataType) -> Type:
    """The pipeline type of an Arrow type. A dictionary-encoded Arrow type has the type of its values."""
    if pa.types.is_dictionary(arrow):
        return type_of(arrow.value_type)
    if pa.types.is_list(arrow):
        return list_of(type_of(arrow.value_type))
    return Type(next(kind for kind, scalar in SCALARS.items() if scalar == arrow))
