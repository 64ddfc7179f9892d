"""The records that the items of an operator become."""

from __future__ import annotations

from typing import Any

from sluice.batch.envelope import TUPLE_WITH_MARK
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import TUPLE, WINDOW
from sluice.replayer.event_file import Cutter, numbered
from tests.spec.buckets import of_stream, plan_of

PIPELINE = """
pipeline: p
clock_origin: 1970-01-01T00:00:00Z
streams:
  in: {{topic: in, schema: {{k: string, x: int64}}}}
  out: {{topic: out, marks: {marks}}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, time(5), partitioned, partitionAge(1)
    partition_by: [k]
    early: count(2)
    output: {{out: {{k: k, sum: Sum(x)}}}}
"""
#: the partition of `a` is evicted without a result by the tick at 5, which finds nothing else
EVENTS: list[dict[str, Any]] = [
    {"at": 1, "tuple": {"k": "a", "x": 1}}, {"at": 2, "tuple": {"k": "a", "x": 2}}, {"at": 5},
    {"at": 9, "tuple": {"k": "b", "x": 3}}, {"at": 10},
]  # fmt: skip


def kinds(marks: str) -> list[tuple[int, int]]:
    """The second and the kind of each record."""
    pipeline = load_text(PIPELINE.format(marks=marks), "p", environment=None)
    placed = list(numbered(EVENTS))
    plan = plan_of(pipeline, placed, 1)
    graph = Graph(pipeline, plan.topic_partitions)
    (batch,) = Cutter(pipeline.inputs).batches(placed, len(placed))
    made = graph.feed(graph.initial(), batch.inputs, Clock(0, batch.now))
    return [(at // 10**9, kind) for at, kind, *_ in of_stream(plan, "out", [made], batch)]


def test_an_early_result_has_no_mark():
    assert kinds("record") == [(2, TUPLE), (5, WINDOW), (10, TUPLE), (10, WINDOW)]


def test_a_lone_mark_behind_an_early_result_is_not_that_of_its_tuple():
    assert kinds("header") == [(2, TUPLE), (10, TUPLE_WITH_MARK)]
