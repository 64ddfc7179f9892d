"""The rules of JSON values: which values each type accepts, and how each type is written. One value at a time.

`docs/formats.md` has these rules as a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import orjson

from sluice import iso_times
from sluice.model.types import Kind, Type
from sluice.time_units import SECOND

INT64 = range(-(2**63), 2**63)
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SHOWN = 80
#: the last second since 1970 that a timestamp can have
LAST_SECOND = INT64.stop // SECOND


class NotOfTypeError(ValueError):
    """A JSON value is not accepted by the type of its attribute."""


# ---- reading ---------------------------------------------------------------------------------------------------------


def reader(type_: Type) -> Callable[[Any], Any]:
    """The function that converts a parsed JSON value to a value of this type (a timestamp to nanoseconds).

    The function raises NotOfTypeError for a value that the type does not accept.
    """
    if type_.element is None:
        return READERS[type_.kind]
    element = reader(type_.element)

    def read_list(value: Any) -> list[Any]:  # noqa: ANN401
        _require(type(value) is list)
        return [element(item) for item in value]

    return read_list


def remark(value: object, type_: Type) -> str:
    """What to do about a value that is not of the type, for the end of a message; mostly empty."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if type_.kind is Kind.TIMESTAMP and LAST_SECOND < abs(number) <= LAST_SECOND * 1000:
        return " (a number is seconds since 1970; for milliseconds the type is int64)"
    return ""


def shown(value: object) -> str:
    """The value as JSON text of at most SHOWN characters and "...", for the reason of a dead letter."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return "a deeply nested value"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def nanoseconds(text: str) -> int:
    """The nanoseconds since 1970 of an ISO 8601 text. A text without a zone is in UTC. Raises NotOfTypeError."""
    try:
        return _within_int64(iso_times.nanoseconds(text))
    except ValueError as error:
        raise NotOfTypeError from error


def _read_boolean(value: object) -> object:
    _require(type(value) is bool)
    return value


def _read_int64(value: object) -> object:
    _require(type(value) is int and value in INT64)
    return value


def _read_float64(value: object) -> float:
    if type(value) is str and value in NOT_FINITE:
        return NOT_FINITE[value]
    if type(value) is not float and type(value) is not int:
        raise NotOfTypeError
    return float(value)


def _read_string(value: object) -> object:
    _require(type(value) is str)
    return value


def _read_timestamp(value: object) -> int:
    """Nanoseconds of a text, or of a number of seconds.

    A float64 counts as the shortest decimal number that is read as this float64.
    """
    if type(value) is str:
        return nanoseconds(value)
    if type(value) is int:
        return _within_int64(value * SECOND)
    if type(value) is not float:
        raise NotOfTypeError
    return _within_int64(int((Decimal(repr(value)) * SECOND).to_integral_value(ROUND_HALF_EVEN)))


def _within_int64(value: int) -> int:
    _require(value in INT64)
    return value


def _require(accepted: bool) -> None:  # noqa: FBT001
    if not accepted:
        raise NotOfTypeError


READERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.BOOLEAN: _read_boolean,
    Kind.INT64: _read_int64,
    Kind.FLOAT64: _read_float64,
    Kind.STRING: _read_string,
    Kind.TIMESTAMP: _read_timestamp,
}

# ---- writing ---------------------------------------------------------------------------------------------------------


def finite_or_word(value: Any) -> Any:  # noqa: ANN401
    """The value with NaN and the infinities, also in lists, replaced by words, since JSON has no such numbers."""
    if isinstance(value, list):
        return [finite_or_word(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
