"""Converts YAML values of the pipeline file into values of an attribute's type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sluice.config.checks.settings import TimeError, nanoseconds
from sluice.model.types import (
    BytesType,
    JsonType,
    ListType,
    MapType,
    OptionalType,
    StructType,
    TimestampType,
    Type,
    Value,
)
from sluice.wire.json.json_types import json_form


def read_value(value: object, type_: Type) -> Value:
    """The value as the engine stores it (a timestamp in nanoseconds since 1970). Raises ValueError for other values."""
    return READERS.get(type(type_), read_own)(value, type_)


def read_own(value: object, type_: Type) -> Value:
    return type_.from_file(value)


def read_timestamp(value: object, _: Type) -> Value:
    if type(value) not in (str, int, float):
        raise ValueError(value)
    return instant(str(value))


def instant(text: str) -> int:
    try:
        return nanoseconds(text)
    except TimeError as error:
        raise ValueError(str(error)) from None


def read_list(value: object, type_: Type) -> Value:
    if isinstance(value, list) and type_.element is not None:
        return tuple(read_value(item, type_.element) for item in value)
    raise ValueError(value)


def read_optional(value: object, type_: Type) -> Value:
    return None if value is None else read_value(value, type_.present)


def read_in_json(value: object, type_: Type) -> Value:
    """A value that the file writes as a record of JSON has it: base64 of bytes, mappings for structs and maps."""
    if value is None:
        raise ValueError(value)
    return json_form(type_).read(json.loads(json.dumps(value, default=str)))  # type: ignore[no-any-return]


#: class of a type -> the function that reads a value of YAML; other types read it themselves
READERS: Mapping[type[Type], Callable[[object, Type], Value]] = {
    TimestampType: read_timestamp,
    ListType: read_list,
    OptionalType: read_optional,
    BytesType: read_in_json,
    JsonType: read_in_json,
    MapType: read_in_json,
    StructType: read_in_json,
}
