"""Converts YAML values of the pipeline file into values of an attribute's type."""

from __future__ import annotations

import math

from sluice.config.checks.settings import TimeError, nanoseconds
from sluice.model.spec import Value
from sluice.model.types import Kind, Type

INT64 = range(-(2**63), 2**63)


def read_value(value: object, type_: Type) -> Value:
    """The value as the engine stores it (a timestamp in nanoseconds since 1970). Raises ValueError for other values."""
    match type_.kind, value:
        case Kind.LIST, list(items) if type_.element:
            return tuple(read_value(item, type_.element) for item in items)
        case (Kind.BOOLEAN, bool(known)) | (Kind.STRING, str(known)):
            return known
        case Kind.INT64, int(number) if type(number) is int and number in INT64:
            return number
        case Kind.FLOAT64, float() | int() if type(value) is not bool:
            return real(value)
        case Kind.FLOAT64, "NaN" | "Infinity" | "-Infinity":
            return math.nan if value == "NaN" else float(str(value).lower())
        case Kind.TIMESTAMP, str() | int() | float() if type(value) is not bool:
            return instant(str(value))
    raise ValueError(value)


def real(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(value) from error


def instant(text: str) -> int:
    try:
        return nanoseconds(text)
    except TimeError as error:
        raise ValueError(str(error)) from None
