"""The usable records of a topic partition: decoded and stamped, each with its number in the order of the batch.

New batches (partition_router.py) and past ones (inputs_again.py) are decoded alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.packed_rows import BEFORE, BEHIND, END, ITSELF, NUMBERS, ordinal, port_of, topic_partition_of
from sluice.batch.query_plan import Plan
from sluice.batch.reject_collector import RejectCollector
from sluice.batch.time_steps import Steps, steps_of
from sluice.columns.arrow_types import HEADERS
from sluice.columns.key_bytes import key_bytes, partition_for
from sluice.engine.stream.clock import all_later
from sluice.engine.stream.event_times import ahead_of
from sluice.engine.stream.expression_eval import checked
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW
from sluice.engine.stream.mark_conditions import standing
from sluice.kafka.kafka_errors import TopicPartitionsAddedError
from sluice.model.spec import MAX_AHEAD, Stream
from sluice.model.spreading import Keys
from sluice.time_units import SECOND
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.mark_headers import CLOCK
from sluice.wire.received_records import received
from sluice.wire.record_codec import Records

#: columns of Spark's source, whose headers are lists and no texts any more
RECEIVED = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("ordinal", pa.int64()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip
#: number of records of a topic partition in one Arrow batch that is made of them
RECORDS_PER_BATCH = 100_000
#: the last time that int64 has in nanoseconds, in 2262, and the first one, in 1677
LAST_MICROSECOND = int(np.iinfo(np.int64).max) // 1000
FIRST_MICROSECOND = -LAST_MICROSECOND


@dataclass(frozen=True, slots=True)
class Rows:
    """The usable records of a topic partition, in order: one row for each tuple and each mark.

    number      number of the record in the batch (packed_rows.py); a mark before or behind a tuple has its own number
    stamp       the largest record timestamp up to this record (inclusive), nanoseconds since 1970
    kind        TUPLE, WINDOW, FINAL, WATERMARK, CLEAR or CLOCK
    watermark   event time of the WATERMARK rows, nanoseconds since 1970; 0 in other rows
    row         row number of the record in the Arrow batch
    tuples      attributes of the TUPLE rows, one row for each
    operations  of change events: the number of records by operation, those without a row here included
    """

    number: np.ndarray
    stamp: np.ndarray
    kind: np.ndarray
    watermark: np.ndarray
    row: np.ndarray
    tuples: pa.RecordBatch
    operations: Mapping[str, int] = field(default_factory=dict)

    def only(self, rows: np.ndarray) -> Rows:
        """The rows with these row numbers. `tuples` does not change, so no TUPLE row may be dropped."""
        return Rows(
            self.number[rows], self.stamp[rows], self.kind[rows], self.watermark[rows], self.row[rows], self.tuples
        )  # fmt: skip


class PartitionRecords:
    """Decodes and stamps the records of one topic partition, one Arrow batch after the other."""

    def __init__(self, plan: Plan, first: int) -> None:
        """`first` is the ordinal of the first record."""
        self.plan, self.first = plan, first
        self.stream = plan.inputs[port_of(first)]
        _require_known(plan, self.stream, topic_partition_of(first))
        self._records = Records.of(self.stream, plan.pipeline.settings.registry)
        self.spread = plan.spread.get(self.stream.name, ())
        self._newest = np.iinfo(np.int64).min

    def usable(
        self, batch: pa.RecordBatch, numbers: np.ndarray, times: np.ndarray, planned: int | np.ndarray,
        rejects: RejectCollector,
    ) -> Rows:  # fmt: skip
        """The records that can be decoded, as rows; adds the others to `rejects`.

        `times` has the timestamps of the records, and `planned` the times at which their batches were planned, both in
        nanoseconds since 1970.
        """
        max_future = self.plan.pipeline.settings.max_future
        ahead = f"its timestamp is more than {max_future / SECOND:g} s (max_future) ahead of the time of the batch"
        latest = all_later(np.asarray(planned), max_future)
        rejects.reject(np.flatnonzero(times > latest), reason(Reason.TOO_FAR_AHEAD, ahead))
        kind, watermark, carries_mark, tuples, operations = received(self._records, batch, times, rejects)
        row = np.flatnonzero(((kind == TUPLE) | carries_mark) & rejects.accepted)
        tuples = self._within_future(tuples, row, planned, rejects)
        # a mark is kept even if the tuple that carries it cannot be used
        row = np.flatnonzero(rejects.accepted | carries_mark)
        stamp = np.maximum(np.maximum.accumulate(times[row]), self._newest)
        if len(stamp):
            self._newest = stamp[-1]
        rows = Rows(numbers[row], stamp, kind[row], watermark[row], row, tuples)
        return replace(
            _with_marks(rows, (carries_mark & rejects.accepted)[row], *standing(self.stream, tuples)),
            operations=operations,
        )

    def _within_future(
        self, tuples: pa.RecordBatch, rows: np.ndarray, planned: int | np.ndarray, rejects: RejectCollector
    ) -> pa.RecordBatch:
        """The tuples, which are these rows, without those whose event time is so far ahead of the time of their batch
        that the watermark would make all others late (Q6). They are added to `rejects`.
        """
        event_time = self.stream.event_time
        if event_time is None or event_time.lag is None or event_time.max_future is not None or self.stream.exchange:
            return tuples
        now = np.broadcast_to(np.asarray(planned), len(rejects.accepted))[rows]
        _, ahead = ahead_of(tuples, event_time, dict(self.stream.row_schema)[event_time.attribute], now, MAX_AHEAD)
        if not ahead.any():
            return tuples
        reason_text = (
            f"{event_time.attribute} is more than {MAX_AHEAD / SECOND:g} s (max_future) ahead of the time of the batch"
        )
        rejects.reject(rows[ahead], reason(Reason.TOO_FAR_AHEAD, reason_text))
        return tuples.filter(pa.array(~ahead))

    def without_clocks(self, rows: Rows) -> Rows:
        """The rows without CLOCK marks, which only move the clock; without event time also without WATERMARK marks."""
        kept = rows.kind != CLOCK
        if self.stream.event_time is None:
            kept &= rows.kind != WATERMARK
        return rows if kept.all() else rows.only(kept)

    def steps(self, rows: Rows) -> Steps | None:
        """The steps among these rows, whose times all buckets need (ET2); None if they need none."""
        return steps_of(self.stream, self.plan.shared_times.get(self.stream.name), rows.kind, rows.stamp, rows.tuples)

    def columns(self, rows: Rows, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as Arrow columns (`PartitionSlice.rows`). The attributes of a mark are null."""
        tuples = rows.tuples
        if len(rows.row) > tuples.num_rows:
            is_tuple = rows.kind == TUPLE
            tuples = tuples.take(pa.array(np.cumsum(is_tuple) - 1, mask=~is_tuple))
        columns = [pa.array(rows.number.astype(np.uint32)), pa.array(rows.stamp), pa.array(rows.kind)]
        names = ["@number", "@stamp", "@kind"]
        if self.stream.name in self.plan.keyed:
            columns.append(batch.column("key").take(pa.array(rows.row)))
            names.append("@key")
        if self.stream.event_time is not None:
            columns.append(pa.array(rows.watermark))
            names.append("@watermark")
        return pa.RecordBatch.from_arrays([*columns, *tuples.columns], names=[*names, *tuples.schema.names])


