"""The types that an attribute can have: one class for each type (type_contract.py), one row each in type_table.py."""

from sluice.model.types.boolean_type import BOOLEAN, BooleanType
from sluice.model.types.bytes_type import BYTES, BytesType
from sluice.model.types.float64_type import FLOAT64, Float64Type
from sluice.model.types.int64_type import INT64, Int64Type
from sluice.model.types.json_type import JSON, JsonType
from sluice.model.types.list_type import ListType, list_of
from sluice.model.types.map_type import MapType, map_of
from sluice.model.types.optional_type import OptionalType, optional_of, takes, united
from sluice.model.types.string_type import STRING, StringType
from sluice.model.types.struct_type import StructType, struct_of
from sluice.model.types.timestamp_type import TIMESTAMP, TimestampType
from sluice.model.types.type_contract import Distance, TimeForm, Type, Value
from sluice.model.types.type_table import SCALARS, TYPES, is_too_deep, parse_type, similar_type

__all__ = [
    "BOOLEAN", "BYTES", "FLOAT64", "INT64", "JSON", "SCALARS", "STRING", "TIMESTAMP", "TYPES", "BooleanType",
    "BytesType", "Distance", "Float64Type", "Int64Type", "JsonType", "ListType", "MapType",
    "OptionalType", "Schema", "StringType", "StructType", "TimeForm", "TimestampType", "Type", "Value", "is_too_deep",
    "list_of", "map_of", "optional_of",
    "parse_type", "similar_type", "struct_of", "takes", "united",
]  # fmt: skip

Schema = tuple[tuple[str, Type], ...]
"""The attributes of a stream, in the order of the file."""
