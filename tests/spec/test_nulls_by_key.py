"""The engine treats null as the oracles do, for each of many keys that one run has (null_by_key.py)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.spec import oracle
from tests.spec.null_by_key import OPERATORS, check, events_of, runs
from tests.spec.strategies import Case

SUMS = {
    "kind": "aggregate", "window": "sliding, count(3), count(1), partitioned", "partition_by": ["k"], "group_by": [],
    "aggregate_incomplete_windows": True, "output": {"key": "First(k)", "n": "Count(i)", "sum": "Sum(i)"},
}  # fmt: skip


@pytest.mark.parametrize("kind", OPERATORS)
def test_each_key_gives_what_the_oracle_gives_for_it_alone(kind: str):
    assert sum(runs(kind, 7, 4, keys=40)) == 4 * 40


def test_the_keys_have_nulls_in_most_attributes():
    events = [event for number in range(9) for event in events_of(dict(SUMS), random.Random(number), 50)]
    values = [event["tuple"]["i"] for event in events if "tuple" in event]
    assert 0 < values.count(None) < len(values)


def test_an_oracle_that_takes_null_for_a_value_differs():
    def wrong(case: Case) -> tuple[list[dict[str, Any]], None]:
        events = [event | {"tuple": event["tuple"] | {"i": event["tuple"]["i"] or 0}} if "tuple" in event else event
                  for event in case["input"]]  # fmt: skip
        return oracle.run(case | {"input": events}), None

    with pytest.raises(AssertionError, match=r"got .*\nexpected "):
        check(dict(SUMS), 1, wrong, 20)
