"""The rules of JSON values: which values each type accepts, and how each type is written. One value at a time.

`docs/formats.md` has these rules as a table.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson

from sluice import time_units
from sluice.json_texts import COMPACT, exact_number, items_of, members_of, text_with_digits
from sluice.model.members import Steps
from sluice.time_units import SECOND

INT64 = range(-(2**63), 2**63)
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
SHOWN = 80
#: the largest scale of a number that has its scale beside it, as databases have them
MAX_SCALE = 127
#: the last second since 1970 that a timestamp can have
LAST_SECOND = INT64.stop // SECOND


class NotOfTypeError(ValueError):
    """A JSON value is not accepted by the type of its attribute."""


#: maximum length of the digits that Python's int() gets, which is slow for very long ones
MOST_DIGITS = 100


def parsed(text: str | bytes, *, digits: bool) -> Any:  # noqa: ANN401 - JSON
    """The JSON value. With `digits` its numbers with a point or an exponent are Decimal, else float. Raises
    orjson.JSONDecodeError or RecursionError.
    """
    value = orjson.loads(text)
    return json.loads(text, parse_float=exact_number, parse_int=_whole) if digits else value


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= MOST_DIGITS else Decimal(digits)


# ---- reading ---------------------------------------------------------------------------------------------------------


def shown(value: object) -> str:
    """The value as JSON text of at most SHOWN characters and "...", for the reason of a dead letter."""
    try:
        text = orjson.dumps(value, default=_number).decode()
    except orjson.JSONEncodeError:  # it is too deep, or has an integer of more than 64 bits
        try:
            text = text_with_digits(value, COMPACT)
        except RecursionError:
            return "a deeply nested value"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def as_written(text: str) -> Any:  # noqa: ANN401 - JSON
    """The document of a valid text, in which each number is its text (PA10). Raises RecursionError if too deep."""
    return json.loads(text, parse_int=str, parse_float=str)


def text_at(text: str, path: Steps) -> str:
    """The text of the value at a path that exists."""
    for step in path:
        text = items_of(text)[step] if isinstance(step, int) else members_of(text)[step]
    return text.strip()


def at_path(document: Any, path: Steps) -> tuple[Any, int]:  # noqa: ANN401
    """The value at the path, None if it is null or missing, and how many steps of the path exist (PA4)."""
    for number, step in enumerate(path):
        if type(document) is not (list if isinstance(step, int) else dict):
            return None, number
        if step not in (range(len(document)) if isinstance(step, int) else document):
            return None, number
        document = document[step]  # type: ignore[index]
    return document, len(path)


def _number(value: object) -> object:
    """A number that was read with all its digits."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(value)


def nanoseconds(text: str) -> int:
    """The nanoseconds since 1970 of an ISO 8601 text. A text without a zone is in UTC. Raises NotOfTypeError."""
    try:
        return within_int64(time_units.nanoseconds(text))
    except ValueError as error:
        raise NotOfTypeError from error


def within_int64(value: int) -> int:
    require(value in INT64)
    return value


def require(accepted: bool) -> None:  # noqa: FBT001
    if not accepted:
        raise NotOfTypeError


# ---- writing ---------------------------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(nanos: int) -> str:
    """The nanoseconds since 1970 as ISO 8601 text in UTC. Raises OverflowError beyond the years 1 to 9999."""
    second = EPOCH + timedelta(seconds=nanos // SECOND)
    fraction = f".{nanos % SECOND:09}".rstrip("0").rstrip(".")
    return f"{second.isoformat()[:19]}{fraction}Z"


def finite_or_word(value: Any) -> Any:  # noqa: ANN401
    """The value with NaN and the infinities, also inside, replaced by words, since JSON has no such numbers."""
    if isinstance(value, list):
        return [finite_or_word(item) for item in value]
    if isinstance(value, dict):
        return {name: finite_or_word(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
