"""Tumbling windows with `time(t) since first` (H5) give what a slow calculation gives: open batches, and
the times at which they are too old, looked up anew at each event.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.graph import Graph
from sluice.model.engine_limits import EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player
from sluice.testing import on_stream, pipeline_of
from sluice.testing.one_operator import run_case
from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    policies = [f"time({draw(st.sampled_from(['0.5', '1', '2.5', '7']))}) since first"]
    policies += draw(
        st.sampled_from([[], ["count(2)"], ["count(3)"], ["punct()"], ["time(4)"], ["count(4)", "punct()"]])
    )
    window = f"tumbling, {' or '.join(draw(st.permutations(policies)))}, partitioned"
    operator = {
        "kind": "aggregate", "window": window, "partition_by": ["k"], "schema": {"k": "string", "i": "int64"},
        "output": {"k": "k", "all": "Collect(i)", "why": "flushReason()"},
    }  # fmt: skip
    at, found = 0.0, []
    for number in range(draw(st.sampled_from([3, 8, 20, 40]))):
        at += draw(st.sampled_from([0, 0, 0.25, 0.5, 0.5, 1, 3, 20]))
        what: dict[str, Any] = {"tuple": {"k": draw(st.sampled_from("abcd")), "i": number}}
        found.append({"at": at} | draw(st.sampled_from([what, what, what, what, {}, {"punct": "window"}])))
    return {"operator": operator, "input": found, "limits": EngineLimits(uncompacted=2)}


class Batches:
    """The open batches by key: the time of the first tuple, and the numbers of all."""

    def __init__(self, window: str) -> None:
        sizes = {word: float(size) for word, size in re.findall(r"(count|time)\(([^)]*)\)(?! since)", window)}
        self.age = float(re.findall(r"time\(([^)]*)\) since first", window)[0])
        self.count, self.period = sizes.get("count"), sizes.get("time", float("inf"))
        self.tick, self.marked = self.period, "punct()" in window
        self.open: dict[str, tuple[float, list[int]]] = {}
        self.records: list[dict[str, Any]] = []

    def flush(self, number: int, keys: list[str], why: str, *, empty: bool = False) -> None:
        """`empty`: whether a flush of nothing gives a mark (T7, T19)."""
        for key in sorted(keys):
            row = {"k": key, "all": self.open.pop(key)[1], "why": why}
            self.records += [{"after": number, "tuple": row}, {"after": number, "punct": "window"}]
        self.records += [{"after": number, "punct": "window"}] * (empty and not keys)

    def advance(self, number: int, now: float) -> None:
        while True:
            old = min((first for first, _ in self.open.values()), default=float("inf")) + self.age
            if min(old, self.tick) > now:
                return
            if self.tick <= old:
                self.flush(number, list(self.open), "time", empty=True)
                self.tick += self.period
            else:
                due = [key for key, (first, _) in self.open.items() if first + self.age == old]
                self.flush(number, due, "sinceFirst")

    def insert(self, number: int, at: float, key: str) -> None:
        self.open.setdefault(key, (at, []))[1].append(number)
        if len(self.open[key][1]) == self.count:
            self.flush(number, [key], "count")


def expected(case: Case) -> list[dict[str, Any]]:
    batches = Batches(case["operator"]["window"])
    for number, event in enumerate(case["input"]):
        batches.advance(number, event["at"])
        if "tuple" in event:
            batches.insert(number, event["at"], event["tuple"]["k"])
        elif "punct" in event and batches.marked:
            batches.flush(number, list(batches.open), "punct", empty=True)
    return batches.records


@given(cases(), cuts)
@settings(max_examples=48, derandomize=True, deadline=None)
def test_random_batches_by_count_or_age(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=30, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


def test_an_open_batch_is_shown_with_the_time_at_which_it_is_flushed():
    window = "tumbling, count(5) or time(30) since first"
    operator = {"window": window, "output": {"n": "Count()"}, "schema": {"x": "int64"}}
    pipeline = pipeline_of({"operator": operator, "input": []})
    events = [{"at": 2.0, "tuple": {"x": 1}}, {"at": 9.0, "tuple": {"x": 2}}]
    player, graph = Player(pipeline, {"input": 1}), Graph(pipeline, {"input": 1})
    state = graph.initial()
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(map(on_stream, events))))))
    assert graph.due(state) == 32 * 10**9
    assert graph.inspect(state, None)[0].policy["due"] == 32.0


def test_a_flush_comes_before_an_early_result_of_the_same_instant():
    """The flush begins the wait anew, so there is no early result (F3)."""
    operator = {
        "kind": "aggregate", "window": "tumbling, time(5) since first", "early": "time(5)", "partition_by": [],
        "schema": {"i": "int64"}, "output": {"all": "Collect(i)", "why": "flushReason()"},
    }  # fmt: skip
    records = run_case({"operator": operator, "input": [{"at": 0, "tuple": {"i": 1}}, {"at": 9}]}, None)
    assert [record["tuple"] for record in records if "tuple" in record] == [{"all": [1], "why": "sinceFirst"}]
