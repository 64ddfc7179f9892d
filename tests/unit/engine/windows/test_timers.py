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
from sluice.time_units import MAX_TIME
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


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Pacific/Kiritimati", "America/New_York"])
@pytest.mark.parametrize(("every", "months"), [(DAY, None), (HOUR, None), (31 * DAY, 1), (31 * DAY, 12)])
def test_a_timer_has_ticks_to_the_ends_of_the_range_of_times(zone: str, every: int, months: int | None):
    """What would be due later is due at MAX_TIME, which is never."""
    clock = WallClock(Aligned(0, zone, months=months), every)
    for start in (1 - MAX_TIME, MAX_TIME - 400 * DAY, MAX_TIME - 2 * HOUR, MAX_TIME - 1):
        later = min(start + 400 * DAY, MAX_TIME - 1)
        found = clock.through(clock.after(start), later).tolist()
        assert start < found[0]
        assert found == sorted(set(found))
        assert found[-1] > later
        distances = {(b - a) // HOUR for a, b in pairwise(found[:-1])}
        assert distances <= {1, *range(23, 26), *range(28 * 24 - 1, 31 * 24 + 2), *range(365 * 24, 366 * 24 + 1)}
    assert found == [MAX_TIME]


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


@pytest.mark.parametrize(
    ("minute", "expected"),
    [
        (30, ["04-06 13:30", "04-06 14:30", "04-06 15:00", "04-06 16:00"]),
        (0, ["04-06 14:00", "04-06 15:30", "04-06 16:30"]),  # from 01:30 to 02:00 there is no full hour
    ],
)
def test_half_an_hour_that_comes_twice(minute: int, expected: list[str]):
    """Lord Howe's clocks are set back by thirty minutes, at 02:00. An hourly timer ticks at both times of 01:30."""
    aligned = Aligned(minute * HOUR // 60, "Australia/Lord_Howe")
    assert ticks(aligned, HOUR, "2024-04-06T13:00", "2024-04-06T16:30") == expected


@pytest.mark.parametrize(
    ("zone", "start", "end", "expected"),
    [
        # 02:45 comes twice, with the offset -04:00 and then -04:30
        ("America/Caracas", "2007-12-09T05:00", "2007-12-09T08:00", ["05:15", "06:00", "06:45", "07:15", "08:00"]),
        # 23:45 comes twice, with the offset +09:00 and then +08:30
        ("Asia/Pyongyang", "2015-08-14T13:30", "2015-08-14T16:00", ["14:00", "14:45", "15:15", "16:00"]),
    ],
)
def test_three_quarters_of_an_hour_where_half_an_hour_comes_twice(zone: str, start: str, end: str, expected: list[str]):
    found = ticks(Aligned(HOUR // 2, zone), 3 * HOUR // 4, start, end)
    assert [tick[6:] for tick in found] == expected


def test_two_hours_that_come_twice():
    """Troll's clocks are set back by two hours, at 03:00. A timer of an hour ticks twice, one of 90 minutes once."""
    troll, start, end = Aligned(HOUR // 3600, "Antarctica/Troll"), "2024-10-26T20:31", "2024-10-27T03:01"
    longer = ticks(troll, 3 * HOUR // 2, start, end)
    assert longer == ["10-26 22:00", "10-26 23:30", "10-27 03:00"]
    assert [tick[6:] for tick in ticks(troll, HOUR, "2024-10-26T23:00", end)] == [
        "23:00", "00:00", "01:00", "02:00", "03:00",
    ]  # fmt: skip


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


def test_half_an_hour_that_comes_twice_in_a_window():
    """Local 01:30 comes at 14:30 and at 15:00 in UTC."""
    operator = {"window": "tumbling, time(3600)", "align": {"at": "00:30", "zone": "Australia/Lord_Howe"}}
    times = [f"2024-04-06T{time}" for time in ("14:00", "14:30", "15:00", "15:30", "16:00", "17:00")]
    assert collected(operator, *times) == [(1, [0]), (2, [1]), (4, [2, 3]), (5, [4])]


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
