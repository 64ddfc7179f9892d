"""Early results are what the oracle says, however the events are cut into batches and the keys into states."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.testing import run_case
from tests.spec import early_oracle, early_strategies
from tests.spec.comparing import differences
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


filtered = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    check_every_cut(case, early_oracle.run(case), *cuts)


@given(early_strategies.tumbling, cuts)
@settings(filtered, max_examples=30)
def test_tumbling(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(early_strategies.evicting, cuts)
@settings(filtered, max_examples=50)
def test_partitions_that_leave_at_ticks(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(early_strategies.panes, cuts)
@settings(filtered, max_examples=30)
def test_panes(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(early_strategies.sessions, cuts)
@settings(filtered, max_examples=30)
def test_sessions(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(early_strategies.merging, cuts)
@settings(filtered, max_examples=12)
def test_sessions_that_are_merged(case: Case, batches: list[int]):
    """F6."""
    check(case, [1] * len(case["input"]), batches)


@given(early_strategies.cases)
@settings(filtered, max_examples=45)
def test_the_other_results_are_the_same_as_without_early(case: Case):
    """F4: the mark of a result, its contents, the index of a pane, and their order."""
    plain = case | {"operator": case["operator"] | {"early": None}}
    others = [record for record in run_case(case) if not record.get("tuple", {}).get("early")]
    assert differences(others, run_case(plain), case) == []


@given(early_strategies.tumbling, divisions())
@settings(filtered, max_examples=30)
def test_parts_of_tumbling_windows(case: Case, division: Division):
    check_case(case, division)


@given(early_strategies.panes, divisions())
@settings(filtered, max_examples=30)
def test_parts_of_panes(case: Case, division: Division):
    check_case(case, division)


@given(early_strategies.sessions, divisions())
@settings(filtered, max_examples=30)
def test_parts_of_sessions(case: Case, division: Division):
    check_case(case, division)


# ---- partitions that leave at a tick ---------------------------------------------------------------------------------

LEAVING: dict[str, Any] = {
    "in the order of their eviction (V16), not of their keys": (
        {"window": "tumbling, time(10), partitioned, partitionAge(1)", "early": "count(2)"},
        [(6, "b"), (6.5, "a"), (18, None), (19, "c"), (19, "c")],
        [
            (2, "b partition"), (2, "mark"), (2, "a partition"), (2, "mark"), (2, "mark"), (4, "c early"),
        ],
    ),
    "before the other partitions are flushed (V17), whatever their keys": (
        {"window": "tumbling, time(7), partitioned, partitionAge(2)", "early": "time(2)"},
        [(7.5, None), (11.501, "a"), (13.501, "Z"), (14.5, None)],
        [(0, "mark"), (2, "a early"), (3, "a partition"), (3, "mark"), (3, "Z time"), (3, "mark")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("operator", "events", "expected"), LEAVING.values(), ids=LEAVING)
def test_partitions_leave_at_a_tick_as_without_early(
    operator: dict[str, Any], events: list[tuple[float, str | None]], expected: list[tuple[int, str]]
):
    """F4: the order of the other results, also if a later early result is in the same batch."""
    operator = operator | {
        "kind": "aggregate", "partition_by": ["k"], "group_by": [], "schema": {"k": "string"},
        "aggregate_incomplete_windows": False, "aggregate_evicted_partitions": True,
        "output": {"k": "Last(k)", "why": "flushReason()"},
    }  # fmt: skip
    case = {
        "operator": operator,
        "input": [{"at": at, **({"tuple": {"k": k}} if k is not None else {})} for at, k in events],
    }
    found = [
        (record["after"], "{k} {why}".format(**record["tuple"]) if "tuple" in record else "mark")
        for record in run_case(case)
    ]
    assert found == expected
    check(case, [1] * len(events), [3])


# ---- many keys -------------------------------------------------------------------------------------------------------

MANY: list[dict[str, Any]] = [
    {"window": "tumbling, count(9), partitioned", "early": "time(2) or count(4)"},
    {"window": "tumbling, time(20.0) or punct(), partitioned", "early": "time(2)"},
    {"window": "timeInterval, intervalDuration(10), discardAge(5), partitioned", "early": "time(2)", "event_time": "t"},
    {"window": "session, inactivityGap(2), grace(3)", "early": "time(2)", "event_time": "t"},
    {"window": "session, inactivityGap(6)", "early": "time(2) or count(3)"},
]


@pytest.mark.parametrize("listed", [LIMITS.listed, 4], ids=["whole", "in parts"])
@pytest.mark.parametrize("group_by", [[], ["g"]])
@pytest.mark.parametrize("window", MANY, ids=lambda window: window["window"])
def test_many_events(window: dict[str, Any], group_by: list[str], listed: int):
    """Dozens of windows wait at once, and many of them are due at one time."""
    operator = {
        "kind": "aggregate", "partition_by": ["k"], "group_by": group_by, "aggregate_incomplete_windows": False,
        "schema": {"k": "string", "g": "string", "i": "int64", "t": "float64"},
        "output": {"k": "Last(k)", "n": "Count()", "all": "Collect(i)", "early": "isEarly()"},
    }  # fmt: skip
    case = {"operator": operator | window, "input": list(many_events(timed="event_time" in window))}
    check(case, [70] * 5, [1] * 40, limits=replace(CLEANED_EARLY, listed=listed))
    check_case(case, Division(50, 2, 3, 5, frozenset({0, 2}), 1, saved=True))


def many_events(*, timed: bool) -> Iterator[dict[str, Any]]:
    choose = random.Random(23)
    for number in range(400):
        at = number // 10 / 4
        time = max(0.0, number / 20 + choose.randrange(-4, 3))
        key = f"key {choose.randrange(60)}"
        yield {"at": at, "tuple": {"k": key, "g": choose.choice("uv"), "i": number, "t": time}}
        if timed and number % 50 == 49:
            yield {"at": at, "watermark": number / 20 - 4}
