"""Runs all kernels once: compiles them where numba's cache has none, and leaves them loaded in this process.

`python -m service.engine.warm` fills the cache. Spark's Python daemon calls `warm` before it forks its workers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from service.engine.graph import Clock, Graph
from service.engine.items import TUPLE, Items
from service.pipeline.load import load_text

PIPELINE = """
pipeline: warm
streams:
  in: {topic: in, schema: {key: string, number: float64}}
  sums: {topic: sums}
  lists: {topic: lists}
  all: {topic: all}
operators:
  - name: sum
    aggregate: in
    window: sliding, count(2), count(1), partitioned
    partition_by: [key]
    aggregate_incomplete_windows: true
    output: {sums: {key: key, sum: Sum(number), most: Max(number), mean: Average(number)}}
  - name: list
    aggregate: in
    window: tumbling, time(1.0), partitioned
    partition_by: [key]
    output: {lists: {key: key, least: Min(number), all: Collect(number)}}
  - name: every
    aggregate: in
    window: sliding, delta(number, 2.0), count(1)
    output: {all: {count: Count(), last: Last(key)}}
"""


def warm() -> None:
    """A few tuples through a small pipeline, the second time from a saved state."""
    pipeline = load_text(PIPELINE, "warm", environment={})
    graph = Graph(pipeline, {"in": 1})
    state = graph.initial()
    for second in range(3):
        graph.feed(state, {"in": _items(second)}, Clock(0, (second + 1) * 1_000_000_000))
        state = graph.load(graph.save(state))


def _items(second: int) -> Items:
    count = 4
    ones = np.ones(count, np.int64)
    keys = pa.array([f"k{i % 2}" for i in range(count)])
    return Items(
        np.arange(count), ones * second * 1_000_000_000, (ones * TUPLE).astype(np.int8), (ones * 0).astype(np.int32),
        (ones * -1).astype(np.int32), pa.array([], pa.binary()),
        pa.record_batch([keys, pa.array(ones * 1.5)], names=["key", "number"]),
    )  # fmt: skip


if __name__ == "__main__":
    warm()
