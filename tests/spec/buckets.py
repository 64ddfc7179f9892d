"""The engine's outputs of several buckets put together as the service does it, for comparison with those of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.batch.merge import merged
from sluice.batch.query_plan import Plan
from sluice.batch.time_steps import steps_of
from sluice.columns.key_bytes import key_bytes
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import EMPTY_FIRING, STEP, TUPLE, WINDOW, Items
from sluice.model.spec import Pipeline
from sluice.model.spreading import Keys, shared_times
from sluice.replayer.event_batches import Batch
from sluice.replayer.event_file import LocatedEvent, topic_partitions
from sluice.state.bucket_outputs import records

TOPIC_PARTITIONS = 3


def plan_of(pipeline: Pipeline, placed: Sequence[LocatedEvent], buckets: int) -> Plan:
    streams = {stream.name: TOPIC_PARTITIONS for stream in pipeline.outputs}
    partitions = topic_partitions(placed, [s.name for s in pipeline.inputs]) | streams
    return Plan(pipeline, query="q", start="s", checkpoint="", buckets=buckets, topic_partitions=partitions)


class Spread:
    """The items of a stream, which several buckets share.

    `keys`: their tuples' keys by name; None if there are none, and the tuples are distributed in another way.
    """

    def __init__(self, pipeline: Pipeline, name: str, items: Items, keys: Keys) -> None:
        self.items, self._is_tuple = items, items.kind == TUPLE
        self.keys: pa.BinaryArray | None = key_bytes([evaluate(e, items.tuples) for e in keys]) if keys else None
        self._steps, self._times = _steps(pipeline, name, items)

    def share(self, own: np.ndarray) -> Items:
        """What a bucket gets: its own tuples, all marks, and of other tuples the times that it needs."""
        kept, step = ~self._is_tuple, np.zeros(len(self.items), np.bool_)
        kept[self._is_tuple], step[self._is_tuple] = own, self._steps & ~own
        items, is_step = self.items.only(kept | step), step[kept | step]
        watermark = items.watermark.copy()
        watermark[is_step] = self._times[step[self._is_tuple]]
        return replace(
            items, kind=np.where(is_step, STEP, items.kind).astype(items.kind.dtype), watermark=watermark,
            tuples=items.tuples.filter(pa.array(~is_step[items.kind == TUPLE])),
        )  # fmt: skip


def _steps(pipeline: Pipeline, name: str, items: Items) -> tuple[np.ndarray, np.ndarray]:
    """By tuple: whether other buckets get its time, and this time. The router decides it for each topic partition."""
    is_tuple = items.kind == TUPLE
    chosen, times = np.zeros(int(is_tuple.sum()), np.bool_), np.zeros(int(is_tuple.sum()), np.int64)
    shared = shared_times(pipeline).get(name)
    for source in np.unique(items.source).tolist():
        rows = items.source == source
        of = rows[is_tuple]
        tuples = items.tuples.filter(pa.array(of))
        found = steps_of(pipeline.streams[name], shared, items.kind[rows], items.at[rows], tuples)
        if found is not None:
            chosen[of], times[of] = found
    return chosen, times


def of_stream(plan: Plan, stream: str, made: list[dict[str, Items]], batch: Batch) -> list[Any]:
    """The rows that go to Kafka: time, kind, topic partition, key, value."""
    ordinals = np.arange(batch.first + len(batch.at))
    output = plan.pipeline.streams[stream]
    given = [(number, items[stream]) for number, items in enumerate(made) if stream in items]
    if not given:  # an operator that is final writes nothing more
        return []
    parts = [records(plan, output, items, ordinals, number) for number, items in given]
    rows: pa.RecordBatch = merged([part for part in parts if part.num_rows] or parts[:1], plan.buckets)
    columns = [rows.column(name).to_pylist() for name in ("at", "kind", "partition", "key", "value")]
    return [(at, WINDOW if kind == EMPTY_FIRING else kind, *rest) for at, kind, *rest in zip(*columns, strict=True)]
