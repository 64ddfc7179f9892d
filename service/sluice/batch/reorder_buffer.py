"""The reorder buffer of `merge: timestamp`: it delays a record until all topic partitions have passed its time.

The buffer takes a bucket's packed rows before the engine, and returns packed rows. With it, the order of the records is
(stamp, port, topic partition, offset) over all batches; without it, only within each batch. So the outputs do not
depend on where batches end.

A topic partition has passed a time if no later record of it can have an earlier stamp:

- it has sent a later record, or its final mark; or
- the idle clock shows that it had `merge_wait` to send one.

All buckets have this information about all topic partitions, and buffer slices of the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from sluice.batch.envelope import IDLE_CLOCK, RECORDS, Packed, packed_time, time_of
from sluice.batch.partition_slice import Limit, PartitionSlice
from sluice.batch.query_plan import Plan
from sluice.batch.record_order import ordinal
from sluice.engine.stream.items import FINAL, MAX_TIME
from sluice.invariants import violated
from sluice.time_units import UNSET


@dataclass(slots=True)
class ReorderBuffer:
    """The reorder buffer of one bucket.

    frontiers   by the ordinal of a topic partition: the time that the topic partition has passed, ns since 1970
    finals      ordinals of the topic partitions that have sent their final mark
    slices      the buffered slices, in order of arrival
    """

    frontiers: dict[int, int] = field(default_factory=dict)
    finals: set[int] = field(default_factory=set)
    slices: list[PartitionSlice] = field(default_factory=list)

    # ---- in and out -------------------------------------------------------------------------------------------------

    def through(self, plan: Plan, rows: Sequence[Packed]) -> list[Packed]:
        """Buffers the rows of a batch. Returns the packed rows that the engine gets in their place."""
        self._hold(PartitionSlice.of(packed) for kind, packed in rows if kind == RECORDS)
        idle_clocks = [time_of(packed) for kind, packed in rows if kind == IDLE_CLOCK]
        if idle_clocks:
            self._wait_no_longer(plan, max(idle_clocks) - plan.pipeline.settings.merge_wait)
        awaited = [first for first in topic_partitions(plan) if first not in self.finals]
        limit = min(((self.frontiers.get(first, UNSET), first) for first in awaited), default=(MAX_TIME, 0))
        others = [row for row in rows if row[0] not in (RECORDS, IDLE_CLOCK)]
        released = [*others, *((RECORDS, one.packed()) for one in self._released(limit))]
        late = [held.stream for held in self.slices if (held.end, held.first) <= limit]
        if late:
            raise violated("nothing held is late", f"stream {late[0]}, released up to {limit[0]}")
        if UNSET < limit[0] < MAX_TIME:
            released.append((IDLE_CLOCK, packed_time(limit[0])))
        return released

    def _hold(self, slices: Iterable[PartitionSlice]) -> None:
        for one in sorted(slices, key=lambda one: one.order):
            held = one.since(self.frontiers.get(one.first, UNSET))
            self.frontiers[held.first] = held.end
            if (held.kinds == FINAL).any():
                self.finals.add(held.first)
            self.slices.append(held)

    def _wait_no_longer(self, plan: Plan, time: int) -> None:
        for first in topic_partitions(plan):
            self.frontiers[first] = max(self.frontiers.get(first, UNSET), time)

    def _released(self, limit: Limit) -> Iterator[PartitionSlice]:
        """Removes and returns the rows up to the limit (inclusive).

        A slice stays in the buffer, even if it is empty in this bucket, until the limit has reached its end in all
        buckets.
        """
        slices, self.slices = self.slices, []
        bases: dict[int, int] = {}
        for one in slices:
            base = bases.setdefault(one.first, one.offset)
            if (one.start, one.first) > limit:
                self.slices.append(one)
                continue
            going, waiting = one.split(limit)
            yield going.counted_from(base)
            if (one.end, one.first) > limit:
                self.slices.append(waiting)

    # ---- state ------------------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        parts = [one.packed() for one in self.slices]
        sizes, finals = [len(part) for part in parts], sorted(self.finals)
        head = orjson.dumps({"frontiers": list(self.frontiers.items()), "finals": finals, "sizes": sizes})
        return b"".join([len(head).to_bytes(4, "big"), head, *parts])

    @classmethod
    def load(cls, data: bytes) -> ReorderBuffer:
        start = 4 + int.from_bytes(data[:4], "big")
        head: Mapping[str, Any] = orjson.loads(data[4:start])
        buffer = cls(dict(head["frontiers"]), set(head["finals"]))
        for size in head["sizes"]:
            buffer.slices.append(PartitionSlice.of(data[start : start + size]))
            start += size
        return buffer


def in_order(plan: Plan, saved: bytes, rows: Sequence[Packed]) -> tuple[list[Packed], bytes]:
    """Buffers a batch's rows in the reorder buffer `saved` (empty: a new one).

    Returns the rows to handle now, and the new state of the buffer.
    """
    buffer = ReorderBuffer.load(saved) if saved else ReorderBuffer()
    released = buffer.through(plan, rows)
    return released, buffer.save()


def topic_partitions(plan: Plan) -> Iterator[int]:
    """The ordinals of all topic partitions of the inputs."""
    for port, stream in enumerate(plan.inputs):
        for number in range(plan.topic_partitions[stream.name]):
            yield ordinal(port, number)
