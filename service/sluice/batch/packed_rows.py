"""What travels between the processes of a batch: packed rows, the partition slices in them, and the order of records.

ordinal           the position of a record in the order of its batch: port, topic partition and number in one int64.
Compared as integers, ordinals sort by port, then by topic partition, then by number
packed row        many rows as one binary value with a kind (envelope)
partition slice   the records of one topic partition, in one batch, that go to one bucket
label             an integer that Spark's hash partitioning sends to the shuffle partition of a bucket's number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

import numpy as np
import orjson
import pyarrow as pa

from sluice.batch.time_steps import Steps
from sluice.engine.stream.items import STEP, TUPLE
from sluice.invariants import violated

#: one ordinal, or an array of ordinals
P = TypeVar("P", int, np.ndarray)

#: the lowest bits of the port and of the topic partition in an ordinal. The bits below contain the number: NUMBERS
#: times the distance of the offset from that of the topic partition's first record in the batch. 32 bits suffice,
#: because Spark limits the offsets that a batch reads (`max_records_per_batch`)
PORT, TOPIC_PARTITION = 56, 32

#: how many numbers each record has: for a window mark before the record, for the record itself, for a window mark
#: behind it, and for a final mark behind it
NUMBERS = 4
BEFORE, ITSELF, BEHIND, END = range(NUMBERS)

#: the ordinal of an item that a timer made; it sorts before all records
NO_ORDINAL = -1


#: kinds of packed rows. RECORDS: Arrow rows of a topic partition or of an output; IDLE_CLOCK: a time of the idle clock;
#: DEAD_LETTERS: Arrow rows; COUNTS: a part of the batch's report; TOPICS: the number of topic partitions of each
#: stream; NOT_READ: why a task cannot read the records of the batch
RECORDS, IDLE_CLOCK, DEAD_LETTERS, COUNTS, TOPICS, NOT_READ = 0, 1, 2, 3, 4, 5
#: the kinds that go to the sink unchanged, past the bucket
PASS_THROUGH = (DEAD_LETTERS, COUNTS)
#: a flag that is added to a kind: the bytes are in a file, and the row has a reference to it (spool.py)
SPOOLED = 64
#: the bytes of a packed row: in memory, or in a file that is mapped into memory
Body = bytes | memoryview
#: a packed row: its kind, and its bytes
Packed = tuple[int, Body]
#: in place of the number of a record's topic partition: the record is written to all topic partitions
BROADCAST = -1
#: the kind of a record that is a tuple with a header for the window mark that follows it
TUPLE_WITH_MARK = 10
#: Spark's schema of packed rows on their way to the buckets
ROUTED = "bucket int, kind int, packed binary"
#: a (time, ordinal) limit: all records before this time have come, and at this time those of topic partitions up to the
#: ordinal (inclusive)
Limit = tuple[int, int]
#: the fields of a slice, beside its stream and its rows
NAMES = ("first", "number", "offset", "start", "end")
SEED = 42  # the seed of Spark's hash expression
MASK = 0xFFFFFFFF


def ordinal(port: int, topic_partition: int) -> int:
    """The ordinal of the first record of a topic partition. Later records have larger ordinals."""
    return port << PORT | topic_partition << TOPIC_PARTITION


def first_of(ordinal: P) -> P:
    """The ordinal of the first record of the topic partition of `ordinal`."""
    return ordinal >> TOPIC_PARTITION << TOPIC_PARTITION


def port_of(ordinal: P) -> P:
    return ordinal >> PORT


def topic_partition_of(ordinal: P) -> P:
    return ordinal >> TOPIC_PARTITION & (1 << PORT - TOPIC_PARTITION) - 1


def pack(batch: pa.RecordBatch, metadata: Mapping[str, str | int]) -> bytes:
    """The rows as an Arrow IPC stream. `metadata` is stored as the metadata of its schema."""
    schema = batch.schema.with_metadata({name: str(value) for name, value in metadata.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(data: Body) -> tuple[pa.RecordBatch, dict[str, str]]:
    """The rows and `about` (values as text) that `pack` wrote. The columns are views of `data`: nothing is copied."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = reader.read_next_batch()
    metadata = {name.decode(): value.decode() for name, value in (batch.schema.metadata or {}).items()}
    return batch.replace_schema_metadata(None), metadata


