"""Watermarks as text: seconds since 1970, or a time in ISO 8601 (UTC if it has no zone)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sluice.columns.json_columns import column, json_values, nanoseconds
from sluice.engine.stream.items import MAX_TIME
from sluice.model.types import TIMESTAMP
from sluice.time_units import SECOND

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4})?", re.ASCII)
#: seconds since 1970 (in 2262) from which on every watermark is MAX_TIME
LAST_SECOND = MAX_TIME // SECOND


def watermark(value: Any) -> int:  # noqa: ANN401 - of JSON
    """The watermark in nanoseconds since 1970. A number beyond the range of int64 nanoseconds gives MAX_TIME, or
    -MAX_TIME if it is negative (E9). Raises ValueError if the value is not a time.
    """
    try:
        if isinstance(value, int | float | Decimal) and abs(Decimal(value)) >= LAST_SECOND:
            return MAX_TIME if value > 0 else -MAX_TIME
        return nanoseconds(value) if isinstance(value, Decimal) else int(column([value], TIMESTAMP)[0].value)
    except ArithmeticError:
        msg = "NaN is no time"
        raise ValueError(msg) from None


def from_text(text: str) -> int:
    """The watermark of a text without quotes, in nanoseconds since 1970. Raises ValueError."""
    return watermark(Decimal(text) if NUMBER.fullmatch(text) else text)


def to_text(nanoseconds: int) -> str:
    """The time in ISO 8601, which `from_text` can read."""
    times = pa.array([nanoseconds], pa.int64())
    return str(json_values(times, TIMESTAMP)[0])
