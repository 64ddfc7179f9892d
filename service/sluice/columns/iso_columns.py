"""Columns of texts to columns of times, by the rules of time_units.py."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sluice.time_units import nanoseconds

INSTANT = pa.timestamp("ns", "UTC")
INT64 = range(-(2**63), 2**63)
#: texts that Arrow converts as the rules say, but for a missing zone; it refuses dates that do not exist
PLAIN = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[-+]([01]\d|2[0-3]):[0-5]\d)?$"
NO_ZONE = r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?)$"


def times(texts: pa.StringArray) -> pa.TimestampArray:
    """The time of each text; null for null, for other texts, and for times beyond int64 nanoseconds.

    Arrow converts the usual forms. The other texts are converted one by one.
    """
    plain = pc.if_else(pc.match_substring_regex(texts, PLAIN), texts, pa.scalar(None, pa.string()))
    column = cast_each(pc.replace_substring_regex(plain, pattern=NO_ZONE, replacement=r"\1Z"), INSTANT)
    rest = pc.and_(plain.is_null(), texts.is_valid())
    exact = pa.array([_time(text) for text in texts.filter(rest).to_pylist()], pa.int64())
    return pc.replace_with_mask(column, rest, exact.view(INSTANT)) if len(exact) else column


def cast_each(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Casts each text, null if it does not fit. pyarrow casts all values or fails, so the texts are halved until those
    that do not fit are alone.
    """
    try:
        return pc.cast(texts, type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
        middle = len(texts) // 2
        return pa.concat_arrays([cast_each(texts[:middle], type_), cast_each(texts[middle:], type_)])


def _time(text: str) -> int | None:
    try:
        time = nanoseconds(text)
    except ValueError:
        return None
    return time if time in INT64 else None
