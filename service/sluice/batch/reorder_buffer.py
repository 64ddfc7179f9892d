"""`merge: timestamp`: a record waits until every topic partition has passed its time, so that batches do not matter.

It stands in front of the engine, and takes and gives packed rows. What a bucket gets is then in the order of (stamp,
port, topic partition, offset) over all batches, as it is within one batch without it. A topic partition has passed a
time when no record of it can be stamped earlier: it has sent a later one, or its final mark, or the pulse says that it
had so long to send one (`merge_wait`). All buckets know this of all topic partitions, and hold the same stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from sluice.batch.envelope import IDLE_CLOCK, RECORDS, Packed, packed_time, time_of
from sluice.batch.partition_slice import Limit, PartitionSlice
from sluice.batch.query_plan import Plan
from sluice.batch.record_order import place
from sluice.engine.stream.items import FINAL, MAX_TIME
from sluice.time_units import UNSET


@dataclass(slots=True)
class ReorderBuffer:
    """What a bucket holds back, how far each topic partition is, and which of them are final, by their places."""

    frontiers: dict[int, int] = field(default_factory=dict)
    finals: set[int] = field(default_factory=set)
    stretches: list[PartitionSlice] = field(default_factory=list)

    # ---- in and out -------------------------------------------------------------------------------------------------

    def through(self, plan: Plan, rows: Sequence[Packed]) -> list[Packed]:
        """What the engine gets in this batch in place of its rows."""
        self._hold(PartitionSlice.of(packed) for holds, packed in rows if holds == RECORDS)
        pulses = [time_of(packed) for holds, packed in rows if holds == IDLE_CLOCK]
        if pulses:
            self._wait_no_longer(plan, max(pulses) - plan.pipeline.settings.merge_wait)
        awaited = [first for first in topic_partitions(plan) if first not in self.finals]
        limit = min(((self.frontiers.get(first, UNSET), first) for first in awaited), default=(MAX_TIME, 0))
        others = [row for row in rows if row[0] not in (RECORDS, IDLE_CLOCK)]
        released = [*others, *((RECORDS, stretch.packed()) for stretch in self._released(limit))]
        if UNSET < limit[0] < MAX_TIME:
            released.append((IDLE_CLOCK, packed_time(limit[0])))
        return released

    def _hold(self, stretches: Iterable[PartitionSlice]) -> None:
        for stretch in sorted(stretches, key=lambda stretch: stretch.order):
            held = stretch.since(self.frontiers.get(stretch.first, UNSET))
            self.frontiers[held.first] = held.end
            if (held.kinds == FINAL).any():
                self.finals.add(held.first)
            self.stretches.append(held)

    def _wait_no_longer(self, plan: Plan, time: int) -> None:
        for first in topic_partitions(plan):
            self.frontiers[first] = max(self.frontiers.get(first, UNSET), time)

    def _released(self, limit: Limit) -> Iterator[PartitionSlice]:
        """All that may go. A stretch is held, be it empty, until all of it may go in every bucket."""
        stretches, self.stretches = self.stretches, []
        bases: dict[int, int] = {}
        for stretch in stretches:
            base = bases.setdefault(stretch.first, stretch.offset)
            if (stretch.start, stretch.first) > limit:
                self.stretches.append(stretch)
                continue
            going, waiting = stretch.split(limit)
            yield going.counted_from(base)
            if (stretch.end, stretch.first) > limit:
                self.stretches.append(waiting)

    # ---- state ------------------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        parts = [stretch.packed() for stretch in self.stretches]
        sizes, finals = [len(part) for part in parts], sorted(self.finals)
        head = orjson.dumps({"frontiers": list(self.frontiers.items()), "finals": finals, "sizes": sizes})
        return b"".join([len(head).to_bytes(4, "big"), head, *parts])

    @classmethod
    def load(cls, data: bytes) -> ReorderBuffer:
        start = 4 + int.from_bytes(data[:4], "big")
        head: Mapping[str, Any] = orjson.loads(data[4:start])
        holding = cls(dict(head["frontiers"]), set(head["finals"]))
        for size in head["sizes"]:
            holding.stretches.append(PartitionSlice.of(data[start : start + size]))
            start += size
        return holding


def in_order(plan: Plan, saved: bytes, rows: Sequence[Packed]) -> tuple[list[Packed], bytes]:
    """What need not wait for other topic partitions any more, and what a bucket holds then; empty: nothing yet."""
    holding = ReorderBuffer.load(saved) if saved else ReorderBuffer()
    released = holding.through(plan, rows)
    return released, holding.save()


def topic_partitions(plan: Plan) -> Iterator[int]:
    """The places of all topic partitions that are read."""
    for port, stream in enumerate(plan.inputs):
        for number in range(plan.topic_partitions[stream.name]):
            yield place(port, number)
