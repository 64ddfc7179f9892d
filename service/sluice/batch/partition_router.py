"""Routes the records of a topic partition to buckets: decodes and stamps them, and distributes the tuples by key.

The results are packed rows: one for each bucket, one of counts, and one of dead letters if some records cannot be used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.bucket_labels import labels
from sluice.batch.envelope import COUNTS, DEAD_LETTERS, IDLE_CLOCK, RECORDS, Packed, packed_time
from sluice.batch.partition_slice import PartitionSlice, rows_of_buckets
from sluice.batch.query_plan import Plan
from sluice.batch.record_order import BEFORE, BEHIND, END, ITSELF, NUMBERS, ordinal, port_of, topic_partition_of
from sluice.batch.reject_collector import RejectCollector
from sluice.columns.arrow_types import HEADERS
from sluice.columns.key_bytes import key_bytes
from sluice.engine.stream.clock import all_later
from sluice.engine.stream.event_times import ahead_of
from sluice.engine.stream.expression_eval import checked
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, WINDOW
from sluice.engine.stream.mark_conditions import standing
from sluice.kafka.batch_report import Report
from sluice.kafka.kafka_errors import TopicPartitionsAddedError
from sluice.kafka.librdkafka.fetched_records import offsets_of
from sluice.kafka.murmur2 import partition_for
from sluice.kafka.planned_batch import Planned
from sluice.model.spec import MAX_AHEAD, Stream
from sluice.model.spreading import Keys
from sluice.time_units import SECOND
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.header_text import with_lists
from sluice.wire.mark_headers import CLOCK, NAMES
from sluice.wire.received_records import received
from sluice.wire.record_codec import Records

#: columns of Spark's source, whose headers are lists and no texts any more
RECEIVED = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("ordinal", pa.int64()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip
#: number of records of a topic partition in one Arrow batch that is made of them
RECORDS_PER_BATCH = 100_000
SCHEMA = pa.schema([("bucket", pa.int32()), ("kind", pa.int32()), ("packed", pa.binary())])
#: the last time that int64 has in nanoseconds, in 2262, and the first one, in 1677
LAST_MICROSECOND = int(np.iinfo(np.int64).max) // 1000
FIRST_MICROSECOND = -LAST_MICROSECOND
#: kind of a record -> its name in the report
WORDS = {TUPLE: "tuple"} | NAMES


def route_records(plan: Plan, time: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The packed rows of one topic partition's records in a batch.

    `time` is when the batch was planned, in nanoseconds since 1970. It comes from the offset log, so a rerun of the
    batch has equal results. Every bucket gets a packed row, even without any tuple, because every bucket needs the
    times of all topic partitions.
    """
    router: PartitionRouter | None = None
    label: list[int] = []
    for batch in batches:
        if batch.num_rows:
            if router is None:
                router, label = PartitionRouter(plan, batch.column("ordinal")[0].as_py()), labels(plan.buckets)
            yield _routed(label, router.packed(with_lists(batch), time))


def arrived_rows(
    plan: Plan, before: Planned, batch: Planned, records: Mapping[tuple[str, int], pa.RecordBatch]
) -> dict[int, list[Packed]]:
    """Routes the records of a batch that a Kafka client has read. Returns the packed rows of each bucket that has any.

    The tasks of Spark make the same rows from the records of Spark's source.

    before    the batch before, at whose offsets this batch starts
    records   by topic and topic partition: the records of the batch (fetched_records.py)
    """
    return to_buckets(plan, before, batch, route_places(plan, batch.time, records.items()))


def to_buckets(
    plan: Plan, before: Planned, batch: Planned, rows: Iterable[tuple[int, Packed]]
) -> dict[int, list[Packed]]:
    """The packed rows of each bucket that has any in the batch: `rows`, which come with the numbers of their buckets,
    behind the time of the idle clock if that has changed since the batch before.
    """
    arrived: dict[int, list[Packed]] = defaultdict(list)
    if batch.idle_clock != before.idle_clock:
        for number in range(plan.buckets):
            arrived[number].append((IDLE_CLOCK, packed_time(batch.idle_clock)))
    for number, row in rows:
        arrived[number].append(row)
    return arrived


