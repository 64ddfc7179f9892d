"""When the timer of a window is due: by its period, or by a clock on a wall."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.windows.timers import WallClock
from sluice.model.spec import Aligned
from sluice.testing import run_case
from tests.docs.test_windows_page import seconds

HOUR = 3600 * 10**9
DAY, WEEK = 24 * HOUR, 168 * HOUR
BERLIN = "Europe/Berlin"


def nanoseconds(text: str) -> int:
    return int(seconds(text + "Z")) * 10**9


def ticks(aligned: Aligned, every: int, start: str, end: str) -> list[str]:
    """Those behind the start and not behind the end, in UTC."""
    clock, stop = WallClock(aligned, every), nanoseconds(end)
    found = clock.through(clock.after(nanoseconds(start)), stop).tolist()
    assert found[-1] > stop
    return [datetime.fromtimestamp(tick // 10**9, UTC).strftime("%m-%d %H:%M") for tick in found[:-1]]


def test_days_have_23_and_25_hours():
    at = Aligned(23 * HOUR + 59 * HOUR // 60, BERLIN)
    spring = ticks(at, DAY, "2024-03-29T12:00", "2024-04-01T23:00")
    assert spring == ["03-29 22:59", "03-30 22:59", "03-31 21:59", "04-01 21:59"]
    assert ticks(at, DAY, "2024-10-26T12:00", "2024-10-28T12:00") == ["10-26 21:59", "10-27 22:59"]


@pytest.mark.parametrize(
    ("months", "expected"),
    [
        (1, ["01-31 23:00", "02-29 23:00", "03-31 22:00", "04-30 22:00", "05-31 22:00", "06-30 22:00", "07-31 22:00"]),
        (3, ["03-31 22:00", "06-30 22:00"]),
        (12, []),
    ],
)
def test_months_quarters_and_years_of_a_zone(months: int, expected: list[str]):
    """Y1: on the first day of the period, whose length differs; local midnight is at 23:00 or 22:00 in UTC."""
    of = Aligned(0, BERLIN, months=months)
    assert ticks(of, 31 * DAY, "2024-01-01T00:00", "2024-08-15T00:00") == expected
    assert ticks(of, 31 * DAY, "2023-12-31T00:00", "2024-01-02T00:00") == ["12-31 23:00"]
    assert ticks(Aligned(6 * HOUR, "UTC", months=months), 31 * DAY, "2024-12-31T00:00", "2025-01-02T00:00") == [
        "01-01 06:00"
    ]


def test_a_time_that_never_comes_is_the_moment_at_which_clocks_are_set_forward():
    found = ticks(Aligned(2 * HOUR + HOUR // 2, BERLIN), DAY, "2024-03-30T00:00", "2024-04-01T12:00")
    assert found == ["03-30 01:30", "03-31 01:00", "04-01 00:30"]


def test_times_that_are_skipped_together_are_one_tick():
    found = ticks(Aligned(0, BERLIN), HOUR // 2, "2024-03-31T00:00", "2024-03-31T02:00")
    assert found == ["03-31 00:30", "03-31 01:00", "03-31 01:30", "03-31 02:00"]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (HOUR // 2, ["10-27 00:00", "10-27 00:30", "10-27 01:00", "10-27 01:30", "10-27 02:00"]),
        (HOUR, ["10-27 00:00", "10-27 01:00", "10-27 02:00"]),
        (2 * HOUR, ["10-27 00:00"]),  # 02:00 once, and 04:00 is 03:00 in UTC
    ],
)
def test_the_hour_that_comes_twice(every: int, expected: list[str]):
    assert ticks(Aligned(0, BERLIN), every, "2024-10-26T23:59", "2024-10-27T02:00") == expected


def test_half_an_hour_that_comes_twice():
    """Lord Howe's clocks move by thirty minutes: an hourly timer ticks once in what is repeated."""
    found = ticks(Aligned(0, "Australia/Lord_Howe"), HOUR, "2024-04-06T13:00", "2024-04-06T16:30")
    assert found == ["04-06 14:00", "04-06 15:30", "04-06 16:30"]


