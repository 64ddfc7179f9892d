"""Panes that are hours, days, weeks and months of a zone (Y2, Y3), and steps of cumulating panes (CU5): the calendar of
Python says where each begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.windows.event_time.calendar_ticks import CalendarTicks
from sluice.model.engine_limits import EngineLimits
from sluice.model.spec import Aligned, EventTime, TimeInterval
from sluice.model.types import INT64
from sluice.testing import pipeline_of, run_case
from tests.service.test_spread import check as check_buckets
from tests.spec.comparing import differences
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

SECOND = 10**9
DAY = 86_400 * SECOND
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu", "Australia/Lord_Howe"]
#: the words of a clause -> nominal length, weekday, months
PERIODS: dict[str, tuple[int, int | None, int | None]] = {
    "1d": (DAY, None, None), "7d": (7 * DAY, 2, None), "month": (31 * DAY, None, 1), "quarter": (92 * DAY, None, 3),
    "year": (366 * DAY, None, 12), "8h": (DAY // 3, None, None), "3h": (DAY // 8, None, None),
    "1h": (DAY // 24, None, None), "15m": (DAY // 96, None, None),
}  # fmt: skip
AT = ["00:00", "06:30", "23:59"]
#: 2007 to 2019: Samoa skipped a day at the end of 2011, Brazil set its clocks forward at midnight
FROM, TO = 1_170_000_000, 1_560_000_000


def bounds(seconds: int, zone: str, at: str, period: str) -> tuple[int, int]:
    """The beginning and the end of the period that has this time, in seconds: every local date is tried, and every
    time of it. Of a time that occurs twice both count if the period is at most an hour.
    """
    starts = starts_around(datetime.fromtimestamp(seconds, ZoneInfo(zone)).date(), zone, at, period)
    return max(s for s in starts if s <= seconds), min(s for s in starts if s > seconds)


@cache
def starts_around(day: date, zone: str, at: str, period: str) -> set[int]:
    """The first seconds of the periods around a local date."""
    length, weekday, months = PERIODS[period]
    hours, minutes = map(int, at.split(":"))
    starts, around = set(), 3 if length < DAY else 370
    for n in range(-around, around + 1):
        one = day + timedelta(days=n)
        begins = (months is None and weekday in (None, one.weekday())) or (
            months is not None and one.day == 1 and (one.month - 1) % months == 0
        )
        for part in range(max(1, DAY // length) if begins else 0):
            minute = (hours * 60 + minutes + part * length // (60 * SECOND)) % 1440
            local = datetime(one.year, one.month, one.day, minute // 60, minute % 60, tzinfo=ZoneInfo(zone))
            starts.add(instant(local))
            if length <= DAY // 24 and instant(local) == round(local.timestamp()):
                starts.add(round(local.replace(fold=1).timestamp()))
    return starts


def instant(local: datetime) -> int:
    """The first instant of a local time; of one that is skipped, the change of the clocks."""
    found = round(local.timestamp())
    if datetime.fromtimestamp(found, local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None):
        return found
    before, after = round(local.replace(fold=1).timestamp()), found
    offset = datetime.fromtimestamp(before, local.tzinfo).utcoffset()
    return next(s for s in range(before, after + 1) if datetime.fromtimestamp(s, local.tzinfo).utcoffset() != offset)


@given(
    st.sampled_from(ZONES), st.sampled_from(AT), st.sampled_from(sorted(PERIODS)),
    st.lists(st.integers(FROM, TO), min_size=1, max_size=6),
)  # fmt: skip
@settings(max_examples=150, derandomize=True, deadline=None)
def test_a_time_is_in_the_period_of_its_zone(zone: str, at: str, period: str, seconds: list[int]):
    length, weekday, months = PERIODS[period]
    hours, minutes = map(int, at.split(":"))
    aligned = Aligned((hours * 60 + minutes) * 60 * SECOND, zone, weekday, months)
    window = TimeInterval(length, length, calendar=aligned)
    ticks, of = CalendarTicks(EventTime("t", 10**6), INT64, window), sorted(seconds)
    times = np.array(of) * 1000
    found, bad = ticks.of(pa.record_batch([pa.array(times)], names=["t"]))
    assert bad is None
    assert (np.diff(found) > 0).tolist() == (np.diff(times) > 0).tolist()
    assert ticks.to_units(found).tolist() == times.tolist()
    (pane, *_) = ticks.sizes(window)
    starts = found // pane * pane
    units = zip(ticks.to_units(starts).tolist(), ticks.to_units(starts + pane).tolist(), strict=True)
    assert [(start // 1000, end // 1000) for start, end in units] == [bounds(s, zone, at, period) for s in of]


def test_a_watermark_behind_all_times_is_behind_every_period():
    window = TimeInterval(DAY, DAY, calendar=Aligned(0, "UTC"))
    ticks = CalendarTicks(EventTime("t"), INT64, window)
    last = int(ticks.of(pa.record_batch([pa.array([4 * 10**18])], names=["t"]))[0][0])
    (found,) = ticks.of_watermarks(np.array([2**63 - 1])).tolist()
    assert found > last + 3 * ticks.sizes(window)[0]


# ---- windows ---------------------------------------------------------------------------------------------------------


ages = st.sampled_from(["0", "0", "1", "1h", "1d", "40d"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Tuples around the changes of clocks in Berlin in 2024, with watermarks."""
    period = draw(st.sampled_from(sorted(PERIODS)))
    zone, at = draw(st.sampled_from(["Europe/Berlin", "UTC"])), draw(st.sampled_from(AT))
    align: dict[str, Any] = {"zone": zone, "at": at} | ({"on": "wednesday"} if period == "7d" else {})
    operator = {
        "kind": "aggregate", "partition_by": ["k"],
        "window": f"timeInterval, intervalDuration({period}), discardAge({draw(ages)}), partitioned",
        "align": align, "event_time": "t", "schema": {"k": "string", "i": "int64", "t": "timestamp"},
        "output": {"k": "k", "from": "intervalStart()", "to": "intervalEnd()", "last": "intervalLast()",
                   "all": "Collect(i)"},
    }  # fmt: skip
    newest, given_events = draw(st.sampled_from([1_711_800_000, 1_729_900_000, 1_735_600_000])), []
    for number in range(draw(st.sampled_from([3, 10, 25]))):
        newest += draw(st.sampled_from([0, 1, 3_599, 3_600, 40_000, 700_000]))
        time = newest - draw(st.sampled_from([0, 0, 0, 1, 3_600, 90_000]))
        event: dict[str, Any] = {"at": float(number)}
        if draw(st.integers(0, 3)):
            values = {"k": draw(st.sampled_from("ab")), "i": number, "t": shown(time)}
            event["tuple"] = values
        else:
            event["watermark"] = float(newest - draw(st.sampled_from([0, 1, 3_600])))
        given_events.append(event)
    return {"operator": operator, "input": given_events, "limits": EngineLimits(uncompacted=2)}


def shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fired(number: int, key: str, start: int, end: int, content: list[int]) -> list[dict[str, Any]]:
    last = shown(end - 1)[:-1] + ".999999999Z"
    row = {"k": key, "from": shown(start), "to": shown(end), "last": last, "all": list(content)}
    return [{"after": number, "tuple": row}, {"after": number, "punct": "window"}]


def expected(case: Case) -> list[dict[str, Any]]:
    """Panes by `bounds`."""
    operator = case["operator"]
    period, age = re.findall(r"\(([^)]*)\)", operator["window"])
    zone, at = operator["align"]["zone"], operator["align"]["at"]
    return of_panes(case, AGES[age], lambda time: [bounds(time, zone, at, period)])


def of_panes(
    case: Case, discard_age: int, panes_of: Callable[[int], Iterable[tuple[int, int]]]
) -> list[dict[str, Any]]:
    """`panes_of` gives the start and the end of each pane of a time. A tuple more than the discardAge below the
    watermark is late (E18), and a pane is closed when the watermark is that far behind its end (E28); both in real
    time, whatever the clocks of the zone do.
    """
    panes: dict[tuple[int, int], dict[str, list[int]]] = {}
    new: dict[tuple[int, int], set[str]] = {}
    watermark, records = float("-inf"), []
    for number, event in enumerate(case["input"]):
        if "tuple" in event:
            values = event["tuple"]
            time = round(datetime.fromisoformat(values["t"]).timestamp())
            for start, end in panes_of(time) if time >= watermark - discard_age else ():
                panes.setdefault((end, start), {}).setdefault(values["k"], []).append(values["i"])
                new.setdefault((end, start), set()).add(values["k"])
        elif event["watermark"] > watermark:
            watermark = event["watermark"]
            for end, start in sorted(pane for pane in panes if pane[0] <= watermark):
                for key in sorted(new.pop((end, start), ())):
                    records += fired(number, key, start, end, panes[end, start][key])
                if end + discard_age <= watermark:
                    del panes[end, start]
    return records


AGES = {"0": 0, "1": 1, "1h": 3_600, "1d": 86_400, "40d": 40 * 86_400}


@given(cases(), cuts)
@settings(max_examples=56, derandomize=True, deadline=None)
def test_panes_of_the_calendar(case: Case, batches: list[int]):
    right = expected(case)
    for sizes in (None, [1] * len(case["input"]), batches):
        assert differences(run_case(case, sizes), right, case) == [], f"cuts {sizes}"


@given(cases(), divisions())
@settings(max_examples=21, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)
    check_buckets(pipeline_of(case), case["input"], 5)


