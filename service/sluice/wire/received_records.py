"""Decodes received records of a stream: which are tuples, which are marks, and why the others cannot be used.

The service and `sluice replay` both decode with this module, so a record has the same effect, or the same reason, in
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.items import CLEAR, FINAL, TUPLE, WATERMARK, WINDOW
from sluice.wire.change_events.change_reader import ChangeReader, Effect, counts
from sluice.wire.change_events.event_parts import EventParts
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.mark_headers import CLOCK, HEADER, UNKNOWN, WORDS, kinds, watermarks
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

    kind           TUPLE, WINDOW, FINAL, WATERMARK, CLEAR, CLOCK or UNKNOWN (mark_headers.py)
    watermark      event time of WATERMARK marks, nanoseconds since 1970; 0 for other records
    carries_mark   whether the record is a tuple that carries a mark of its kind. The mark stays valid if the tuple
                   cannot be used
    tuples         the attributes of the tuples that are not rejected, one row for each
    operations     of change events: the number of records by operation
    """

    kind: np.ndarray
    watermark: np.ndarray
    carries_mark: np.ndarray
    tuples: pa.RecordBatch
    operations: Mapping[str, int]


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
    rows = np.flatnonzero(((kind == TUPLE) | carries_mark) & rejects.accepted)
    if codec.changes is None:
        return Received(kind, watermark, carries_mark, _tuples(codec, batch, times, rows, rejects), {})
    parts = codec.changes.open(batch.column("value").take(pa.array(rows)))
    tuples = _changes(codec, codec.changes, parts, batch, times, rows, rejects, (kind, carries_mark))
    return Received(kind, watermark, carries_mark, tuples, counts(parts))


def _watermarks(batch: pa.RecordBatch, kind: np.ndarray, rejects: Rejects) -> np.ndarray:
    """The event time of each watermark mark, 0 for other records. Rejects watermark marks without a valid time."""
    watermark = np.zeros(len(kind), np.int64)
    rows = np.flatnonzero((kind == WATERMARK) & rejects.accepted)
    if len(rows):
        watermark[rows], sound = watermarks(batch.column("value").take(pa.array(rows)))
        fault = "its value is neither seconds since 1970 nor a time in ISO 8601"
        rejects.reject(rows[~sound], reason(Reason.BAD_WATERMARK, fault))
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
    return _decoded(codec, values, keys, headers, times, rows, rejects)


def _changes(  # noqa: PLR0917
    codec: Records, reader: ChangeReader, parts: EventParts, batch: pa.RecordBatch, times: np.ndarray, rows: np.ndarray,
    rejects: Rejects, marks: tuple[np.ndarray, np.ndarray],
) -> pa.RecordBatch:  # fmt: skip
    """The tuples of change events, which are in these rows. Writes the kinds of the others to `marks`, which has the
    kind of each record, and whether it carries a mark.
    """
    kind, carries_mark = marks
    for row, why in parts.bad.items():
        rejects.reject([rows[row]], why)
    effect = reader.effect(parts)
    for without_tuple, instead in ((Effect.SKIPPED, CLOCK), (Effect.CLEARING, CLEAR)):
        chosen = rows[effect == without_tuple]
        kind[chosen] = np.where(carries_mark[chosen], kind[chosen], instead)
        carries_mark[chosen] = False
    kept = (effect == Effect.TUPLE) | (effect == Effect.DELETION)
    parts, rows = parts.only(kept), rows[kept]
    deleted = pa.array(effect[kept] == Effect.DELETION)
    values = pc.if_else(deleted, pa.scalar(None, parts.row.type), parts.row)
    keys, headers = (batch.column(name).take(pa.array(rows)) for name in ("key", "headers"))
    return _decoded(codec, values, keys, headers, times, rows, rejects, parts)


def _decoded(  # noqa: PLR0917
    codec: Records, values: pa.BinaryArray, keys: pa.BinaryArray, headers: pa.ListArray, times: np.ndarray,
    rows: np.ndarray, rejects: Rejects, parts: EventParts | None = None,
) -> pa.RecordBatch:  # fmt: skip
    """Decodes the tuples of these rows of a batch. Rejects rows that cannot be decoded."""
    decode = codec.decode_table if codec.stream.table else codec.decode
    decoded = decode(values, keys, headers, times[rows], parts)
    for index, why in decoded.bad:
        rejects.reject([rows[index]], why)
    return decoded.tuples
