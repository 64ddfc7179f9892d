"""The stateful stage: a bucket's packed rows in, its state, its outputs as packed rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from service.engine.graph import Clock, Graph, GraphState
from service.engine.items import TUPLE, Items
from service.kafka.report import Report
from service.spark.bodies import Bodies
from service.spark.buckets import labels
from service.spark.measures import report_of
from service.spark.outgoing import outgoing
from service.spark.packed import COUNTS, PULSE, RECORDS, THROUGH, unpack
from service.spark.places import topic_partition_of
from service.spark.plan import Plan

#: the clock of a bucket that has seen nothing yet
UNSET = -(2**63)


class Stage(StatefulProcessor):
    """Keyed by bucket. It unpacks, calls the engine, stores the state, packs.

    Spark's state holds the version of the bucket's state and its clock, `Bodies` the state itself.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        plan = self._plan
        self._graph = Graph(plan.pipeline, plan.topic_partitions)
        self._bucket_of = {label: bucket for bucket, label in enumerate(labels(plan.buckets))}
        self._head = handle.getValueState("head", "version long, clock long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803
        bucket = self._bucket_of[key[0]]
        arrived = list(rows)
        yield from (Row(holds=row.holds, packed=bytes(row.packed)) for row in arrived if row.holds in THROUGH)
        version, clock = self._head.get() or (0, UNSET)
        batch = Batch.of(self._plan, arrived, clock)
        if batch is None:
            return
        state, read = self._load(bucket, version)
        made = self._graph.feed(state, batch.inputs, batch.clock)
        written = self._save(bucket, version + 1, state)
        self._head.update((version + 1, batch.clock.end))
        for holds, packed in outgoing(self._plan, made, batch.places, bucket):
            yield Row(holds=holds, packed=packed)
        bytes_ = {"read": read, "written": written, "held": written}
        operators = report_of(self._plan.pipeline.operators, batch.inputs | made, self._graph.sizes(state))
        yield Row(holds=COUNTS, packed=Report(operators=operators, state=bytes_, clock=batch.clock.end).to_json())

    def close(self) -> None:
        pass

    def _load(self, bucket: int, version: int) -> tuple[GraphState, int]:
        """The state of this version, and how many bytes were read: the one at hand in this process, else the store's.

        It leaves the cache until it is whole again, so a task that dies half way leaves nothing wrong behind.
        """
        at_hand, state = CACHE.pop((self._plan.query, bucket), (0, None))
        if state is not None and at_hand == version:
            return state, 0
        if not version:
            return self._graph.initial(), 0
        body = Bodies(self._plan.checkpoint, bucket).load(version)
        return self._graph.load(body), len(body)

    def _save(self, bucket: int, version: int, state: GraphState) -> int:
        """How many bytes were written."""
        body = self._graph.save(state)
        Bodies(self._plan.checkpoint, bucket).save(version, body)
        CACHE[self._plan.query, bucket] = version, state
        return len(body)


#: by query and bucket: the version of the state, and the state
CACHE: dict[tuple[str, int], tuple[int, GraphState]] = {}


@dataclass(frozen=True, slots=True)
class Batch:
    """What a bucket gets in one batch, in handling order; `places` has the place of each event."""

    inputs: dict[str, Items]
    places: np.ndarray
    clock: Clock

    @classmethod
    def of(cls, plan: Plan, rows: Iterable[Row], clock: int) -> Batch | None:
        """None where nothing is there that could move the clock."""
        parts = sorted((Part.of(row.packed) for row in rows if row.holds == RECORDS), key=lambda part: part.order)
        pulses = [int.from_bytes(row.packed, "big") for row in rows if row.holds == PULSE]
        if clock != UNSET or plan.pipeline.settings.clock_origin is not None:
            ends = [clock, *pulses, *(part.end for part in parts)]
        else:  # a pulse alone starts no clock
            ends = [part.end for part in parts] and [*pulses, *(part.end for part in parts)]
        if not ends:
            return None
        start = max(clock, min((part.start for part in parts), default=max(ends)))
        return cls(*_handled(plan, parts, clock), Clock(start, max(ends)))


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one stretch of a topic partition.

    first        the place of the first record of the topic partition in the batch
    number       how many records the topic partition had in the batch before this stretch
    start, end   the clock's, as far as this topic partition moves it
    """

    stream: str
    first: int
    number: int
    start: int
    end: int
    rows: pa.RecordBatch

    @classmethod
    def of(cls, packed: bytes) -> Part:
        rows, about = unpack(bytes(packed))
        first, number, start, end = (int(about[name]) for name in ("first", "number", "start", "end"))
        return cls(about["stream"], first, number, start, end, rows)

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
            inputs[stream.name] = _items(own, rows, *columns, keyed=stream.name in plan.keyed)
        start = stop
    return inputs, places[order]


def _items(parts: list[Part], order: np.ndarray, event: np.ndarray, at: np.ndarray, *, keyed: bool) -> Items:
    """The rows of a stream's topic partitions in this order."""
    table = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    if not np.array_equal(order, np.arange(len(order))):
        table = table.take(pa.array(order))
    (rows,) = table.to_batches()
    sources = [topic_partition_of(part.first) for part in parts]
    source = np.repeat(np.array(sources, np.int32), [part.rows.num_rows for part in parts])[order]
    kind = rows.column(2).to_numpy()
    key, keys = _keys(rows.column(3)) if keyed else (np.full(len(event), -1, np.int32), pa.array([], pa.binary()))
    tuples = rows.select(range(3 + keyed, rows.num_columns))
    if kind.any():
        tuples = tuples.filter(pa.array(kind == TUPLE))
    return Items(event, at, kind, source, key, keys, tuples)


def _keys(column: pa.BinaryArray) -> tuple[np.ndarray, pa.BinaryArray]:
    key = np.arange(len(column), dtype=np.int32)
    if column.null_count:
        key[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return key, pc.fill_null(column, b"")