@st.composite
def growing(draw: st.DrawFn) -> tuple[Case, str, str]:
    """Cumulating panes of a period by a step, each a word of PERIODS."""
    case = draw(cases())
    most, step = draw(st.sampled_from([("1d", "1h"), ("1d", "8h"), ("8h", "1h"), ("month", "1d"), ("7d", "1d")]))
    zone, at = case["operator"]["align"]["zone"], draw(st.sampled_from(AT))
    align = {"zone": zone, "at": at} | ({"on": "wednesday"} if most == "7d" else {})
    window = f"cumulate, maximumDuration({most}), step({step}), discardAge({draw(ages)}), partitioned"
    return case | {"operator": case["operator"] | {"window": window, "align": align}}, most, step


def grown(case: Case, most: str, step: str) -> list[dict[str, Any]]:
    """CU1 to CU5: the panes of a period end where its steps end, from the step of the tuple on."""
    zone, at = case["operator"]["align"]["zone"], case["operator"]["align"]["at"]
    discard_age = AGES[re.findall(r"\(([^)]*)\)", case["operator"]["window"])[2]]

    def panes_of(time: int) -> Iterator[tuple[int, int]]:
        start, whole = bounds(time, zone, at, most)
        end = bounds(time, zone, at, step)[1]
        yield start, end
        while end != whole:
            end = bounds(end, zone, at, step)[1]
            yield start, end

    return of_panes(case, discard_age, panes_of)


@given(growing(), cuts)
@settings(max_examples=36, derandomize=True, deadline=None)
def test_panes_of_the_calendar_that_grow(drawn: tuple[Case, str, str], batches: list[int]):
    case, most, step = drawn
    right = grown(case, most, step)
    for sizes in (None, [1] * len(case["input"]), batches):
        assert differences(run_case(case, sizes), right, case) == [], f"cuts {sizes}"


@given(growing(), divisions())
@settings(max_examples=20, derandomize=True, deadline=None)
def test_states_of_growing_panes_that_are_split_and_merged(drawn: tuple[Case, str, str], division: Division):
    check_case(drawn[0], division)


DAY_S = 86_400.0
MARCH_31 = 89 * DAY_S + 365 * DAY_S * 40 + 10 * DAY_S  # 2010-03-31T00:00:00Z


@pytest.mark.parametrize(
    ("window", "align", "watermark", "time", "amount"),
    [
        ("timeInterval, intervalDuration(month)", None, 100.0, 99.0, "1 s "),
        ("timeInterval, intervalDuration(month)", None, 40 * DAY_S, 10 * DAY_S, "2592000 s "),
        ("timeInterval, intervalDuration(year)", None, 400 * DAY_S, 0.0, "34560000 s "),
        ("timeInterval, intervalDuration(1d)", {"zone": "Europe/Berlin"}, 3 * DAY_S + 0.5, DAY_S, "172800.5 s "),
        # the clock goes forward in the night of 2010-03-28: the distance is in real seconds
        ("timeInterval, intervalDuration(1d)", {"zone": "Europe/Berlin"}, MARCH_31, MARCH_31 - 5 * DAY_S, "432000 s "),
        ("timeInterval, intervalDuration(1d)", {"zone": "Europe/Berlin"}, 4e9, DAY_S, "3999913600 s "),
        ("timeInterval, intervalDuration(month)", None, 1e12, 99.0, ""),
        ("timeInterval, intervalDuration(60)", None, 100.0, 99.0, "1 s "),
    ],
)
def test_a_late_tuple_says_by_how_much(window, align, watermark, time, amount):
    operator = {"window": window, "event_time": "t", "output": {"n": "Count()"}} | ({"align": align} if align else {})
    events = [{"at": 0, "watermark": watermark}, {"at": 1, "tuple": {"t": time}}]
    records = run_case({"operator": operator, "input": events, "dead_letters": True})
    reason = f"late: t is {amount}before the watermark less discardAge"
    assert [r["dead_letter"]["reason"] for r in records] == [reason]


@pytest.mark.parametrize("window", ["intervalDuration(month)", "intervalDuration(1d)"])
def test_a_sort_has_such_panes(window: str):
    operator = {
        "kind": "sort", "window": f"timeInterval, {window}", "event_time": "t", "order_by": {"x": "desc"},
        "align": {"zone": "Europe/Berlin"},
    }  # fmt: skip
    night = 1_709_247_600.0  # 2024-03-01 00:00 in Berlin
    events = [
        {"at": 0, "tuple": {"x": 1, "t": night - 3_600}}, {"at": 1, "tuple": {"x": 2, "t": night - 1}},
        {"at": 2, "tuple": {"x": 3, "t": night}}, {"at": 3, "watermark": night},
    ]  # fmt: skip
    records = run_case({"operator": operator, "input": events})
    assert [r["tuple"]["x"] for r in records if "tuple" in r] == [2, 1]
