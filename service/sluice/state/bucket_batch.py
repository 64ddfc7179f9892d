"""The input of a bucket in one batch: unpacks its packed rows, sorts their items into the order in which the engine
handles them, and cuts them into parts that fit into memory.

With `merge: timestamp`, a reorder buffer stands before this. It takes a bucket's packed rows and returns packed rows.
It delays a record until all topic partitions have passed its time. With it, the order of the records is (stamp, port,
topic partition, offset) over all batches; without it, only within each batch. So the outputs do not depend on where
batches end.

A topic partition has passed a time if no later record of it can have an earlier stamp:

- it has sent a later record, or its final mark; or
- the idle clock shows that it had `merge_wait` to send one.

All buckets have this information about all topic partitions, and buffer slices of the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.packed_rows import (
    IDLE_CLOCK,
    RECORDS,
    Limit,
    Packed,
    PartitionSlice,
    ordinal,
    packed_time,
    time_of,
    topic_partition_of,
)
from sluice.batch.query_plan import Plan
from sluice.engine.graph import Clock
from sluice.engine.stream.items import FINAL, MAX_TIME, TUPLE, Items
from sluice.invariants import all_checked, violated
from sluice.time_units import UNSET


@dataclass(frozen=True, slots=True)
class Batch:
    """The input of a bucket in one batch, or in one part of a batch, in handling order.

    inputs   the items of each stream that has some
    ordinals the ordinal of the record of each event (packed_rows.py)
    firsts   the offset of each topic partition's first record in the batch, by the ordinal of that record
    clock    the operator clock at the start and the end of the batch or part
    """

    inputs: dict[str, Items]
    ordinals: np.ndarray
    firsts: dict[int, int]
    clock: Clock

    @classmethod
    def parts(cls, plan: Plan, rows: Sequence[Packed], clock: int) -> Iterator[Batch]:
        """The parts of a batch, from its packed rows (see `parts_of`)."""
        slices = [PartitionSlice.of(packed) for kind, packed in rows if kind == RECORDS]
        return cls.parts_of(plan, slices, [time_of(packed) for kind, packed in rows if kind == IDLE_CLOCK], clock)

    @classmethod
    def parts_of(
        cls, plan: Plan, slices: Iterable[PartitionSlice], idle_clocks: Sequence[int], clock: int
    ) -> Iterator[Batch]:
        """The parts of a batch that the bucket handles one after the other: a large batch has several parts.

        idle_clocks   times of the idle clock, nanoseconds since 1970
        clock         the operator clock before the batch, UNSET if it has not started yet

        Yields nothing if no operator clock has started and the slices do not start it; an idle clock's time alone does
        not. The outputs do not depend on where the parts are cut.
        """
        slices = sorted(slices, key=lambda part_slice: part_slice.order)
        ends = [part_slice.end for part_slice in slices]
        if clock != UNSET or plan.pipeline.settings.clock_origin is not None:
            ends += [clock, *idle_clocks]
        elif ends:  # the time of an idle clock alone does not start the operator clock
            ends += idle_clocks
        if not ends:
            return
        start = max(clock, min((part_slice.start for part_slice in slices), default=max(ends)))
        firsts = {part_slice.first: part_slice.offset for part_slice in slices}
        filled = [part_slice for part_slice in slices if part_slice.rows.num_rows]
        for part_slice in filled if all_checked() else ():
            part_slice.require_order()
        for of_part, end in _cut(filled, clock, max(ends), plan.bounds.part):
            yield cls(*_handled(plan, of_part, clock), firsts, Clock(start, end))
            clock = start = end


def _cut(slices: list[PartitionSlice], clock: int, end: int, size: int) -> Iterator[tuple[list[PartitionSlice], int]]:
    """Cuts the rows, in handling order, into parts of about `size` bytes.

    Yields the slices of each part, and the operator clock after the part. The rows of a partition slice are in handling
    order, so the rows of one part are contiguous.
    """
    sizes = [rows_of.rows.nbytes for rows_of in slices]
    if sum(sizes) <= size:
        yield slices, end
        return
    counts = [rows_of.rows.num_rows for rows_of in slices]
    at = np.maximum(np.concatenate([rows_of.stamps for rows_of in slices]), clock)
    order = np.argsort(at, kind="stable")
    owner = np.repeat(np.arange(len(slices)), counts)[order]
    share = np.array([size_of / max(count, 1) for size_of, count in zip(sizes, counts, strict=True)])
    part = np.cumsum(share[owner]) // size
    stops = [*(np.flatnonzero(np.diff(part)) + 1).tolist(), len(order)]
    taken = np.zeros(len(slices), np.int64)
    start = 0
    for stop in stops:
        row_counts = np.bincount(owner[start:stop], minlength=len(slices))
        cut = zip(slices, taken.tolist(), row_counts.tolist(), strict=True)
        rows = [replace(rows_of, rows=rows_of.rows.slice(first, count)) for rows_of, first, count in cut if count]
        yield rows, end if stop == len(order) else int(at[order[stop - 1]])
        taken += row_counts
        start = stop


def _handled(plan: Plan, slices: list[PartitionSlice], clock: int) -> tuple[dict[str, Items], np.ndarray]:
    """The items of each stream, and the ordinal of the record of each event. Both are in handling order."""
    if not slices:
        return {}, np.zeros(0, np.int64)
    at = np.maximum(np.concatenate([part_slice.stamps for part_slice in slices]), clock)
    ordinals = np.concatenate([part_slice.ordinals for part_slice in slices])
    order = np.argsort(at, kind="stable")  # the rows are in order of ordinals, so equal times keep that order
    event = np.empty(len(order), np.int64)
    event[order] = np.arange(len(order))
    inputs, start = {}, 0
    for stream in plan.inputs:
        of_stream = [part_slice for part_slice in slices if part_slice.stream == stream.name]
        stop = start + sum(part_slice.rows.num_rows for part_slice in of_stream)
        if stop > start:
            rows = np.argsort(event[start:stop])
            columns = event[start:stop][rows], at[start:stop][rows]
            timed = stream.event_time is not None
            inputs[stream.name] = _items(of_stream, rows, *columns, keyed=stream.name in plan.keyed, timed=timed)
        start = stop
    return inputs, ordinals[order]


def _items(
    slices: list[PartitionSlice], order: np.ndarray, event: np.ndarray, at: np.ndarray, *, keyed: bool, timed: bool
) -> Items:
    """The items of one stream, from the rows of its topic partitions in the given order.

    keyed   whether the rows have the keys of their records
    timed   whether the rows have watermarks
    """
    table = pa.Table.from_batches([part_slice.rows for part_slice in slices]).combine_chunks()
    if not np.array_equal(order, np.arange(len(order))):
        table = table.take(pa.array(order))
    (rows,) = table.to_batches()
    sources = [topic_partition_of(part_slice.first) for part_slice in slices]
    source = np.repeat(np.array(sources, np.int32), [part_slice.rows.num_rows for part_slice in slices])[order]
    kind = rows.column(2).to_numpy()
    key, keys = _keys(rows.column(3)) if keyed else (np.full(len(event), -1, np.int32), pa.array([], pa.binary()))
    watermark = rows.column(3 + keyed).to_numpy() if timed else None
    tuples = rows.select(range(3 + keyed + timed, rows.num_columns))
    if kind.any():
        tuples = tuples.filter(pa.array(kind == TUPLE))
    return Items(event, at, kind, source, key, keys, tuples, watermark)  # type: ignore[arg-type]


def _keys(column: pa.BinaryArray) -> tuple[np.ndarray, pa.BinaryArray]:
    key = np.arange(len(column), dtype=np.int32)
    if column.null_count:
        key[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return key, pc.fill_null(column, b"")


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
        released = [*others, *((RECORDS, piece.packed()) for piece in self._released(limit))]
        late = [held.stream for held in self.slices if (held.end, held.first) <= limit]
        if late:
            raise violated("nothing held is late", f"stream {late[0]}, released up to {limit[0]}")
        if UNSET < limit[0] < MAX_TIME:
            released.append((IDLE_CLOCK, packed_time(limit[0])))
        return released

    def _hold(self, slices: Iterable[PartitionSlice]) -> None:
        for arrived in sorted(slices, key=lambda arrived: arrived.order):
            held = arrived.since(self.frontiers.get(arrived.first, UNSET))
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
        for held in slices:
            base = bases.setdefault(held.first, held.offset)
            if (held.start, held.first) > limit:
                self.slices.append(held)
                continue
            going, waiting = held.split(limit)
            yield going.counted_from(base)
            if (held.end, held.first) > limit:
                self.slices.append(waiting)

    # ---- state ------------------------------------------------------------------------------------------------------

    def save(self) -> bytes:
        parts = [held.packed() for held in self.slices]
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
