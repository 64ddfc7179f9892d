"""Panes of a zone (Y2, Y3, CU5) give what a slow calculation with Python's zoneinfo gives: the bounds of the days
around each tuple are looked up anew, and so are all panes at each watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
#: zones, each with a local day on which its clocks change and the hour of the change
CHANGES = [
    ("Europe/Berlin", date(2026, 3, 29)), ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 11, 1)), ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)), ("UTC", date(2026, 3, 1)), ("Asia/Kathmandu", date(2026, 1, 1)),
]  # fmt: skip
#: the clause, the length of a part of a day in milliseconds (DAY: the day is whole), and whether panes grow
CLAUSES = [
    ("timeInterval, intervalDuration(8h)", 8 * HOUR, False),
    ("timeInterval, intervalDuration(15m)", 15 * MINUTE, False),
    ("timeInterval, intervalDuration(2h)", 2 * HOUR, False), ("timeInterval, intervalDuration(1d)", DAY, False),
    ("cumulate, maximumDuration(1d), step(6h)", 6 * HOUR, True),
    ("cumulate, maximumDuration(1d), step(1h)", HOUR, True),
]  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    zone, changed = draw(st.sampled_from(CHANGES))
    clause, part, growing = draw(st.sampled_from(CLAUSES))
    at = draw(st.sampled_from(["00:00", "06:00", "02:30"]))
    age = draw(st.sampled_from([0, 0, 2 * HOUR, 30 * HOUR]))
    operator = {
        "kind": "aggregate", "window": f"{clause}, discardAge({age // 1000}), partitioned", "partition_by": ["k"],
        "align": {"zone": zone, "at": at}, "event_time": "t", "event_time_resolution": "Milliseconds",
        "schema": {"k": "string", "i": "int64", "t": "int64"},
        "output": {"k": "k", "from": "intervalStart()", "to": "intervalEnd()", "all": "Collect(i)"},
    }  # fmt: skip
    now = milliseconds(datetime.combine(changed, time(0), ZoneInfo(zone))) - draw(st.sampled_from([0, 7, 20])) * HOUR
    events: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([4, 10, 20]))):
        now += draw(st.sampled_from([0, MINUTE, 20 * MINUTE, HOUR, HOUR, 5 * HOUR]))
        late = draw(st.sampled_from([0, 0, 30 * MINUTE, 3 * HOUR, 26 * HOUR]))
        tuple_ = {"tuple": {"k": draw(st.sampled_from("ab")), "i": number, "t": now - late}}
        events.append({"at": float(number)} | draw(st.sampled_from([tuple_, tuple_, {"watermark": now / 1000}])))
    return {"operator": operator, "input": events, "part": part, "growing": growing, "age": age}


# ---- the slow calculation --------------------------------------------------------------------------------------------


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def moments(local: datetime, zone: ZoneInfo, *, both: bool) -> list[int]:
    """When the clocks of the zone show a local time: the moment of the change if they skip it; of two moments the first
    or both.
    """
    first, second = (milliseconds(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if datetime.fromtimestamp(first / 1000, UTC).astimezone(zone).replace(tzinfo=None) != local:
        offset = datetime.fromtimestamp(second / 1000, zone).utcoffset()
        return [next(m for m in range(second, first + MINUTE, MINUTE)
                     if datetime.fromtimestamp(m / 1000, zone).utcoffset() != offset)]  # fmt: skip
    return [first, second] if both and second > first else [first]


def bounds(day: date, case: Case) -> list[int]:
    """The moments at which the parts of a local day begin, and the beginning of the next day."""
    align = case["operator"]["align"]
    zone, start = ZoneInfo(align["zone"]), datetime.combine(day, time.fromisoformat(align["at"]))
    (first,), (end,) = (moments(start + timedelta(days=n), zone, both=False) for n in (0, 1))
    inside = [
        moment
        for k in range(1, DAY // case["part"])
        for moment in moments(start + k * timedelta(milliseconds=case["part"]), zone, both=case["part"] <= HOUR)
    ]
    return sorted({first, *(moment for moment in inside if first < moment < end), end})


def panes(moment: int, case: Case) -> Iterator[tuple[int, int]]:
    """The panes that contain a moment."""
    near = datetime.fromtimestamp(moment / 1000, UTC).date()
    for shift in (-2, -1, 0, 1):
        edges = bounds(near + timedelta(days=shift), case)
        if not edges[0] <= moment < edges[-1]:
            continue
        for start, end in pairwise(edges):
            if case["growing"] and moment < end:
                yield edges[0], end
            elif not case["growing"] and start <= moment < end:
                yield start, end


def expected(case: Case) -> list[dict[str, Any]]:
    tuples: list[tuple[str, int, int]] = []
    fresh: list[tuple[str, int]] = []
    records: list[dict[str, Any]] = []
    watermark = -(10**18)
    for number, event in enumerate(case["input"]):
        if "tuple" in event:
            key, moment = event["tuple"]["k"], event["tuple"]["t"]
            if moment >= watermark - case["age"]:  # E18
                tuples.append((key, moment, number))
                fresh.append((key, moment))
            continue
        before, watermark = watermark, max(watermark, round(event["watermark"] * 1000))
        if watermark == before:
            continue
        new = {(end, key, start) for key, moment in fresh for start, end in panes(moment, case)}
        known = {(end, key, start) for key, moment, _ in tuples for start, end in panes(moment, case)}
        for end, key, start in sorted(known):
            if end <= watermark and (end > before or (end, key, start) in new):
                inside = [i for of, moment, i in tuples if of == key and start <= moment < end]
                records.append({"after": number, "tuple": {"k": key, "from": start, "to": end, "all": inside}})
                records.append({"after": number, "punct": "window"})
        fresh = []
    return records


@given(cases(), cuts)
@settings(max_examples=25, derandomize=True, deadline=None)
def test_random_days_and_events(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)
