"""Windows whose clock is near an end of the range of times, and windows as long as the checks accept, give what the
oracles give, which count in Python's unbounded integers: nothing hangs, fails or fires early.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.testing import run_case
from tests.spec import dedup_strategies, early_strategies, quiet_strategies, session_strategies, strategies
from tests.spec import test_against_oracle as aggregates
from tests.spec import test_dedups_against_oracle as dedups
from tests.spec import test_early_against_oracle as earlies
from tests.spec import test_joins_against_oracle as joins
from tests.spec import test_quiet_against_oracle as quiets
from tests.spec import test_sessions_against_oracle as sessions
from tests.spec.join_oracle import run_join
from tests.spec.join_strategies import join_cases, outer_cases
from tests.spec.strategies import Case, cuts

#: nanoseconds of the last time that an event may have
LAST = 2**63 - 2
#: how far the events are from an end: at it, 1 ns, less and more than the durations of the cases
DISTANCES = [0, 1, 1_000_000_000, 3_500_000_000, 3_600_000_000_000]
#: the longest durations, in seconds: 285 years for the policies of tumbling and sliding windows, ten years for others
LONGEST, TEN_YEARS = "9000000000", "315360000"
DURATION = re.compile(r"\b(time|inactivityGap|maximumDuration)\([\d.]+\)")
settled = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


def nanoseconds(event: dict[str, Any]) -> int:
    return int(Decimal(str(event["at"])) * 10**9)


def moved(case: Case, shift: int) -> Case:
    """The case with a clock that is `shift` nanoseconds ahead."""
    events = [event | {"at": Decimal(nanoseconds(event) + shift).scaleb(-9)} for event in case["input"]]
    origin = f"{Decimal(shift).scaleb(-9):f}"
    return case | {"operator": case["operator"] | {"clock_origin": origin}, "input": events}


@st.composite
def at_the_ends(draw: st.DrawFn, cases: st.SearchStrategy[Case], unit: int = 1) -> Case:
    """Cases whose clock is near an end, in the middle, or jumps from one end to the other; some of the durations are as
    long as they may be. Times are whole numbers of `unit` nanoseconds.
    """
    case = draw(cases)
    times = [0, *map(nanoseconds, case["input"])]
    distance = draw(st.sampled_from(DISTANCES))
    latest, earliest = LAST - max(times) - distance, -LAST - min(times) + distance
    shift = draw(st.sampled_from([latest, latest, earliest, earliest, -(10**9) * 3]))
    case = moved(case, shift // unit * unit + (unit if shift == earliest and shift % unit else 0))
    operator = case["operator"]
    for key in {"window", "early", "within", "left", "right"} & operator.keys():
        if isinstance(operator[key], str) and draw(st.booleans()):
            longest = LONGEST if operator[key].startswith(("tumbling", "sliding,")) else TEN_YEARS
            operator[key] = DURATION.sub(rf"\1({longest})", operator[key])
    return case


@given(at_the_ends(strategies.cases()), cuts)
@settled
def test_tumbling_and_sliding_windows(case: Case, batches: list[int]):
    aggregates.check(case, [1] * len(case["input"]), batches)


@given(at_the_ends(st.one_of(early_strategies.tumbling, early_strategies.evicting, early_strategies.sessions)), cuts)
@settled
def test_early_results(case: Case, batches: list[int]):
    earlies.check(case, [1] * len(case["input"]), batches)


@given(at_the_ends(session_strategies.over_the_clock), cuts)
@settled
def test_sessions(case: Case, batches: list[int]):
    sessions.check(case, [1] * len(case["input"]), batches)


@given(at_the_ends(dedup_strategies.over_the_clock), cuts)
@settled
def test_dedups(case: Case, batches: list[int]):
    dedups.check(case, [1] * len(case["input"]), batches)


@given(at_the_ends(st.one_of(join_cases(), outer_cases())), cuts)
@settled
def test_joins(case: Case, batches: list[int]):
    joins.check(case, [1] * len(case["input"]), batches, oracle=run_join)


@given(at_the_ends(quiet_strategies.cases, unit=10**6), cuts)
@settled
def test_watermarks_that_follow_the_clock(case: Case, batches: list[int]):
    quiets.check(case, [1] * len(case["input"]), batches)


# ---- one window after the other --------------------------------------------------------------------------------------

#: by window: the contents at the times of the last two tuples, 16 s and 1 ns before the end of the range of times
AT_THE_LAST_SECONDS: dict[str, list[list[int]]] = {
    "tumbling, count(2) or time(100000d)": [[0, 1]],
    "tumbling, time(10)": [[0]],
    "tumbling, time(60)": [],
    "sliding, time(100000d)": [[0], [0, 1]],
    "sliding, time(5)": [[0], [1]],
    "sliding, time(100000d), time(10)": [[0]],
    "tumbling, count(2), partitioned, partitionAge(9000000000)": [[0, 1]],
    "session, inactivityGap(10)": [[0]],
    "session, inactivityGap(100)": [],
    "session, inactivityGap(5), maximumDuration(3650d)": [[0]],
}


#: a session has no handler
KINDS = [
    (kind, window) for window in AT_THE_LAST_SECONDS for kind in ("aggregate", "custom")
    if kind == "aggregate" or not window.startswith("session")
]  # fmt: skip


@pytest.mark.parametrize(("kind", "window"), KINDS)
def test_the_last_seconds(kind: str, window: str):
    expected = AT_THE_LAST_SECONDS[window]
    what: dict[str, Any] = {"handler": "tests.spec.handler_classes:Contents"} if kind == "custom" else {
        "output": {"is": "Collect(i)"}, "aggregate_incomplete_windows": window.startswith("sliding"),
    }  # fmt: skip
    start, end = (Decimal(LAST - before).scaleb(-9) for before in (16 * 10**9, 0))
    keys = {"partition_by": ["i - i"]} if "partitioned" in window else {}
    case = {
        "operator": {"kind": kind, "window": window, "clock_origin": f"{start:f}", "schema": {"i": "int64"}}
        | keys
        | what,
        "input": [{"at": at, "tuple": {"i": number}} for number, at in enumerate((start, end))],
    }
    for sizes in (None, [1, 1]):
        found = [record["tuple"]["is"] for record in run_case(case, sizes) if "tuple" in record]
        assert [contents for contents in found if contents] == expected


def test_a_clock_that_jumps_over_the_whole_range_skips_the_ticks_that_find_nothing():
    """From 1677 to 2262: 18 billion seconds, of which each would be a tick."""
    times = [Decimal(1 - LAST).scaleb(-9), Decimal(LAST).scaleb(-9)]
    operator = {
        "kind": "aggregate", "window": "tumbling, time(1)", "output": {"n": "Count()"}, "clock_origin": f"{times[0]:f}",
    }  # fmt: skip
    records = run_case({"operator": operator, "input": [{"at": at, "tuple": {"i": 1}} for at in times]})
    assert [record["tuple"] for record in records if "tuple" in record] == [{"n": 1}]
    assert len(records) == 1_000_000 + 2
