"""Results of empty panes (EP1 to EP8) are what a slow calculation gives: at each watermark it walks over all panes of
all keys, from the tuples of the whole history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.model.engine_limits import EngineLimits
from sluice.model.windows import empty_panes
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from sluice.testing import on_stream, pipeline_of, run_case
from tests.spec.every_cut import CLEANED_EARLY, check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked", "few")

#: the bound on empty panes in these tests (EP6)
MOST = 4
OUTPUT = {
    "k": "k", "twice": "k + k", "start": "intervalStart()", "end": "intervalEnd()", "n": "Count()", "all": "CountAll()",
    "sum": "Sum(i)", "zero": "Max(i)", "before": "Collect(i)", "mean": "Average(i) + 1", "empty": "isEmpty()",
    "index": "paneIndex()", "timing": "paneTiming()",
}  # fmt: skip
#: functions that need the tuples of all keys
ONE_BUCKET = ("CountAll()", "paneIndex()", "paneTiming()")
FILLS = {"zero": "zero", "before": "previous", "mean": "previous"}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(empty_panes, "MOST", MOST)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    start = draw(st.sampled_from([-3_000, 0, 4_000, 1_600_000_000_000]))
    age = draw(st.sampled_from(["0", "0", "1", "4", "9"]))
    sizes = draw(
        st.sampled_from(
            [
                "timeInterval, intervalDuration(1)", "timeInterval, intervalDuration(2), intervalOffset(0.5)",
                "timeInterval, intervalDuration(2), creationPeriod(0.5)",
                "timeInterval, intervalDuration(1), creationPeriod(1.5)", "cumulate, maximumDuration(3), step(1)",
            ]
        )
    )  # fmt: skip
    operator = {
        "kind": "aggregate", "window": f"{sizes}, discardAge({age}), partitioned", "partition_by": ["k"],
        "event_time": "t", "event_time_resolution": "Milliseconds",
        "schema": {"k": "string", "i": "int64", "t": "int64"}, "output": OUTPUT,
        "empty_panes": {"forget_after": draw(st.sampled_from([0.4, 1, 2.5, 6, 40])), "attributes": FILLS},
    }  # fmt: skip
    now, events = start, []
    for number in range(draw(st.sampled_from([3, 8, 20, 30]))):
        now += draw(st.sampled_from([0, 0, 250, 500, 1_000, 2_500, 7_000]))
        event: dict[str, Any] = {"watermark": (now - draw(st.sampled_from([0, 500, 2_000]))) / 1000}
        if draw(st.sampled_from([True, True, False])):
            late = draw(st.sampled_from([0, 0, 0, 600, 2_400, 5_000]))
            event = {"tuple": {"k": draw(st.sampled_from("abc")), "i": number, "t": now - late}}
        events.append({"at": number} | event)
    return {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2)}


# ---- the slow calculation --------------------------------------------------------------------------------------------


@dataclass
class Key:
    #: (time, value) of all tuples, and of those since the last watermark
    tuples: list[tuple[int, int]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    #: the end of the last pane that came out, and the end of its life
    out: float = float("inf")
    until: float = float("-inf")
    #: the end of the latest pane with tuples that has fired, and its row
    latest: float = float("-inf")
    row: dict[str, Any] = field(default_factory=dict)


class Slow:
    def __init__(self, operator: dict[str, Any]) -> None:
        sizes = {name: round(float(size) * 1000) for name, size in re.findall(r"(\w+)\(([^)]*)\)", operator["window"])}
        self.growing = "step" in sizes
        self.duration = sizes.get("intervalDuration", sizes.get("maximumDuration", 0))
        self.period = sizes.get("step", sizes.get("creationPeriod", self.duration))
        self.age, self.offset = sizes["discardAge"], sizes.get("intervalOffset", 0)
        self.forget = round(operator["empty_panes"]["forget_after"] * 1000)
        self.keys: dict[str, Key] = {}
        self.watermark = float("-inf")
        #: how often each pane has fired, by its end
        self.fired: dict[int, int] = {}

    def start(self, end: int) -> int:
        return end - 1 - (end - 1 - self.offset) % self.duration if self.growing else end - self.duration

    def ends(self, first: int, last: int) -> Iterator[int]:
        """The ends of all panes from `first` to `last`; no pane of a timeInterval extends across 0."""
        step = self.offset % self.period if self.growing else (self.offset + self.duration) % self.period
        for end in range(first + (step - first) % self.period, last + 1, self.period):
            if self.growing or not self.start(end) < 0 < end:
                yield end

    def inside(self, key: Key, end: int) -> list[tuple[int, int]]:
        return [(time, i) for time, i in key.tuples if self.start(end) <= time < end]

    def insert(self, name: str, time: int, i: int) -> None:
        if time < self.watermark - self.age:
            return
        if any(self.start(end) <= time < end for end in self.ends(time, time + self.duration)):
            key = self.keys.setdefault(name, Key())
            key.tuples.append((time, i))
            key.fresh.append(time)

    def advance(self, now: int) -> Iterator[dict[str, Any]]:
        if now <= self.watermark:
            return
        found = [(end, name, empty) for name in self.keys for end, empty in self.of_key(self.keys[name], now)]
        before = dict(self.fired)
        for end, name, empty in sorted(found):
            yield self.row(name, end, before.get(end, 0), empty=empty)
            self.fired[end] = before.get(end, 0) + 1 if not empty else self.fired.get(end, 0)
        self.watermark = now

    def of_key(self, key: Key, now: int) -> Iterator[tuple[int, bool]]:
        """The panes of a key that come out now, in order: with the number of those that are left out respected."""
        gap: list[int] = []
        for end in self.ends(min((time for time, _ in key.tuples), default=0), now):
            has, new = bool(self.inside(key, end)), any(self.start(end) <= time < end for time in key.fresh)
            if has and (end > self.watermark or new):
                yield from ((e, True) for e in gap[-MOST:])
                gap = []
                yield end, False
                key.out = end if key.out == float("inf") else max(key.out, end)
                key.until = max(key.until, end + self.forget)
            elif not has and key.out < end <= key.until:
                gap.append(end)
                key.out = end
            elif not has and end > key.until:
                yield from ((e, True) for e in gap[-MOST:])
                gap = []
        yield from ((e, True) for e in gap[-MOST:])
        key.fresh = []

    def row(self, name: str, end: int, index: int, *, empty: bool) -> dict[str, Any]:
        key = self.keys[name]
        count = sum(len(self.inside(other, end)) for other in self.keys.values())
        row = {"k": name, "twice": name * 2, "start": self.start(end), "end": end, "empty": empty, "all": count}
        row["timing"] = "paneLate" if index and not empty else "paneOnComplete"
        if empty:
            return row | {"n": 0, "sum": None, "zero": 0, "index": 0} | {x: key.row[x] for x in ("before", "mean")}
        values = [i for _, i in self.inside(key, end)]
        whole = {"n": len(values), "sum": sum(values), "zero": max(values), "before": values, "index": index}
        row |= whole | {"mean": sum(values) // len(values) + 1}
        if end >= key.latest:
            key.latest, key.row = end, row
        return row


def expected(case: Case) -> list[dict[str, Any]]:
    slow, records = Slow(case["operator"]), []
    for number, event in enumerate(case["input"]):
        if "tuple" in event:
            slow.insert(event["tuple"]["k"], event["tuple"]["t"], event["tuple"]["i"])
        else:
            for row in slow.advance(round(event["watermark"] * 1000)):
                ordered = {name: row[name] for name in OUTPUT}
                records += [{"after": number, "tuple": ordered}, {"after": number, "punct": "window"}]
    return records


def compared(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    """As `check_expected`, with few empty panes that follow each other."""
    with patch.object(empty_panes, "MOST", MOST):
        check_expected(expected, case, *cuts, limits=limits)


@given(cases(), cuts)
@settings(max_examples=28, derandomize=True, deadline=None)
def test_random_panes(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


def test_panes_across_0_do_not_count_among_those_that_come_out():
    """They do not exist (E13, EP6)."""
    operator = {
        "kind": "aggregate", "partition_by": ["k"], "event_time": "t", "event_time_resolution": "Milliseconds",
        "window": "timeInterval, intervalDuration(2), creationPeriod(0.5), discardAge(0), partitioned",
        "schema": {"k": "string", "i": "int64", "t": "int64"}, "output": OUTPUT,
        "empty_panes": {"forget_after": 2.5, "attributes": FILLS},
    }  # fmt: skip
    events = [{"at": 0, "tuple": {"k": "a", "i": 0, "t": -2900}}, {"at": 1, "watermark": 2.0}]
    check_expected(expected, {"operator": operator, "input": events}, [1, 1])


@given(cases(), divisions())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    case["operator"]["output"] = {name: call for name, call in OUTPUT.items() if call not in ONE_BUCKET}
    check_case(case, division)


# ---- days and hours of a zone ----------------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")


def of_zone(window: str, align: dict[str, str] | None, events: list[dict[str, Any]], forget: str) -> list[list[Any]]:
    operator: dict[str, Any] = {
        "kind": "aggregate", "window": window, "partition_by": ["k"], "event_time": "t", "schema": {"k": "string"},
        "output": {"k": "k", "start": "intervalStart()", "n": "Count()"}, "empty_panes": {"forget_after": forget},
    }  # fmt: skip
    case = {"operator": operator | ({"align": align} if align else {}), "input": events}
    records = run_case(case)
    assert run_case(case, [1] * len(events)) == records
    return [list(record["tuple"].values()) for record in records if "tuple" in record]


@pytest.mark.parametrize("change", ["2024-03-31", "2024-10-27"])
def test_hours_of_a_zone_are_those_of_the_clock(change: str, monkeypatch: pytest.MonkeyPatch):
    """Where the clocks change a day has 23 or 25 hours, and no hour comes out twice or is missing."""
    monkeypatch.setattr(empty_panes, "MOST", 3_600)
    begin = datetime.fromisoformat(change).replace(tzinfo=BERLIN).timestamp()
    tuples = [("a", -3_000.0), ("b", 100.0), ("a", 26 * 3_600.0)]
    events = [{"at": n, "tuple": {"k": k, "t": begin + t}} for n, (k, t) in enumerate(tuples)]
    events += [{"at": 9 + n, "watermark": begin + t} for n, t in enumerate([5_000, 11_000, 90_000, 400_000])]
    window = "timeInterval, intervalDuration(1h), partitioned"
    zone = {"zone": "Europe/Berlin"}
    assert of_zone(window, zone, events, "30h") == of_zone(window, None, events, "30h")


def test_days_of_a_zone():
    """A key lives for three real days behind the end of its day: 71 hours where the clocks are set forward."""

    def day(number: int) -> float:
        return datetime(2024, 3, number, tzinfo=BERLIN).timestamp()

    events = [{"at": 0, "tuple": {"k": "a", "t": day(29) + 5}}, {"at": 1, "watermark": day(31) + 86_400 * 5}]
    window, zone = "timeInterval, intervalDuration(1d), partitioned", {"zone": "Europe/Berlin"}
    days = [day(29), day(30), day(31)]
    april = datetime(2024, 4, 1, tzinfo=BERLIN).timestamp()
    assert of_zone(window, zone, events, "3d") == [
        ["a", days[0], 1], ["a", days[1], 0], ["a", days[2], 0], ["a", april, 0],
    ]  # fmt: skip
    assert of_zone(window, zone, events, "70h") == [["a", days[0], 1], ["a", days[1], 0], ["a", days[2], 0]]


# ---- bounds and the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [[], [1, 1, 1, 1], [2], [3]])
def test_a_key_that_was_forgotten_repeats_nothing_of_before(batches: list[int]):
    """KT4: the value of `previous` is that of the key's own life, also if it ended in the same batch."""
    operator = {
        "kind": "aggregate", "window": "timeInterval, intervalDuration(1), partitioned", "partition_by": ["k"],
        "event_time": "t", "schema": {"k": "string", "i": "int64", "t": "timestamp"},
        "watermarks": {"per": "key", "lag": 0, "idle_after": 4, "forget_after": 8},
        "empty_panes": {"fill": "previous", "forget_after": 9},
        "output": {"second": "second(intervalStart())", "last": "Last(i)"},
    }  # fmt: skip
    times = {0: 50, 10: 20, 11: 23}
    events: list[dict[str, Any]] = [
        {"at": float(at), "tuple": {"k": "a", "i": at, "t": f"2024-01-01T00:00:{second}Z"}}
        for at, second in times.items()
    ]
    found = run_case({"operator": operator, "input": [*events, {"at": 16.0}]}, batches)
    assert [tuple(record["tuple"].values()) for record in found if "tuple" in record] == [
        (50, 0), (20, 10), (21, 10), (22, 10), (23, 11),
    ]  # fmt: skip


