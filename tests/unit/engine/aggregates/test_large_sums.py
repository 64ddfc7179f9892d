"""Sums and means of float64 whose sums in between are beyond the range, against exact fractions."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.testing import run_case

LARGEST = sys.float_info.max
#: few different numbers, all multiples of 2^900, so that sums meet the ends of the range again and again
VALUES = [LARGEST, -LARGEST, 1e308, -1e308, 1.7e308, 2.0**1023, -(2.0**1023), 2.0**971, -(2.0**971), 2.0**960, 0.0]


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)  # to the nearest float64, halves to even
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def results(window: str, values: list[float], *, event_time: bool = False) -> list[dict[str, float]]:
    operator: dict[str, Any] = {
        "window": window, "output": {"sum": "Sum(x)", "mean": "Average(x)"}, "schema": {"x": "float64", "t": "float64"},
    }  # fmt: skip
    events: list[Any] = [{"at": 0.0, "tuple": {"x": x, "t": float(n)}} for n, x in enumerate(values)]
    if event_time:
        operator["event_time"] = "t"
        events.append({"at": 0.0, "watermark": 1_000.0})
    return [record["tuple"] for record in run_case({"operator": operator, "input": events}) if "tuple" in record]


def check(found: dict[str, float], values: list[float]) -> None:
    total = sum(map(Fraction, values))
    assert found["sum"] == nearest(total)
    mean = nearest(total / len(values))
    assert found["mean"] == mean or abs(found["mean"] - mean) <= 2 * math.ulp(mean)


many = st.lists(st.sampled_from(VALUES), min_size=1, max_size=12)


@given(many)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_a_tumbling_window(values: list[float]):
    (found,) = results(f"tumbling, count({len(values)})", values)
    check(found, values)


@given(many, st.integers(1, 5))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_a_sliding_window(values: list[float], size: int):
    for end, found in enumerate(results(f"sliding, count({size}), count(1)", values), 1):
        check(found, values[max(0, end - size) : end])


@given(many)
@settings(max_examples=75, derandomize=True, deadline=None)
def test_panes_of_several_slices(values: list[float]):
    window = "timeInterval, intervalDuration(4), creationPeriod(2)"
    panes = [values[max(0, start) : start + 4] for start in range(0, len(values), 2)]
    found = results(window, values, event_time=True)
    assert len(found) == len(panes)
    for one, pane in zip(found, panes, strict=True):
        check(one, pane)
