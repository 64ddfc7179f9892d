"""What a bucket gets in one batch: from packed rows to items in handling order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from service.engine.graph import Clock
from service.engine.items import TUPLE, Items
from service.spark.packed import PULSE, RECORDS, TOPICS, Packed, unpack
from service.spark.places import topic_partition_of
from service.spark.plan import Plan

#: the clock of a bucket that has seen nothing yet
UNSET = -(2**63)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a bucket gets in one batch, in handling order.

    places   the place of each event
    firsts   the offset of each topic partition's first record in the batch, by its place
    topics   how many topic partitions each stream had; empty: as the plan says
    """

    inputs: dict[str, Items]
    places: np.ndarray
    firsts: dict[int, int]
    clock: Clock
    topics: dict[str, int]

    @classmethod
    def of(cls, plan: Plan, rows: Sequence[Packed], clock: int) -> Batch | None:
        """None where nothing is there that could move the clock, which stands at `clock`."""
        parts = sorted((Part.of(packed) for holds, packed in rows if holds == RECORDS), key=lambda part: part.order)
        pulses = [int.from_bytes(packed, "big", signed=True) for holds, packed in rows if holds == PULSE]
        if clock != UNSET or plan.pipeline.settings.clock_origin is not None:
            ends = [clock, *pulses, *(part.end for part in parts)]
        else:  # a pulse alone starts no clock
            ends = [part.end for part in parts] and [*pulses, *(part.end for part in parts)]
        if not ends:
            return None
        start = max(clock, min((part.start for part in parts), default=max(ends)))
        firsts = {part.first: part.offset for part in parts}
        topics = [orjson.loads(packed) for holds, packed in rows if holds == TOPICS]
        return cls(*_handled(plan, parts, clock), firsts, Clock(start, max(ends)), *(topics or [{}]))


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one stretch of a topic partition.

    first        the place of the first record of the topic partition in the batch
    number       of the first row
    offset       of the first record of the topic partition in the batch
    start, end   the clock's, as far as this topic partition moves it
    """

    stream: str
    first: int
    number: int
    offset: int
    start: int
    end: int
    rows: pa.RecordBatch

    @classmethod
    def of(cls, packed: bytes) -> Part:
        rows, about = unpack(packed)
        numbers = {name: int(about[name]) for name in ("first", "number", "offset", "start", "end")}
        return cls(stream=about["stream"], rows=rows, **numbers)

    @property
    def order(self) -> tuple[int, int]:
        return self.first, self.number

    @property
    def places(self) -> np.ndarray:
        return self.rows.column(0).to_numpy().astype(np.int64) + self.first  # type: ignore[no-any-return]


def _handled(plan: Plan, parts: list[Part], clock: int) -> tuple[dict[str, Items], np.ndarray]:
    """The rows of all topic partitions in handling order, by stream, and the places of the events."""
    if not parts:
        return {}, np.zeros(0, np.int64)
    at = np.maximum(np.concatenate([part.rows.column(1).to_numpy() for part in parts]), clock)
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(at, kind="stable")  # equal times: by place, in which they are
    event = np.empty(len(order), np.int64)
    event[order] = np.arange(len(order))
    inputs, start = {}, 0
    for stream in plan.inputs:
        own = [part for part in parts if part.stream == stream.name]
        stop = start + sum(part.rows.num_rows for part in own)
        if stop > start:
            rows = np.argsort(event[start:stop])
            columns = event[start:stop][rows], at[start:stop][rows]
            timed = stream.event_time is not None
            inputs[stream.name] = _items(own, rows, *columns, keyed=stream.name in plan.keyed, timed=timed)
        start = stop
    return inputs, places[order]


def _items(
    parts: list[Part], order: np.ndarray, event: np.ndarray, at: np.ndarray, *, keyed: bool, timed: bool
) -> Items:
    """The rows of a stream's topic partitions in this order; they have the keys of records, and watermarks, or not."""
    table = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    if not np.array_equal(order, np.arange(len(order))):
        table = table.take(pa.array(order))
    (rows,) = table.to_batches()
    sources = [topic_partition_of(part.first) for part in parts]
    source = np.repeat(np.array(sources, np.int32), [part.rows.num_rows for part in parts])[order]
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