def test_a_watermark_that_jumps_by_a_year(monkeypatch: pytest.MonkeyPatch):
    """31 million panes of a second: the last 3,600 come out, and the others are counted (EP6)."""
    monkeypatch.setattr(empty_panes, "MOST", 3_600)
    operator = {
        "window": "timeInterval, intervalDuration(1), partitioned", "partition_by": ["k"], "event_time": "t",
        "output": {"k": "k", "start": "intervalStart()", "x": "Max(x)"}, "schema": {"k": "string", "t": "int64"},
        "event_time_resolution": "Milliseconds",
        "empty_panes": {"fill": "previous", "forget_after": "400d"},
    }  # fmt: skip
    year = 365 * 86_400
    events = [{"at": 0, "tuple": {"k": "a", "t": 1_000, "x": 7}}, {"at": 1, "watermark": float(year)}]
    pipeline = pipeline_of({"operator": operator, "input": events})
    player, graph = Player(pipeline, {"input": 1}), Graph(pipeline, {"input": 1})
    state = graph.initial()
    batch = Cutter(pipeline.inputs).batch(list(numbered(map(on_stream, events))))
    rows = [tuple(record["tuple"].values()) for record in player.feed(state, batch) if "tuple" in record]
    assert rows == [("a", 1_000, 7), *(("a", 1_000 * (year - n), 7) for n in range(3_600, 0, -1))]
    assert graph.left_out(state) == {"case": year - 2 - 3_600}
    (window,) = graph.inspect(state, "a")
    assert window.policy["empty_until"] == 2.0 + 400 * 86_400


