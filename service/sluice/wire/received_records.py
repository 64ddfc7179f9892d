"""Decodes received records of a stream: which are tuples, which are marks, and why the others cannot be used.

The service and `sluice replay` both decode with this module, so a record has the same effect, or the same reason, in
both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.mark_headers import HEADER, UNKNOWN, WORDS, kinds, watermarks
from sluice.wire.record_codec import Records


class Rejects:
    """The rejected records of a batch, with their reasons. `accepted` is true for the records not rejected."""

    def __init__(self, count: int) -> None:
        self.reasons: dict[int, str] = {}
        self.accepted = np.ones(count, np.bool_)

    def reject(self, rows: Iterable[int], reason: str) -> None:
        """Rejects these rows. A row that was rejected before keeps its first reason."""
        for row in rows:
            self.accepted[row] = False
            self.reasons.setdefault(int(row), reason)

    def __bool__(self) -> bool:
        return bool(self.reasons)


class Received(NamedTuple):
    """By record, but for `tuples`.

    kind           TUPLE, WINDOW, FINAL, WATERMARK, CLOCK or UNKNOWN (mark_headers.py)
    watermark      event time of WATERMARK marks, nanoseconds since 1970; 0 for other records
    carries_mark   whether the record is a tuple that carries a mark of its kind. The mark stays valid if the tuple
                   cannot be used
    tuples         the attributes of the tuples that are not rejected, one row for each
    """

    kind: np.ndarray
    watermark: np.ndarray
    carries_mark: np.ndarray
    tuples: pa.RecordBatch


def received(codec: Records, batch: pa.RecordBatch, times: np.ndarray, rejects: Rejects) -> Received:
    """Decodes the columns `value`, `key` and `headers` of a batch, whose records have the timestamps `times`
    (nanoseconds since 1970). Ignores the rows that are rejected already.

    Rejects the records that cannot be used.
    """
    kind = kinds(batch.column("headers"))
    unknown = reason(Reason.UNKNOWN_MARK, f"its header {HEADER} is none of {', '.join(WORDS)}")
    rejects.reject(np.flatnonzero(kind == UNKNOWN), unknown)
    watermark = _watermarks(batch, kind, rejects)
    carries_mark = (kind == WINDOW) | (kind == FINAL)  # if it has a value, too: it is the tuple, then the mark
    if carries_mark.any():
        carries_mark &= _filled(batch.column("value")) & rejects.accepted
    tuples = _tuples(codec, batch, times, np.flatnonzero(((kind == TUPLE) | carries_mark) & rejects.accepted), rejects)
    return Received(kind, watermark, carries_mark, tuples)


def _watermarks(batch: pa.RecordBatch, kind: np.ndarray, rejects: Rejects) -> np.ndarray:
    """The event time of each watermark mark, 0 for other records. Rejects watermark marks without a valid time."""
    watermark = np.zeros(len(kind), np.int64)
    rows = np.flatnonzero((kind == WATERMARK) & rejects.accepted)
    if len(rows):
        watermark[rows], sound = watermarks(batch.column("value").take(pa.array(rows)))
        what = "its value is neither seconds since 1970 nor a time in ISO 8601"
        rejects.reject(rows[~sound], reason(Reason.BAD_WATERMARK, what))
    return watermark


def _filled(values: pa.Array) -> np.ndarray:
    """Whether each value has at least one byte. False for null."""
    return pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False) > 0  # type: ignore[no-any-return]


def _tuples(
    codec: Records, batch: pa.RecordBatch, times: np.ndarray, rows: np.ndarray, rejects: Rejects
) -> pa.RecordBatch:
    """Decodes the tuples of these rows. Rejects rows that cannot be decoded, and rows with a null value unless the
    stream is a table.
    """
    values, keys, headers = (batch.column(name) for name in ("value", "key", "headers"))
    table = codec.stream.table
    if values.null_count and not table:
        null = values.is_null().to_numpy(zero_copy_only=False)
        rejects.reject(rows[null[rows]], reason(Reason.NO_VALUE, "its value is null and it is not a mark"))
        rows = rows[~null[rows]]
    if len(rows) < len(values):
        values, keys, headers = (column.take(pa.array(rows)) for column in (values, keys, headers))
    decoded = (codec.decode_table if table else codec.decode)(values, keys, headers, times[rows])
    for index, why in decoded.bad:
        rejects.reject([rows[index]], why)
    return decoded.tuples
