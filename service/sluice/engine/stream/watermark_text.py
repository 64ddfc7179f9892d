"""Watermarks as people and marks write them: seconds since 1970, or a time in ISO 8601 (without a zone: UTC)."""

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
#: the year 2262, beyond which watermarks are all one
LAST_SECOND = MAX_TIME // SECOND


def watermark(value: Any) -> int:  # noqa: ANN401 - of JSON
    """Nanoseconds since 1970; a number beyond what int64 holds is the maximum (E9). Raises ValueError."""
    try:
        if isinstance(value, int | float | Decimal) and abs(Decimal(value)) >= LAST_SECOND:
            return MAX_TIME if value > 0 else -MAX_TIME
        return nanoseconds(value) if isinstance(value, Decimal) else int(column([value], TIMESTAMP)[0].value)
    except ArithmeticError:
        msg = "NaN is no time"
        raise ValueError(msg) from None


def from_text(text: str) -> int:
    """The same of a text without quotes. Raises ValueError."""
    return watermark(Decimal(text) if NUMBER.fullmatch(text) else text)


def to_text(nanoseconds: int) -> str:
    """In ISO 8601; `from_text` gives it back."""
    times = pa.array([nanoseconds], pa.int64())
    return str(json_values(times, TIMESTAMP)[0])