END = """
pipeline: end
streams:
  in: {topic: in, schema: {k: string, ts: int64}, event_time: {attribute: ts, lag: 1s}}
  made: {}
  out: {topic: out}
operators:
  - {name: pass, map: in, output: [made]}
  - name: fill
    aggregate: made
    window: timeInterval, intervalDuration(1), partitioned
    partition_by: [k]
    empty_panes: {forget_after: 1h}
    output: {out: {k: k, start: intervalStart(), n: Count()}}
"""


def test_the_end_of_the_stream():
    """EP7: panes between tuples come out, and none behind the last one."""
    tuples = [{"stream": "in", "tuple": {"k": k, "ts": ts}} for k, ts in [("a", 500), ("b", 600), ("a", 3_100)]]
    events = [{"at": at} | event for at, event in enumerate([*tuples, {"stream": "in", "punct": "final"}])]
    found = [r["tuple"].values() for r in replay(load_text(END, "end", environment=None), events) if "tuple" in r]
    assert [tuple(row) for row in found] == [
        ("a", 0, 1), ("b", 0, 1), ("a", 1_000, 0), ("b", 1_000, 0), ("a", 2_000, 0), ("a", 3_000, 1),
    ]  # fmt: skip


def test_a_value_before_with_an_error_is_a_dead_letter():
    """EP4: the empty pane has no other value."""
    operator = {
        "window": "timeInterval, intervalDuration(1)", "event_time": "t", "schema": {"t": "int64", "x": "int64"},
        "event_time_resolution": "Milliseconds", "output": {"start": "intervalStart()", "y": "10 % Sum(x)"},
        "empty_panes": {"fill": "previous", "forget_after": 3},
    }  # fmt: skip
    events = [{"at": 0, "tuple": {"t": 0, "x": 0}}, {"at": 1, "watermark": 2.0}, {"at": 2, "watermark": 3.0}]
    pipeline = pipeline_of({"operator": operator, "input": events})
    records = list(replay(pipeline, events))
    assert [r["after"] for r in records if "dead_letter" in r] == [1, 1, 2]
    assert not [r for r in records if "tuple" in r]
