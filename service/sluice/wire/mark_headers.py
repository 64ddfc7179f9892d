"""Marks as headers of Kafka records, such as `sluice-mark: window`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW
from sluice.engine.stream.watermark_text import from_text

HEADER = "sluice-mark"

#: the kind of a record that only advances the operator clock; it becomes no item
CLOCK = 5
#: the kind of a record whose mark header has an unknown word
UNKNOWN = -1

WORDS = {"window": WINDOW, "final": FINAL, "watermark": WATERMARK, "clock": CLOCK}
NAMES = {kind: word for word, kind in WORDS.items()}


def header(kind: int) -> tuple[str, bytes]:
    """The header that makes a record a mark of this kind."""
    return HEADER, NAMES[kind].encode()


def kinds(headers: pa.Array) -> np.ndarray:
    """The kind of each record, from its list of headers (`key`, `value`); TUPLE if it has no mark header.

    Of several mark headers the last one counts, as usual in Kafka.
    """
    codes = np.full(len(headers), TUPLE, np.int8)
    pairs = pc.list_flatten(headers)
    if len(pairs):
        records = pc.list_parent_indices(headers).to_numpy()
        marked = np.flatnonzero(pc.equal(pairs.field("key"), HEADER).to_numpy(zero_copy_only=False))
        words = pairs.field("value").take(pa.array(marked)).to_pylist()
        codes[records[marked]] = [_kind(word) for word in words]
    return codes


def watermarks(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The event times in the values of watermark marks, in nanoseconds since 1970, and whether each value is valid.

    A value is a number of seconds since 1970 or an ISO 8601 time, as text without quotes. The time of an invalid value
    is 0.
    """
    times = [_watermark(value) for value in values.to_pylist()]
    return np.array([time or 0 for time in times], np.int64), np.array([time is not None for time in times], np.bool_)


def _watermark(value: bytes | None) -> int | None:
    try:
        return from_text((value or b"").decode())
    except ValueError:
        return None


def _kind(word: bytes | None) -> int:
    return WORDS.get((word or b"").decode(errors="replace"), UNKNOWN)
