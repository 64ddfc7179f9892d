"""Routes the records of a topic partition to buckets: decodes and stamps them, and distributes the tuples by key.

The results are packed rows: one for each bucket, one of counts, and one of dead letters if some records cannot be used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sluice.batch.packed_rows import (
    COUNTS,
    DEAD_LETTERS,
    IDLE_CLOCK,
    ITSELF,
    NUMBERS,
    RECORDS,
    Packed,
    PartitionSlice,
    labels,
    packed_time,
    topic_partition_of,
)
from sluice.batch.query_plan import Plan
from sluice.batch.reject_collector import RejectCollector
from sluice.batch.usable_records import (
    RECORDS_PER_BATCH,
    PartitionRecords,
    Rows,
    as_received,
    buckets_of,
    first_ordinal,
    nanoseconds_of,
)
from sluice.engine.stream.items import CLEAR, TUPLE
from sluice.kafka.batch_report import Planned, Report
from sluice.wire.dead_letter_record import Reason
from sluice.wire.header_text import with_lists
from sluice.wire.mark_headers import NAMES

SCHEMA = pa.schema([("bucket", pa.int32()), ("kind", pa.int32()), ("packed", pa.binary())])
#: kind of a record -> its name in the report
NAMES_IN_REPORT = {TUPLE: "tuple", CLEAR: "truncate"} | NAMES


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
    records   by topic and topic partition: the records of the batch (column_consumer.py)
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

    `records` are the batches of column_consumer.py, with their topic and topic partition; the records of a topic
    partition are in order of their offsets.
    """
    routers: dict[tuple[str, int], PartitionRouter] = {}
    for place, fetched in records:
        first = first_ordinal(plan, *place)
        router = routers[place] = routers.get(place) or PartitionRouter(plan, first)
        for columns in as_received(fetched, first):
            yield from router.packed(columns, time)


def joined(
    records: Iterable[tuple[tuple[str, int], pa.RecordBatch]], size: int
) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The same records in fewer Arrow batches: each is full at RECORDS_PER_BATCH records or at `size` bytes.

    The order of the records of a topic partition stays.
    """
    waiting: defaultdict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
    counts: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    for place, fetched in records:
        waiting[place].append(fetched)
        counts[place] += len(fetched)
        sizes[place] += fetched.nbytes
        if counts[place] >= RECORDS_PER_BATCH or sizes[place] >= size:
            yield place, pa.concat_batches(waiting.pop(place))
            counts[place] = sizes[place] = 0
    for place, batches in waiting.items():
        yield place, pa.concat_batches(batches)


def _routed(label: Sequence[int], packed: Sequence[tuple[int, Packed]]) -> pa.RecordBatch:
    """Packed rows with the numbers of their buckets as columns, in which labels stand for these numbers."""
    columns = [label[bucket] for bucket, _ in packed], *zip(*(row for _, row in packed), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class PartitionRouter(PartitionRecords):
    """Routes the records of one topic partition in one batch."""

    def __init__(self, plan: Plan, first: int) -> None:
        super().__init__(plan, first)
        self._bucket = topic_partition_of(first) % plan.buckets
        self._offset: int | None = None

    def packed(self, batch: pa.RecordBatch, planned: int) -> list[tuple[int, Packed]]:
        """The packed rows of the next records, each with the number of its bucket: RECORDS for each bucket, COUNTS, and
        DEAD_LETTERS if there are any.

        `planned` is the time at which the batch was planned, nanoseconds since 1970.
        """
        offsets = batch.column("offset").to_numpy()
        if self._offset is None:
            self._offset = int(offsets[0])
        numbers = NUMBERS * (offsets - self._offset) + ITSELF
        times = nanoseconds_of(batch.column("timestamp"))
        rejects = RejectCollector(batch)
        rows = self.usable(batch, numbers, times, planned, rejects)
        packed: list[tuple[int, Packed]] = [
            (bucket, (RECORDS, data)) for bucket, data in enumerate(self._per_bucket(rows, batch))
        ]
        if not self.stream.reported:
            rejects.keep(Reason.TOO_FAR_AHEAD)  # the other stage may have used it, as its batches have other times
        packed.append((self._bucket, (COUNTS, self._report(rows, times).to_json())))
        if rejects:
            packed.append((self._bucket, (DEAD_LETTERS, rejects.packed(self.stream, self.first + numbers))))
        return packed

    def _report(self, rows: Rows, times: np.ndarray) -> Report:
        changes = {self.stream.name: dict(rows.operations)} if rows.operations else {}
        return Report(
            read={self.stream.name: _counts(rows)}, changes=changes, oldest=int(times.min()), newest=int(times.max())
        )

    def _per_bucket(self, rows: Rows, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The packed slice of each bucket (`shares`). Yields nothing without rows."""
        if not len(rows.row):
            return
        kept = self.without_clocks(rows)
        start, end = int(rows.stamp[0]), int(rows.stamp[-1])
        whole = PartitionSlice(
            self.stream.name, self.first, int(rows.number[0]), int(self._offset or 0), start, end,
            self.columns(kept, batch),
        )  # fmt: skip
        if self.plan.buckets == 1:
            yield whole.packed()
            return
        of_tuples = buckets_of(self.spread, self.first, kept.tuples, self.plan.buckets)
        for bucket_rows in whole.divided(of_tuples, self.plan.buckets, self.steps(kept)):
            yield bucket_rows.packed()


def _counts(rows: Rows) -> dict[str, int]:
    """The number of rows of each kind, by the kind's name."""
    marks = np.bincount(rows.kind, minlength=max(NAMES_IN_REPORT) + 1)
    return {word: int(marks[kind]) for kind, word in NAMES_IN_REPORT.items() if marks[kind]}