def route_places(
    plan: Plan, time: int, records: Iterable[tuple[tuple[str, int], pa.RecordBatch]]
) -> Iterator[tuple[int, Packed]]:
    """As `route_records`, for the records of several topic partitions that a Kafka client has read: the number of a
    bucket, and a packed row for it.

    `records` are those of fetched_records.py, with their topic and topic partition; those of a topic partition are in
    order of their offsets.
    """
    routers: dict[tuple[str, int], PartitionRouter] = {}
    for of, fetched in records:
        first = _first_ordinal(plan, *of)
        router = routers[of] = routers.get(of) or PartitionRouter(plan, first)
        for columns in _as_received(fetched, first):
            yield from router.packed(columns, time)


def joined(
    records: Iterable[tuple[tuple[str, int], pa.RecordBatch]], size: int
) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The same records in fewer Arrow batches: of about RECORDS_PER_BATCH records, or of about `size` bytes."""
    waiting: defaultdict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
    counts: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    for of, some in records:
        waiting[of].append(some)
        counts[of] += len(some)
        sizes[of] += some.nbytes
        if counts[of] >= RECORDS_PER_BATCH or sizes[of] >= size:
            yield of, pa.concat_batches(waiting.pop(of))
            counts[of] = sizes[of] = 0
    for of, left in waiting.items():
        yield of, pa.concat_batches(left)


def slices_again(
    plan: Plan, of: tuple[str, int], batches: Sequence[Planned], fetched: pa.RecordBatch
) -> Iterator[tuple[int, list[PartitionSlice]]]:
    """The slices of a topic partition in past batches: the position of the batch in `batches`, and the slice of each
    bucket. They are the slices that `arrived_rows` makes for each batch, in one pass over the records of all batches.

    of         topic and topic partition
    fetched    the records of these consecutive batches (fetched_records.py)
    """
    offsets = offsets_of(fetched)
    batch_of = np.searchsorted([batch.offsets.get(of, 0) for batch in batches], offsets, side="right")
    _, firsts, within = np.unique(batch_of, return_index=True, return_inverse=True)
    planned = np.array([batch.time for batch in batches])[batch_of]
    first = _first_ordinal(plan, *of)
    router = PartitionRouter(plan, first)
    for start, stop in _runs(firsts.tolist(), len(fetched)):
        records = next(_as_received(fetched.slice(start, stop - start), first))
        run = slice(start, stop)
        yield from router.slices(records, offsets[firsts[within[run]]], planned[run], batch_of[run])


def _runs(firsts: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Cuts `count` records into runs of at most RECORDS_PER_BATCH, between batches where that is possible.

    `firsts` has the number of the first record of each batch. A batch that is larger than a run is cut as
    `_as_received` cuts it.
    """
    start = 0
    for first, end in pairwise([*firsts, count]):
        if end - start > RECORDS_PER_BATCH and first > start:
            yield start, first
            start = first
        while end - start > RECORDS_PER_BATCH:
            yield start, start + RECORDS_PER_BATCH
            start += RECORDS_PER_BATCH
    if count > start:
        yield start, count


def _first_ordinal(plan: Plan, topic: str, partition: int) -> int:
    return ordinal(next(port for port, stream in enumerate(plan.inputs) if stream.topic == topic), partition)


