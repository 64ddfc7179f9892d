"""The engine's outputs of several buckets put together as the service does it, for comparison with those of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.batch.merge import merged
from sluice.batch.query_plan import Plan
from sluice.columns.key_bytes import key_bytes
from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import EMPTY_FIRING, TUPLE, WINDOW, Items
from sluice.model.spec import Pipeline
from sluice.model.spreading import Keys
from sluice.replayer.event_batches import Batch
from sluice.replayer.event_file import LocatedEvent, topic_partitions
from sluice.state.outgoing import records

TOPIC_PARTITIONS = 3


def plan_of(pipeline: Pipeline, placed: Sequence[LocatedEvent], buckets: int) -> Plan:
    streams = {stream.name: TOPIC_PARTITIONS for stream in pipeline.outputs}
    partitions = topic_partitions(placed, [s.name for s in pipeline.inputs]) | streams
    return Plan(pipeline, query="q", start="s", checkpoint="", buckets=buckets, topic_partitions=partitions)


def share(items: Items, keys: Keys, wanted: Callable[[pa.BinaryArray], np.ndarray], *, unkeyed: np.ndarray) -> Items:
    """What a bucket gets: the tuples whose keys are wanted, and all marks. `unkeyed`: which tuples, without keys."""
    kept = items.kind != TUPLE
    if keys:
        kept[~kept] = wanted(key_bytes([evaluate(e, items.tuples) for e in keys]))
    else:
        kept[~kept] = unkeyed
    return items.only(kept)


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
