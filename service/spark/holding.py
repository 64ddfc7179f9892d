"""`merge: timestamp`: a record waits until every topic partition has passed its time, so that batches do not matter.

It stands in front of the engine, and takes and gives packed rows. What a bucket gets is then in the order of (stamp,
port, topic partition, offset) over all batches, as it is within one batch without it. A topic partition has passed a
time when no record of it can be stamped earlier: it has sent a later one, or its final mark, or the pulse says that it
had so long to send one (`merge_wait`). All buckets know this of all topic partitions, and hold the same stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from service.engine.items import FINAL, MAXIMUM
from service.spark.packed import PULSE, RECORDS, Packed, pack, unpack
from service.spark.places import NUMBERS, place
from service.spark.plan import Plan

#: before every time
NEVER = -(2**63)
#: what is said about the rows of a stretch
NAMES = ("first", "number", "offset", "start", "end")


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows of a topic partition from one batch, or those of them that still wait (route.py).

    first    the place of the topic partition
    number   of the first row, whichever bucket has it
    offset   of the record that numbers count from
    start    the time of the first record, whichever bucket has it
    end      the time of the last one
    """

    stream: str
    first: int
    number: int
    offset: int
    start: int
    end: int
    rows: pa.RecordBatch

    @classmethod
    def of(cls, packed: bytes) -> Stretch:
        rows, about = unpack(packed)
        return cls(stream=about["stream"], rows=rows, **{name: int(about[name]) for name in NAMES})

    def packed(self) -> bytes:
        return pack(self.rows, {name: getattr(self, name) for name in ("stream", *NAMES)})

    @property
    def stamps(self) -> np.ndarray:
        return self.rows.column(1).to_numpy()  # type: ignore[no-any-return]

    def since(self, time: int) -> Stretch:
        """Stamped no earlier than `time`: it goes on where the topic partition was."""
        if self.start >= time:
            return self
        rows = self.rows.set_column(1, "@stamp", pa.array(np.maximum(self.stamps, time)))
        return replace(self, start=max(self.start, time), end=max(self.end, time), rows=rows)

    def counted_from(self, offset: int) -> Stretch:
        """With its numbers counted from another offset."""
        if offset == self.offset:
            return self
        more = NUMBERS * (self.offset - offset)
        numbers = self.rows.column(0).to_numpy() + np.uint32(more)
        rows = self.rows.set_column(0, "@number", pa.array(numbers))
        return replace(self, number=self.number + more, offset=offset, rows=rows)

    def split(self, limit: Limit) -> tuple[Stretch, Stretch]:
        """What may go, and what waits."""
        time, first = limit
        count = int(np.searchsorted(self.stamps, time, "right" if self.first <= first else "left"))
        return (
            replace(self, end=min(self.end, time), rows=self.rows.slice(0, count)),
            replace(self, rows=self.rows.slice(count)),
        )


#: everything up to this time has come, at this time that of topic partitions up to this place
Limit = tuple[int, int]


@dataclass(slots=True)
class Holding:
    """What a bucket holds back, how far each topic partition is, and which of them are final, by their places."""

    frontiers: dict[int, int] = field(default_factory=dict)
    finals: set[int] = field(default_factory=set)
    stretches: list[Stretch] = field(default_factory=list)

    # ---- in and out -------------------------------------------------------------------------------------------------

    def through(self, plan: Plan, rows: Sequence[Packed]) -> list[Packed]:
        """What the engine gets in this batch in place of its rows."""
        self._hold(Stretch.of(packed) for holds, packed in rows if holds == RECORDS)
        pulses = [int.from_bytes(packed, "big") for holds, packed in rows if holds == PULSE]
        if pulses:
            self._wait_no_longer(plan, max(pulses) - plan.pipeline.settings.merge_wait)
        awaited = [first for first in topic_partitions(plan) if first not in self.finals]
        limit = min(((self.frontiers.get(first, NEVER), first) for first in awaited), default=(MAXIMUM, 0))
        released = [(RECORDS, stretch.packed()) for stretch in self._released(limit)]
        if NEVER < limit[0] < MAXIMUM:
            released.append((PULSE, limit[0].to_bytes(8, "big", signed=True)))
        return released

    def _hold(self, stretches: Iterable[Stretch]) -> None:
        for stretch in sorted(stretches, key=lambda one: (one.first, one.offset, one.number)):
            held = stretch.since(self.frontiers.get(stretch.first, NEVER))
            self.frontiers[held.first] = held.end
            if (held.rows.column(2).to_numpy() == FINAL).any():
                self.finals.add(held.first)
            self.stretches.append(held)

    def _wait_no_longer(self, plan: Plan, time: int) -> None:
        for first in topic_partitions(plan):
            self.frontiers[first] = max(self.frontiers.get(first, NEVER), time)

    def _released(self, limit: Limit) -> Iterator[Stretch]:
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
    def load(cls, data: bytes) -> Holding:
        start = 4 + int.from_bytes(data[:4], "big")
        head: Mapping[str, Any] = orjson.loads(data[4:start])
        holding = cls(dict(head["frontiers"]), set(head["finals"]))
        for size in head["sizes"]:
            holding.stretches.append(Stretch.of(data[start : start + size]))
            start += size
        return holding


def topic_partitions(plan: Plan) -> Iterator[int]:
    """The places of all topic partitions that are read."""
    for port, stream in enumerate(plan.inputs):
        for number in range(plan.topic_partitions[stream.name]):
            yield place(port, number)