def _routed(label: Sequence[int], packed: Sequence[tuple[int, Packed]]) -> pa.RecordBatch:
    """Packed rows with the numbers of their buckets as columns, in which labels stand for these numbers."""
    columns = [label[bucket] for bucket, _ in packed], *zip(*(row for _, row in packed), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _as_received(fetched: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
    """The records of a topic partition (fetched_records.py) as RECEIVED. `first` fills the column `ordinal`."""
    for start in range(0, len(fetched), RECORDS_PER_BATCH):
        some = fetched.slice(start, RECORDS_PER_BATCH)
        key, value, headers, offset, timestamp = some.columns
        times = pa.array(_microseconds(timestamp.to_numpy()), RECEIVED.field("timestamp").type)
        columns = [key, value, headers, pa.array(np.full(len(some), first, np.int64)), offset, times]
        yield pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


@dataclass(frozen=True, slots=True)
class Rows:
    """The usable records of a topic partition, in order: one row for each tuple and each mark.

    number      number of the record in the batch (record_order.py); a mark before or behind a tuple has its own number
    stamp       the largest record timestamp up to this record (inclusive), nanoseconds since 1970
    kind        TUPLE, WINDOW, FINAL, WATERMARK or CLOCK
    watermark   event time of the WATERMARK rows, nanoseconds since 1970; 0 in other rows
    row         row number of the record in the Arrow batch
    tuples      attributes of the TUPLE rows, one row for each
    """

    number: np.ndarray
    stamp: np.ndarray
    kind: np.ndarray
    watermark: np.ndarray
    row: np.ndarray
    tuples: pa.RecordBatch

    def only(self, rows: np.ndarray) -> Rows:
        """The rows with these row numbers. `tuples` does not change, so no TUPLE row may be dropped."""
        return Rows(
            self.number[rows], self.stamp[rows], self.kind[rows], self.watermark[rows], self.row[rows], self.tuples
        )  # fmt: skip


class PartitionRouter:
    """Routes the records of one topic partition, in one batch (`packed`) or in several past ones (`slices`)."""

    def __init__(self, plan: Plan, first: int) -> None:
        """`first` is the ordinal of the first record."""
        self._plan, self._first = plan, first
        self._stream = plan.inputs[port_of(first)]
        _require_known(plan, self._stream, topic_partition_of(first))
        self._records = Records.of(self._stream, plan.pipeline.settings.registry)
        self._bucket = topic_partition_of(first) % plan.buckets
        self._spread = plan.spread.get(self._stream.name, ())
        self._offset: int | None = None
        self._newest = np.iinfo(np.int64).min

    def packed(self, batch: pa.RecordBatch, planned: int) -> list[tuple[int, Packed]]:
        """The packed rows of the next records, each with the number of its bucket: RECORDS for each bucket, COUNTS, and
        DEAD_LETTERS if there are any.

        `planned` is the time at which the batch was planned, nanoseconds since 1970.
        """
        offsets = batch.column("offset").to_numpy()
        if self._offset is None:
            self._offset = int(offsets[0])
        numbers = NUMBERS * (offsets - self._offset) + ITSELF
        times = _nanoseconds(batch.column("timestamp"))
        rejects = RejectCollector(batch)
        rows = self._usable(batch, numbers, times, planned, rejects)
        packed: list[tuple[int, Packed]] = [
            (bucket, (RECORDS, data)) for bucket, data in enumerate(self._per_bucket(rows, batch))
        ]
        if not self._stream.reported:
            rejects.keep(Reason.TOO_FAR_AHEAD)  # the other stage may have used it, as its batches have other times
        packed.append((self._bucket, (COUNTS, self._report(rows, times).to_json())))
        if rejects:
            packed.append((self._bucket, (DEAD_LETTERS, rejects.packed(self._stream, self._first + numbers))))
        return packed

    def slices(
        self, batch: pa.RecordBatch, base: np.ndarray, planned: np.ndarray, batch_of: np.ndarray
    ) -> Iterator[tuple[int, list[PartitionSlice]]]:
        """The slices of the next records, which several batches had: the number of the batch, and one for each bucket.

        By record: `base` is the offset of the first record of its batch, `planned` the time at which its batch was
        planned (ns since 1970), and `batch_of` the number of its batch, in ascending order.
        """
        times = _nanoseconds(batch.column("timestamp"))
        numbers = NUMBERS * (batch.column("offset").to_numpy() - base) + ITSELF
        rows = self._usable(batch, numbers, times, planned, RejectCollector(batch))
        kept = self._without_clocks(rows)
        columns, owner = self._columns(kept, batch), batch_of[kept.row]
        of_tuples = buckets_of(self._spread, self._first, kept.tuples, self._plan.buckets)
        chosen = rows_of_buckets(kept.kind, of_tuples, self._plan.buckets)
        per_bucket = [(columns.filter(pa.array(some)), owner[some]) for some in chosen]
        of_rows = batch_of[rows.row]
        for number in np.unique(of_rows).tolist():
            first, last = np.searchsorted(of_rows, number), np.searchsorted(of_rows, number, "right") - 1
            about = (
                self._stream.name, self._first, int(rows.number[first]), int(base[rows.row[first]]),
                int(rows.stamp[first]), int(rows.stamp[last]),
            )  # fmt: skip
            yield number, [PartitionSlice(*about, _part(some, of, number)) for some, of in per_bucket]

    def _report(self, rows: Rows, times: np.ndarray) -> Report:
        return Report(read={self._stream.name: _counts(rows)}, oldest=int(times.min()), newest=int(times.max()))

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def _usable(
        self, batch: pa.RecordBatch, numbers: np.ndarray, times: np.ndarray, planned: int | np.ndarray,
        rejects: RejectCollector,
    ) -> Rows:  # fmt: skip
        """The records that can be decoded, as rows; adds the others to `rejects`.

        `times` has the timestamps of the records, and `planned` the times at which their batches were planned, both in
        nanoseconds since 1970.
        """
        max_future = self._plan.pipeline.settings.max_future
        ahead = f"its timestamp is more than {max_future / SECOND:g} s (max_future) ahead of the time of the batch"
        latest = all_later(np.asarray(planned), max_future)
        rejects.reject(np.flatnonzero(times > latest), reason(Reason.TOO_FAR_AHEAD, ahead))
        kind, watermark, carries_mark, tuples = received(self._records, batch, times, rejects)
        row = np.flatnonzero(((kind == TUPLE) | carries_mark) & rejects.accepted)
        tuples = self._within_future(tuples, row, planned, rejects)
        # a mark is kept even if the tuple that carries it cannot be used
        row = np.flatnonzero(rejects.accepted | carries_mark)
        stamp = np.maximum(np.maximum.accumulate(times[row]), self._newest)
        if len(stamp):
            self._newest = stamp[-1]
        rows = Rows(numbers[row], stamp, kind[row], watermark[row], row, tuples)
        return _with_marks(rows, (carries_mark & rejects.accepted)[row], *standing(self._stream, tuples))

    def _within_future(
        self, tuples: pa.RecordBatch, rows: np.ndarray, planned: int | np.ndarray, rejects: RejectCollector
    ) -> pa.RecordBatch:
        """The tuples, which are these rows, without those whose event time is so far ahead of the time of their batch
        that the watermark would make all others late (Q6). They are added to `rejects`.
        """
        of = self._stream.event_time
        if of is None or of.lag is None or of.max_future is not None or self._stream.exchange:
            return tuples
        now = np.broadcast_to(np.asarray(planned), len(rejects.accepted))[rows]
        _, ahead = ahead_of(tuples, of, dict(self._stream.row_schema)[of.attribute], now, MAX_AHEAD)
        if not ahead.any():
            return tuples
        what = f"{of.attribute} is more than {MAX_AHEAD / SECOND:g} s (max_future) ahead of the time of the batch"
        rejects.reject(rows[ahead], reason(Reason.TOO_FAR_AHEAD, what))
        return tuples.filter(pa.array(~ahead))

    # ---- spreading ---------------------------------------------------------------------------------------------------

    def _per_bucket(self, rows: Rows, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The packed slice of each bucket: the tuples of its keys, and all marks. Yields nothing without rows."""
        if not len(rows.row):
            return
        kept = self._without_clocks(rows)
        start, end = int(rows.stamp[0]), int(rows.stamp[-1])
        whole = PartitionSlice(
            self._stream.name, self._first, int(rows.number[0]), int(self._offset or 0), start, end,
            self._columns(kept, batch),
        )  # fmt: skip
        if self._plan.buckets == 1:
            yield whole.packed()
            return
        of_tuples = buckets_of(self._spread, self._first, kept.tuples, self._plan.buckets)
        for own in whole.divided(of_tuples, self._plan.buckets):
            yield own.packed()

    def _without_clocks(self, rows: Rows) -> Rows:
        """The rows without CLOCK marks, which only move the clock; without event time also without WATERMARK marks."""
        kept = rows.kind != CLOCK
        if self._stream.event_time is None:
            kept &= rows.kind != WATERMARK
        return rows if kept.all() else rows.only(kept)

    def _columns(self, rows: Rows, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as Arrow columns (`PartitionSlice.rows`). The attributes of a mark are null."""
        tuples = rows.tuples
        if len(rows.row) > tuples.num_rows:
            is_tuple = rows.kind == TUPLE
            tuples = tuples.take(pa.array(np.cumsum(is_tuple) - 1, mask=~is_tuple))
        columns = [pa.array(rows.number.astype(np.uint32)), pa.array(rows.stamp), pa.array(rows.kind)]
        names = ["@number", "@stamp", "@kind"]
        if self._stream.name in self._plan.keyed:
            columns.append(batch.column("key").take(pa.array(rows.row)))
            names.append("@key")
        if self._stream.event_time is not None:
            columns.append(pa.array(rows.watermark))
            names.append("@watermark")
        return pa.RecordBatch.from_arrays([*columns, *tuples.columns], names=[*names, *tuples.schema.names])


def _part(rows: pa.RecordBatch, owner: np.ndarray, number: int) -> pa.RecordBatch:
    """The rows of this owner. `owner` is in ascending order."""
    start, stop = np.searchsorted(owner, number), np.searchsorted(owner, number, "right")
    return rows.slice(start, stop - start)


def _microseconds(milliseconds: np.ndarray) -> np.ndarray:
    """The timestamps of records in microseconds since 1970, within the times that int64 nanoseconds can represent.

    A producer may write any 64-bit number as milliseconds, for instance its time in nanoseconds.
    """
    bounded = np.clip(milliseconds, FIRST_MICROSECOND // 1000, LAST_MICROSECOND // 1000 + 1)
    found: np.ndarray = np.clip(bounded * 1000, FIRST_MICROSECOND, LAST_MICROSECOND)
    return found


def _nanoseconds(timestamps: pa.TimestampArray) -> np.ndarray:
    """The timestamps of records, which are microseconds since 1970, in nanoseconds. A time after 2262 or before 1677
    becomes the latest or the earliest time that int64 nanoseconds can represent.
    """
    stamps = pc.cast(timestamps, pa.int64()).to_numpy()
    found: np.ndarray = np.clip(stamps, FIRST_MICROSECOND, LAST_MICROSECOND) * 1000
    return found


def buckets_of(spread: Keys, first: int, tuples: pa.RecordBatch, buckets: int) -> np.ndarray:
    """The number of the bucket of each tuple of a topic partition, from 0 to `buckets - 1`.

    spread   the key of the stream (`spread_by`); empty: the bucket depends on the topic partition
    first    the ordinal of the topic partition
    """
    if not spread:
        return np.full(tuples.num_rows, topic_partition_of(first) % buckets, np.int32)
    parts = [checked(expression, tuples) for expression in spread]
    whole = ~np.logical_or.reduce([part.failed() for part in parts])
    if whole.all():
        return partition_for(key_bytes([part.values for part in parts]), buckets)
    chosen = np.zeros(len(whole), np.int32)  # a tuple with an error in its key goes to bucket 0, which rejects it
    keys = key_bytes([part.values.filter(pa.array(whole)) for part in parts])
    chosen[whole] = partition_for(keys, buckets)
    return chosen


def _require_known(plan: Plan, stream: Stream, topic_partition: int) -> None:
    """Raises TopicPartitionsAddedError for a topic partition that did not exist when the query started."""
    known = plan.topic_partitions[stream.name]
    if topic_partition >= known:
        raise TopicPartitionsAddedError(
            f"topic {stream.topic} has more than the {known} topic partitions that it started with"
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
    own = np.where(carries_mark, TUPLE, rows.kind).astype(rows.kind.dtype)
    is_tuple = own == TUPLE
    around = np.zeros((len(own), NUMBERS), np.bool_)
    around[is_tuple, BEFORE], around[is_tuple, BEHIND] = before, behind
    around[:, ITSELF] = True
    around[:, BEHIND] |= carries_mark & (rows.kind == WINDOW)
    around[:, END] = carries_mark & (rows.kind == FINAL)
    row, which = np.nonzero(around)
    kind = np.where(which == ITSELF, own[row], np.where(which == END, FINAL, WINDOW)).astype(own.dtype)
    return replace(rows.only(row), number=rows.number[row] + which - ITSELF, kind=kind)


def _counts(rows: Rows) -> dict[str, int]:
    """The number of rows of each kind, by the kind's name."""
    marks = np.bincount(rows.kind, minlength=max(WORDS) + 1)
    return {word: int(marks[kind]) for kind, word in WORDS.items() if marks[kind]}