def first_ordinal(plan: Plan, topic: str, partition: int) -> int:
    return ordinal(next(port for port, stream in enumerate(plan.inputs) if stream.topic == topic), partition)


def as_received(fetched: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
    """The records of a topic partition (column_consumer.py) as RECEIVED. `first` fills the column `ordinal`."""
    for start in range(0, len(fetched), RECORDS_PER_BATCH):
        piece = fetched.slice(start, RECORDS_PER_BATCH)
        key, value, headers, offset, timestamp = piece.columns
        times = pa.array(_microseconds(timestamp.to_numpy()), RECEIVED.field("timestamp").type)
        columns = [key, value, headers, pa.array(np.full(len(piece), first, np.int64)), offset, times]
        yield pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


def _microseconds(milliseconds: np.ndarray) -> np.ndarray:
    """The timestamps of records in microseconds since 1970, within the times that int64 nanoseconds can represent.

    A producer may write any 64-bit number as milliseconds, for instance its time in nanoseconds.
    """
    bounded = np.clip(milliseconds, FIRST_MICROSECOND // 1000, LAST_MICROSECOND // 1000 + 1)
    microseconds: np.ndarray = np.clip(bounded * 1000, FIRST_MICROSECOND, LAST_MICROSECOND)
    return microseconds


def nanoseconds_of(timestamps: pa.TimestampArray) -> np.ndarray:
    """The timestamps of records, which are microseconds since 1970, in nanoseconds. A time after 2262 or before 1677
    becomes the latest or the earliest time that int64 nanoseconds can represent.
    """
    stamps = pc.cast(timestamps, pa.int64()).to_numpy()
    nanoseconds: np.ndarray = np.clip(stamps, FIRST_MICROSECOND, LAST_MICROSECOND) * 1000
    return nanoseconds


def buckets_of(spread: Keys, first: int, tuples: pa.RecordBatch, buckets: int) -> np.ndarray:
    """The number of the bucket of each tuple of a topic partition, from 0 to `buckets - 1`.

    spread   the key of the stream (`spread_by`); empty: the bucket depends on the topic partition
    first    the ordinal of the topic partition
    """
    if not spread:
        return np.full(tuples.num_rows, topic_partition_of(first) % buckets, np.int32)
    parts = [checked(expression, tuples) for expression in spread]
    has_key = ~np.logical_or.reduce([part.failed() for part in parts])
    if has_key.all():
        return partition_for(key_bytes([part.values for part in parts]), buckets)
    chosen = np.zeros(len(has_key), np.int32)  # a tuple with an error in its key goes to bucket 0, which rejects it
    keys = key_bytes([part.values.filter(pa.array(has_key)) for part in parts])
    chosen[has_key] = partition_for(keys, buckets)
    return chosen


def _require_known(plan: Plan, stream: Stream, topic_partition: int) -> None:
    """Raises TopicPartitionsAddedError for a topic partition that did not exist when the query started."""
    partitions = plan.topic_partitions[stream.name]
    if topic_partition >= partitions:
        raise TopicPartitionsAddedError(
            f"topic {stream.topic} has more than the {partitions} topic partitions that it started with"
        )


def _with_marks(rows: Rows, carries_mark: np.ndarray, before: np.ndarray, behind: np.ndarray) -> Rows:
    """The rows, with rows of their own for the marks before and behind tuples.

    carries_mark   by row: whether the record is a tuple that carries a mark of the row's kind in its header
    before         by tuple: whether `mark_when` puts a window mark before it
    behind         by tuple: whether `mark_when` puts a window mark behind it

    A tuple that carries a window mark and has one behind it by `mark_when` gets one window mark behind it.
    """
    if not (carries_mark.any() or before.any() or behind.any()):
        return rows
    kinds = np.where(carries_mark, TUPLE, rows.kind).astype(rows.kind.dtype)
    is_tuple = kinds == TUPLE
    around = np.zeros((len(kinds), NUMBERS), np.bool_)
    around[is_tuple, BEFORE], around[is_tuple, BEHIND] = before, behind
    around[:, ITSELF] = True
    around[:, BEHIND] |= carries_mark & (rows.kind == WINDOW)
    around[:, END] = carries_mark & (rows.kind == FINAL)
    row, number = np.nonzero(around)
    kind = np.where(number == ITSELF, kinds[row], np.where(number == END, FINAL, WINDOW)).astype(kinds.dtype)
    return replace(rows.only(row), number=rows.number[row] + number - ITSELF, kind=kind)
