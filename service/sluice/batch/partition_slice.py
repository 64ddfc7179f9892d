"""Partition slices: the records of one topic partition, in one batch, that go to one bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sluice.batch.envelope import Body, pack, unpack
from sluice.batch.record_order import NUMBERS
from sluice.engine.stream.items import TUPLE
from sluice.invariants import violated

#: a (time, ordinal) limit: all records before this time have come, and at this time those of topic partitions up to the
#: ordinal (inclusive)
Limit = tuple[int, int]

#: the fields of a slice, beside its stream and its rows
NAMES = ("first", "number", "offset", "start", "end")


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """The rows of a topic partition from one batch that go to one bucket, or those of them that are still buffered.

    Times are stamps, in nanoseconds since 1970. All but `rows` is equal in all buckets.

    first    ordinal of the topic partition
    number   number of the first row of all buckets
    offset   offset of the record from which the numbers are counted
    start    time of the first record of all buckets
    end      time of the last record of all buckets
    rows     columns: number, stamp, kind, the record's key if it is needed, the watermark if the stream has event time,
             and the attributes, which are null for marks (partition_router.py)
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
        rows, about = unpack(packed)
        return cls(stream=about["stream"], rows=rows, **{name: int(about[name]) for name in NAMES})

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

    def divided(self, bucket_of: np.ndarray, buckets: int) -> Iterator[PartitionSlice]:
        """The slice of each bucket: its own tuples, and all marks. `bucket_of` has the bucket of each tuple."""
        for chosen in rows_of_buckets(self.kinds, bucket_of, buckets):
            yield replace(self, rows=self.rows.filter(pa.array(chosen)))

    @staticmethod
    def joined(slices: Sequence[PartitionSlice]) -> PartitionSlice:
        """The slice that was divided into these slices, which are those of all buckets."""
        first, *others = slices
        tuples = (one.rows.filter(pa.array(one.kinds == TUPLE)) for one in others)
        rows = pa.concat_batches([first.rows, *tuples])
        return replace(first, rows=rows.take(pa.array(np.argsort(rows.column(0).to_numpy(), kind="stable"))))

    def split(self, limit: Limit) -> tuple[PartitionSlice, PartitionSlice]:
        """The rows up to the limit (inclusive), and the rows behind it."""
        time, first = limit
        count = int(np.searchsorted(self.stamps, time, "right" if self.first <= first else "left"))
        return (
            replace(self, end=min(self.end, time), rows=self.rows.slice(0, count)),
            replace(self, rows=self.rows.slice(count)),
        )


def rows_of_buckets(kinds: np.ndarray, bucket_of: np.ndarray, buckets: int) -> Iterator[np.ndarray]:
    """By bucket: whether it gets each row. It gets its own tuples, and all marks. `bucket_of` has the bucket of each
    tuple.
    """
    marks = kinds != TUPLE
    bucket = np.zeros(len(marks), np.int32)
    bucket[~marks] = bucket_of
    for number in range(buckets):
        yield (bucket == number) | marks