def test_a_date_that_never_was():
    """Samoa had no 30 December 2011."""
    found = ticks(Aligned(12 * HOUR, "Pacific/Apia"), DAY, "2011-12-28T12:00", "2012-01-01T00:00")
    assert found == ["12-28 22:00", "12-29 22:00", "12-30 10:00", "12-30 22:00", "12-31 22:00"]


def test_weeks():
    found = ticks(Aligned(6 * HOUR, BERLIN, weekday=0), WEEK, "2024-03-20T00:00", "2024-04-10T00:00")
    assert found == ["03-25 05:00", "04-01 04:00", "04-08 04:00"]


def test_before_1970():
    assert ticks(Aligned(0, "UTC"), DAY, "1969-12-30T12:00", "1970-01-01T12:00") == ["12-31 00:00", "01-01 00:00"]


ZONES = st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"])
PERIODS = st.sampled_from([HOUR // 4, HOUR, 3 * HOUR, 12 * HOUR, DAY])
TIMES = st.integers(1_300_000_000, 1_800_000_000).map(lambda second: second * 10**9)


@given(ZONES, PERIODS, TIMES, st.integers(0, 400))
def test_the_ticks_are_the_same_wherever_one_begins(zone: str, every: int, start: int, hours: int):
    """A restart, or a batch, may begin at any tick."""
    clock = WallClock(Aligned(HOUR // 3, zone), every)
    whole = clock.through(clock.after(start), start + hours * HOUR).tolist()
    assert whole == sorted(set(whole))
    assert [clock.after(tick) for tick in whole[:-1]] == whole[1:]
    middle = whole[len(whole) // 2]
    assert WallClock(Aligned(HOUR // 3, zone), every).through(middle, start + hours * HOUR).tolist() == [
        tick for tick in whole if tick >= middle
    ]
    gaps = [after - before for before, after in pairwise(whole)]  # one ends early where clocks are set forward
    assert all(gap <= 26 * HOUR for gap in gaps) or zone == "Pacific/Apia"


# ---- in a window -----------------------------------------------------------------------------------------------------


def collected(operator: dict[str, Any], *times: str) -> list[tuple[int, Any]]:
    """After which event what came out, however the events are cut."""
    at = [seconds(time + "Z") - seconds("1970-01-01T00:00Z") for time in times]
    events = [{"at": second, "tuple": {"x": n}} for n, second in enumerate(at)]
    case = {"operator": {"output": {"all": "Collect(x)"}} | operator, "input": events}
    whole = run_case(case)
    assert run_case(case, [1] * len(events)) == whole
    assert run_case(case, [2, 0, 1]) == whole
    return [(r["after"], r["tuple"]["all"]) for r in whole if "tuple" in r]


def test_a_trigger_by_the_wall_clock():
    operator = {"window": "sliding, time(5400), time(3600)", "align": {"zone": "Asia/Kolkata"}}
    # the hours of India are UTC's half hours
    got = collected(operator, "1970-01-01T00:20", "1970-01-01T00:29", "1970-01-01T00:30", "1970-01-01T02:00")
    assert got == [(2, [0, 1]), (3, [0, 1, 2])]


def test_a_tumbling_sort_by_the_wall_clock():
    operator = {
        "kind": "sort", "window": "tumbling, time(3600)", "order_by": {"x": "desc"}, "align": {"at": "00:10"},
    }  # fmt: skip
    events = [{"at": at, "tuple": {"x": x}} for at, x in ((0, 1), (599, 2), (600, 3))]
    records = run_case({"operator": operator, "input": events}, [1, 1, 1])
    assert [(r["after"], r["tuple"]["x"]) for r in records if "tuple" in r] == [(2, 2), (2, 1)]


def test_each_tick_without_tuples_gives_a_mark():
    case = {
        "operator": {"window": "tumbling, time(43200)", "output": {"all": "Collect(x)"}, "align": {}},
        "input": [{"at": 0}, {"at": 172_800}],
    }
    assert run_case(case) == [{"after": 1, "punct": "window"}] * 4
