"""Windows over event time give what the oracle gives, however the events are cut into batches."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.testing import run_case
from tests.spec import event_oracle
from tests.spec.event_strategies import cases, sort_cases
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut, dead_letters
from tests.spec.strategies import Case, cuts

pytestmark = pytest.mark.usefixtures("states_are_checked")


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    expected, dropped = event_oracle.run(case)
    check_every_cut(case, expected, *cuts)
    assert dead_letters(case) == dropped


@pytest.mark.parametrize("listed", [LIMITS.listed, 4], ids=["whole", "in parts"])
@given(cases, cuts)
@settings(max_examples=30, derandomize=True)
def test_random_windows_and_events(listed: int, case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches, limits=replace(CLEANED_EARLY, listed=listed))


@pytest.mark.parametrize("listed", [LIMITS.listed, 4], ids=["whole", "in parts"])
@given(sort_cases, cuts)
@settings(max_examples=24, derandomize=True)
def test_random_sorts(listed: int, case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches, limits=replace(CLEANED_EARLY, listed=listed))


@pytest.mark.parametrize("period", ["1", "0.5"])
@pytest.mark.parametrize("late", [*permutations([1.5, 2.5, 3.5])])
def test_late_tuples_of_several_panes_between_two_watermarks(late: tuple[float, ...], period: str):
    """All of their panes fire again at the next watermark, in whatever order the tuples came (E25)."""
    times = [0.5, 1.5, 2.5, 3.5, 4.5, "watermark", *late, "watermark"]
    case = {
        "operator": {
            "kind": "aggregate", "partition_by": [],
            "window": f"timeInterval, intervalDuration(1), creationPeriod({period}), discardAge(9)",
            "group_by": [], "event_time": "e", "schema": {"e": "float64"},
            "output": {"start": "intervalStart()", "n": "Count()"},
        },
        "input": [
            {"at": float(n)} | ({"watermark": 5.0 + n / 100} if time == "watermark" else {"tuple": {"e": time}})
            for n, time in enumerate(times)
        ],
    }  # fmt: skip
    check(case, [1] * len(times))


@pytest.mark.parametrize("group_by", [[], ["g"]])
@pytest.mark.parametrize(
    "window",
    [
        "slidingTime, timeDifference(8.0), grace(3.0)",
        "timeInterval, intervalDuration(8.0), creationPeriod(0.1), partitioned",
    ],
)
def test_many_times_of_a_key(window: str, group_by: list[str]):
    """Some of them late; in between all are over, and a key begins anew."""
    choose, events = random.Random(11), []
    for n in range(700):
        time = 100 * n + 100_000 * (n // 350)
        late = choose.randrange(3000) if choose.random() < 0.2 else 0
        values = {"k": f"key {choose.random() < 0.1}", "g": choose.randrange(2), "n": n, "t": max(time - late, 0)}
        events.append({"at": time / 1000, "tuple": values})
        if n % 5 == 4 and window.startswith("timeInterval"):
            events.append({"at": time / 1000, "watermark": max(time - 3000, 0) / 1000})
    case = {
        "operator": {
            "kind": "aggregate", "window": window, "partition_by": ["k"], "group_by": group_by,
            "event_time": "t", "event_time_resolution": "Milliseconds",
            "schema": {"k": "string", "g": "int64", "n": "int64", "t": "int64"},
            "output": {"k": "k", "n": "Count()", "sum": "Sum(n)", "last": "Last(n)"},
        },
        "input": events,
    }  # fmt: skip
    check(case, [100] * 7, [37] * 20)


def test_count_by_group_has_the_order_in_which_the_groups_come_out():
    """In the second window, [0.001, 1.001], b comes first; the groups stay in the order in which they first came."""
    times = [("a", 0), ("b", 1), ("a", 1), ("a", 1), ("a", 9)]
    case = {
        "operator": {
            "kind": "aggregate", "window": "slidingTime, timeDifference(1)", "group_by": ["g"], "event_time": "t",
            "event_time_resolution": "Milliseconds",
            "output": {"g": "g", "n": "Count()", "all": "CountByGroup()"},
        },
        "input": [{"at": n, "tuple": {"g": g, "t": 1000 * t}} for n, (g, t) in enumerate(times)],
    }  # fmt: skip
    rows = [tuple(record["tuple"].values()) for record in run_case(case) if "tuple" in record]
    assert rows == [("a", 3, [3, 1]), ("b", 1, [3, 1]), ("a", 2, [2, 1]), ("b", 1, [2, 1])]


# ---- a sort over timeInterval ----------------------------------------------------------------------------------------

PANES = {
    "kind": "sort", "window": "timeInterval, intervalDuration(10), discardAge(20), partitioned", "partition_by": ["k"],
    "order_by": [("x", "asc")], "event_time": "t", "event_time_resolution": "Milliseconds",
    "schema": {"k": "string", "x": "int64", "t": "int64"},
}  # fmt: skip


def tuple_(seconds: int, key: str, x: int) -> dict[str, Any]:
    return {"tuple": {"t": seconds * 1000, "k": key, "x": x}}


def sorted_(*events: dict[str, Any]) -> list[tuple[int, str]]:
    """What comes out: the number of the event, and `key x` or the mark."""
    case = {"operator": PANES, "input": [{"at": at} | event for at, event in enumerate(events)]}
    records = run_case(case)
    assert run_case(case, [1] * len(events)) == records
    return [(r["after"], f"{r['tuple']['k']} {r['tuple']['x']}" if "tuple" in r else r["punct"]) for r in records]


def test_a_pane_that_fires_again_comes_out_whole():
    """O14: also what came out already."""
    got = sorted_(tuple_(21, "a", 2), tuple_(25, "a", 1), {"watermark": 30}, tuple_(22, "a", 0), {"watermark": 31})
    assert got == [
        (2, "a 1"), (2, "a 2"), (2, "window"), (4, "a 0"), (4, "a 1"), (4, "a 2"), (4, "window"),
    ]  # fmt: skip


def test_the_first_late_tuple_of_a_partition_comes_out():
    """O15, E34."""
    got = sorted_(tuple_(21, "a", 1), {"watermark": 30}, tuple_(25, "b", 2), {"watermark": 31})
    assert got == [(1, "a 1"), (1, "window"), (3, "b 2"), (3, "window")]


LATE = [{"tuple": {"t": 7000, "k": "a", "x": 1}}, {"watermark": 10}, {"tuple": {"t": 3000, "k": "new", "x": 2}}]
COLLECT = {"kind": "aggregate", "window": "timeInterval, intervalDuration(10), discardAge(15), partitioned"}


def test_the_first_late_tuple_of_a_partition_comes_out_of_an_aggregate():
    """E24, E34: at the next watermark, like that of a partition that was in the pane before."""
    operator = PANES | COLLECT | {"output": {"k": "k", "from": "intervalStart()", "all": "Collect(x)"}}
    events = [{"at": at} | event for at, event in enumerate([*LATE, {"watermark": 12}])]
    for sizes in (None, [1] * len(events)):
        assert run_case({"operator": operator, "input": events}, sizes) == [
            {"after": 1, "tuple": {"k": "a", "from": 0, "all": [1]}}, {"after": 1, "punct": "window"},
            {"after": 3, "tuple": {"k": "new", "from": 0, "all": [2]}}, {"after": 3, "punct": "window"},
        ]  # fmt: skip


# ---- where event time ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [9_300_000_000, -9_300_000_000])
@pytest.mark.parametrize("resolution", ["Milliseconds", "Microseconds"])
def test_a_pane_takes_no_time_that_no_watermark_can_reach(resolution: str, seconds: int):
    """Watermarks are nanoseconds, from 1677 to 2262: it would never come out, or be late behind one that was cut."""
    ticks = {"Milliseconds": 1000, "Microseconds": 1_000_000}[resolution]
    operator = PANES | {"event_time_resolution": resolution}
    tuples = [{"at": at, "tuple": {"t": t * ticks, "k": "a", "x": at}} for at, t in enumerate([seconds, 1, seconds])]
    case = {"operator": operator, "input": [*tuples, {"at": 3, "watermark": 1e300}]}
    assert [record["tuple"]["x"] for record in run_case(case) if "tuple" in record] == [1]
    assert dead_letters(case) == [0, 2]


def test_the_greatest_watermark_completes_the_last_pane():
    """E9, E36."""
    got = sorted_(tuple_(9_223_000_000, "a", 1), {"watermark": 9_223_000_001}, {"watermark": 1e300})
    assert got == [(2, "a 1"), (2, "window")]
