"""What is counted of a window: distinct values, and numbers by their first bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.contents import multisets
from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case

NUMBERS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) > 1e-307 or x == 0)


@given(st.lists(NUMBERS, min_size=1))
def test_the_middle_is_never_further_away_than_promised(numbers: list[float]):
    words = np.array(numbers).view(np.int64)
    found = multisets.middles(multisets.rounded(words)).tolist()
    assert all(abs(a - b) <= abs(b) * 2**-8 for a, b in zip(found, numbers, strict=True))


@given(st.lists(NUMBERS, min_size=2))
def test_the_order_of_numbers_stays(numbers: list[float]):
    ordered = multisets.rounded(np.array(sorted(numbers)).view(np.int64))
    assert (np.diff(ordered) >= 0).all()


def results(values: list[Any], window: str, call: str, **operator: Any) -> list[Any]:
    case = {"operator": {"window": window, "output": {"r": call}} | operator,
            "input": [{"at": at, "tuple": {"x": x}} for at, x in enumerate(values)]}  # fmt: skip
    whole = run_case(case)
    assert run_case(case, [1] * len(values)) == whole
    return [r["tuple"]["r"] for r in whole if "tuple" in r]


def test_distinct_values_that_come_and_leave():
    assert results([1, 2, 1, 1, 3], "sliding, count(3)", "CountDistinct(x)") == [1, 2, 2, 2, 2]
    assert results([0.0, -0.0, math.nan, math.nan], "tumbling, count(4)", "CountDistinct(x)") == [3]
    assert results(["a", "b", "a"], "tumbling, count(3)", "CountDistinct(x)") == [2]


def test_a_percentile_of_what_is_inside():
    values = [float(x) for x in (100, 1, 1000, 10, 10_000)]
    found = results(values, "sliding, count(3)", "ApproxPercentile(x, 0.5)")
    assert found == pytest.approx([100, 1, 100, 10, 1000], rel=2**-8)
    assert results([1.0, math.inf, -math.inf], "tumbling, count(3)", "ApproxPercentile(x, 1.0)") == [math.inf]


def test_what_is_forgotten_is_forgotten_in_the_counts_too():
    """Keys, groups and texts come and go, and their numbers change."""
    texts = [f"{n % 7} {n // 3}" for n in range(60)]
    operator = {"window": "sliding, count(3), partitioned", "partition_by": ["k"], "group_by": ["g"],
                "output": {"n": "CountDistinct(x)", "same": "CollectDistinct(x)"}}  # fmt: skip
    events = [{"at": n, "tuple": {"x": text, "k": n // 9, "g": n % 2}} for n, text in enumerate(texts)]
    case = {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2)}
    for sizes in (None, [1] * 60, [7] * 8):
        rows = [r["tuple"] for r in run_case(case, sizes) if "tuple" in r]
        assert [row["n"] for row in rows] == [len(row["same"]) for row in rows]
