"""Which kernel keeps the contents of a window (service/sluice/engine/operators/aggregate/storage_strategy.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.storage_strategy import strategy
from sluice.testing import pipeline_of

OUTPUT = {"sum": "Sum(x)"}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ({"window": "tumbling, count(3)"}, "running_summary"),
        ({"window": "tumbling, time(3.0)", "group_by": ["k"]}, "running_summary"),
        ({"window": "tumbling, delta(x, 3.0)", "output": {"all": "Collect(x)"}}, "running_summary"),
        ({"window": "sliding, count(3)"}, "ring"),
        ({"window": "sliding, count(100)"}, "block_stacks"),
        ({"window": "sliding, time(3.0), count(1)", "output": {"all": "Collect(x)"}}, "block_stacks"),
        ({"window": "sliding, count(3)", "output": {"all": "Collect(x)"}}, "slot_contents"),
        ({"window": "sliding, time(3.0), count(1)", "group_by": ["k"]}, "slot_contents"),
        ({"window": "sliding, delta(x, 3.0), count(1)"}, "slot_contents"),
        ({"window": "sliding, delta(x, 3.0), count(1)", "group_by": ["k"]}, "slot_contents"),
    ],
)
def test_strategy_of_a_window(operator: dict[str, Any], expected: str):
    events = [{"at": 0.0, "tuple": {"k": "a", "x": 1.0}}]
    pipeline = pipeline_of({"operator": {"output": OUTPUT} | operator, "input": events})
    graph = Graph(pipeline, dict.fromkeys(pipeline.operators[0].inputs, 1))
    (aggregate,) = graph.operators
    assert isinstance(aggregate, AggregateOperator)
    run, _ = strategy(aggregate.program, aggregate.initial(), np.zeros(0, np.int64))
    kernel = run.args[0] if isinstance(run, partial) else run
    assert kernel.__module__ == f"sluice.engine.contents.{expected}"
