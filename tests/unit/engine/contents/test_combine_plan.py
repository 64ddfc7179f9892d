"""The plan of summaries that are combined (service/sluice/engine/contents/combine_plan.py), when it is full."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case
from tests.spec.comparing import differences

OUTPUT = {"sum": "Sum(x)", "greatest": "Max(n)", "distinct": "CountDistinct(n)", "count": "Count()"}
#: windows of each storage strategy that plans steps
SLIDING = {"aggregate_incomplete_windows": True}
OPERATORS: dict[str, dict[str, Any]] = {
    "running_summary": {"window": "tumbling, count(7)"},
    "block_stacks": SLIDING | {"window": "sliding, count(40), count(1)"},
    "slot_contents": SLIDING | {"window": "sliding, count(40), count(1)", "group_by": ["k"]},
    "slot_contents, heaps": SLIDING | {"window": "sliding, delta(n, 30), count(1)"},
    "slot_contents, heaps, grouped": SLIDING | {"window": "sliding, delta(n, 30), count(1)", "group_by": ["k"]},
}
#: 200 tuples whose `n` goes up with repeated steps back, so that not only the oldest tuple of a delta window leaves
EVENTS = [
    {"at": i / 2, "tuple": {"k": "ab"[i % 3 == 0], "n": i - i * 7919 % 23, "x": float(i)}} for i in range(200)
]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_plan_of_a_few_steps_gives_the_same_outputs(name: str, steps: int):
    """One event may plan more steps than the table has: the front of 40 tuples in slots has 40 steps."""
    case = {"operator": {"output": OUTPUT} | OPERATORS[name], "input": EVENTS}
    whole = run_case(case)
    in_small_plans = run_case(case | {"limits": EngineLimits(steps=steps)})
    assert len(whole) > 20
    assert differences(in_small_plans, whole, case) == []