def pieces(rows: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The rows in order, in pieces of about `size` bytes each. Yields nothing for no rows."""
    count = max(1, -(-rows.num_rows // max(1, -(-rows.nbytes // size))))
    for start in range(0, rows.num_rows, count):
        yield rows if count >= rows.num_rows else rows.slice(start, count)


def packed_time(time: int) -> bytes:
    """The bytes of an IDLE_CLOCK row, from a time in nanoseconds."""
    return time.to_bytes(8, "big", signed=True)


def time_of(packed: Body) -> int:
    return int.from_bytes(packed, "big", signed=True)


def topics_row(topic_partitions: Mapping[str, int]) -> Packed:
    """A packed row with the number of topic partitions of each stream."""
    return TOPICS, orjson.dumps(dict(topic_partitions))


def topics_of(packed: Body) -> dict[str, int]:
    return orjson.loads(packed)  # type: ignore[no-any-return]


def split_pass_through(topics: Mapping[str, int], arrived: Iterable[Packed]) -> tuple[list[Packed], list[Packed]]:
    """The rows that pass the bucket unchanged, and the rows for the bucket, with a TOPICS row behind them.

    Without rows for the bucket there is no TOPICS row.
    """
    passing: list[Packed] = []
    for_bucket: list[Packed] = []
    for row in arrived:
        (passing if passes_through(row) else for_bucket).append(row)
    return passing, [*for_bucket, topics_row(topics)] if for_bucket else []


def passes_through(row: Packed) -> bool:
    return row[0] & ~SPOOLED in PASS_THROUGH


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """The rows of a topic partition from one batch that go to one bucket, or the rows of it that are still buffered.

    Times are stamps, in nanoseconds since 1970. All but `rows` is equal in all buckets.

    first    ordinal of the topic partition
    number   number of the first row of all buckets
    offset   offset of the record from which the numbers are counted
    start    time of the first record of all buckets
    end      time of the last record of all buckets
    rows     columns: number, stamp, kind, the record's key if it is needed, if the stream has event time the watermark
             or the time of a STEP, and the attributes, which are null for marks and steps (partition_router.py)
    """

    stream: str
    first: int
    number: int
    offset: int
    start: int
    end: int
    rows: pa.RecordBatch

    @classmethod
    def of(cls, packed: Body) -> PartitionSlice:
        rows, metadata = unpack(packed)
        return cls(stream=metadata["stream"], rows=rows, **{name: int(metadata[name]) for name in NAMES})

    def packed(self) -> bytes:
        return pack(self.rows, {name: getattr(self, name) for name in ("stream", *NAMES)})

    @property
    def order(self) -> tuple[int, int, int]:
        return self.first, self.offset, self.number

    @property
    def ordinals(self) -> np.ndarray:
        return self.rows.column(0).to_numpy().astype(np.int64) + self.first  # type: ignore[no-any-return]

    @property
    def stamps(self) -> np.ndarray:
        return self.rows.column(1).to_numpy()  # type: ignore[no-any-return]

    @property
    def kinds(self) -> np.ndarray:
        return self.rows.column(2).to_numpy()  # type: ignore[no-any-return]

    def require_order(self) -> None:
        """Raises InvariantError unless ordinals rise and times do not decrease."""
        numbers, stamps = self.rows.column(0).to_numpy(), self.stamps
        if (numbers[1:] <= numbers[:-1]).any() or (stamps[1:] < stamps[:-1]).any():
            raise violated("inputs in order", f"stream {self.stream}, ordinal {self.first}, offset {self.offset}")

    def since(self, time: int) -> PartitionSlice:
        """The slice with each stamp before `time` raised to `time`, the time that the topic partition has reached."""
        if self.start >= time:
            return self
        rows = self.rows.set_column(1, "@stamp", pa.array(np.maximum(self.stamps, time)))
        return replace(self, start=max(self.start, time), end=max(self.end, time), rows=rows)

    def counted_from(self, offset: int) -> PartitionSlice:
        """The slice with its numbers counted from another offset."""
        if offset == self.offset:
            return self
        more = NUMBERS * (self.offset - offset)
        numbers = self.rows.column(0).to_numpy() + np.uint32(more)
        rows = self.rows.set_column(0, "@number", pa.array(numbers))
        return replace(self, number=self.number + more, offset=offset, rows=rows)

    def copied(self) -> PartitionSlice:
        """The slice with rows of its own. A view of some rows of larger arrays would be packed with other padding."""
        return replace(self, rows=self.rows.take(pa.array(np.arange(self.rows.num_rows))))

    def divided(self, bucket_of: np.ndarray, buckets: int, steps: Steps | None) -> Iterator[PartitionSlice]:
        """The slice of each bucket (`shares`)."""
        for rows, _ in shares(self.rows, bucket_of, buckets, steps):
            yield replace(self, rows=rows)

    @staticmethod
    def joined(slices: Sequence[PartitionSlice]) -> PartitionSlice:
        """The slice that was divided into these slices, one for each bucket."""
        first, *others = slices
        tuples = (slice_.rows.filter(pa.array(slice_.kinds == TUPLE)) for slice_ in others)
        rows = pa.concat_batches([first.rows.filter(pa.array(first.kinds != STEP)), *tuples])
        return replace(first, rows=rows.take(pa.array(np.argsort(rows.column(0).to_numpy(), kind="stable"))))

    def split(self, limit: Limit) -> tuple[PartitionSlice, PartitionSlice]:
        """The rows up to the limit (inclusive), and the rows behind it."""
        time, first = limit
        count = int(np.searchsorted(self.stamps, time, "right" if self.first <= first else "left"))
        return (
            replace(self, end=min(self.end, time), rows=self.rows.slice(0, count)),
            replace(self, rows=self.rows.slice(count)),
        )


def shares(
    rows: pa.RecordBatch, bucket_of: np.ndarray, buckets: int, steps: Steps | None
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """By bucket: the rows that it gets, and their numbers in `rows`. It gets its own tuples, all marks, and for each
    tuple of another bucket that is a step a STEP (ET1).

    bucket_of   the bucket of each tuple
    steps       the tuples whose times all buckets need; None: none
    """
    is_tuple = rows.column(2).to_numpy() == TUPLE
    bucket, step = np.full(len(is_tuple), -1, np.int32), np.zeros(len(is_tuple), np.bool_)
    bucket[is_tuple] = bucket_of
    if steps is not None:
        step[is_tuple] = steps.chosen
    for number in range(buckets):
        is_own = ~is_tuple | (bucket == number)
        chosen = np.flatnonzero(is_own | step)
        if steps is None or is_own[chosen].all():
            yield rows.filter(pa.array(is_own)), chosen
        else:
            yield _with_steps(rows, chosen, is_own[chosen], steps.times[np.cumsum(is_tuple)[chosen] - 1]), chosen


def _with_steps(rows: pa.RecordBatch, chosen: np.ndarray, is_own: np.ndarray, times: np.ndarray) -> pa.RecordBatch:
    """The chosen rows. A row that is not `is_own` becomes a STEP with its time."""
    all_rows, own_rows = pa.array(chosen), pa.array(chosen, mask=~is_own)
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        match name:
            case "@kind":
                columns.append(pa.array(np.where(is_own, column.to_numpy()[chosen], STEP).astype(np.int8)))
            case "@watermark":
                columns.append(pa.array(np.where(is_own, column.to_numpy()[chosen], times)))
            case _:
                columns.append(column.take(all_rows if name in ("@number", "@stamp") else own_rows))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def labels(buckets: int) -> list[int]:
    """One label for each bucket, in order of the buckets.

    The number of a bucket cannot be its label: with two buckets, for instance, Spark's hash sends both 0 and 1 to the
    same shuffle partition.
    """
    by_bucket: dict[int, int] = {}
    for label in count():
        by_bucket.setdefault(hash_int(label) % buckets, label)
        if len(by_bucket) == buckets:
            return [by_bucket[bucket] for bucket in range(buckets)]
    raise AssertionError


def hash_int(value: int) -> int:
    """Spark's `hash(int)`: murmur3 of four bytes, as a signed 32-bit number.

    Spark's `pmod` of the hash is Python's `%`: neither is negative if the divisor is positive.
    """
    mixed = _rotate(value * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    state = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK
