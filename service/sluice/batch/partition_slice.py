"""Rows of a topic partition on their way to a bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sluice.batch.envelope import Body, pack, unpack
from sluice.batch.record_order import NUMBERS

#: everything up to this time has come, at this time that of topic partitions up to this place
Limit = tuple[int, int]

#: what is said about the rows of a stretch, beside their stream
NAMES = ("first", "number", "offset", "start", "end")


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """The rows of a topic partition from one batch that are in one bucket, or those of them that still wait.

    first    the place of the topic partition
    number   of the first row, whichever bucket has it
    offset   of the record that numbers count from
    start    the time of the first record, whichever bucket has it
    end      the time of the last one
    rows     number, stamp, kind, the record's key where it is needed, the watermark where there is event time, and
             the attributes, which are null for marks (route.py)
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
    def places(self) -> np.ndarray:
        return self.rows.column(0).to_numpy().astype(np.int64) + self.first  # type: ignore[no-any-return]

    @property
    def stamps(self) -> np.ndarray:
        return self.rows.column(1).to_numpy()  # type: ignore[no-any-return]

    @property
    def kinds(self) -> np.ndarray:
        return self.rows.column(2).to_numpy()  # type: ignore[no-any-return]

    def since(self, time: int) -> PartitionSlice:
        """Stamped no earlier than `time`: it goes on where the topic partition was."""
        if self.start >= time:
            return self
        rows = self.rows.set_column(1, "@stamp", pa.array(np.maximum(self.stamps, time)))
        return replace(self, start=max(self.start, time), end=max(self.end, time), rows=rows)

    def counted_from(self, offset: int) -> PartitionSlice:
        """With its numbers counted from another offset."""
        if offset == self.offset:
            return self
        more = NUMBERS * (self.offset - offset)
        numbers = self.rows.column(0).to_numpy() + np.uint32(more)
        rows = self.rows.set_column(0, "@number", pa.array(numbers))
        return replace(self, number=self.number + more, offset=offset, rows=rows)

    def split(self, limit: Limit) -> tuple[PartitionSlice, PartitionSlice]:
        """What may go, and what waits."""
        time, first = limit
        count = int(np.searchsorted(self.stamps, time, "right" if self.first <= first else "left"))
        return (
            replace(self, end=min(self.end, time), rows=self.rows.slice(0, count)),
            replace(self, rows=self.rows.slice(count)),
        )
