"""Results of empty panes (EP1 to EP8) are what a slow calculation gives: at each watermark it walks over all panes of
all keys, from the tuples of the whole history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

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
from tests.spec.comparing import differences
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked", "few")

#: the bound on empty panes in these tests (EP6)
MOST = 4
OUTPUT = {
    "k": "k", "twice": "k + k", "start": "intervalStart()", "end": "intervalEnd()", "n": "Count()", "all": "CountAll()",
    "sum": "Sum(i)", "zero": "Max(i)", "before": "Collect(i)", "mean": "Average(i) + 1", "empty": "isEmpty()",
    "index": "paneIndex()",
}  # fmt: skip
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
        "event_time": "t", "event_time_resolution": "Milliseconds", "schema": {"k": "string", "i": "int64", "t": "int64"},
        "output": OUTPUT,
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


@given(cases(), cuts)
@settings(max_examples=80, derandomize=True, deadline=None)
def test_random_panes(case: Case, batches: list[int]):
    whole = expected(case)
    for sizes in (None, [1] * len(case["input"]), batches):
        assert differences(run_case(case, sizes), whole, case) == [], f"cuts {sizes}"


@given(cases(), divisions())
@settings(max_examples=30, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    case["operator"]["output"] = {name: call for name, call in OUTPUT.items() if call not in ONE_BUCKET}
    check_case(case, division)


ONE_BUCKET = ("CountAll()", "paneIndex()")
