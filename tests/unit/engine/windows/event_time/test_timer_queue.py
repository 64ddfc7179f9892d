"""The time at which time alone causes the next output: until then, batches without records have no output."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME
from sluice.replayer.player import replay
from sluice.testing import run_case
from sluice.time_units import SECOND
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.strategies import Case, cases
from tests.unit.engine.windows.event_time.test_idle import FILE as IDLE
from tests.unit.engine.windows.event_time.test_idle import row

FEED = Graph.feed


def come_before(graph, state, due, clock):
    """How many items come out of a copy of the state while time passes until just before something is due."""
    until = due - 1 if due < MAX_TIME else clock.end + 3600 * SECOND
    made = FEED(graph, graph.load(graph.save(state)), {}, Clock(clock.start, until))
    return sum(map(len, made.values()))


@pytest.mark.parametrize("strategy", [cases(), join_cases(), sort_cases()], ids=["aggregate", "join", "sort"])
def test_nothing_comes_before_it_is_due(strategy, monkeypatch):
    seen = []

    def feed(graph, state, inputs, clock):
        made = FEED(graph, state, inputs, clock)
        due = graph.due(state)
        seen.append((due > clock.end, come_before(graph, state, due, clock)))
        return made

    monkeypatch.setattr(Graph, "feed", feed)

    @given(strategy)
    @settings(max_examples=50, derandomize=True)
    def of_random_operators(case: Case) -> None:
        seen.clear()
        run_case(case, [1] * len(case["input"]))
        assert seen == [(True, 0)] * len(seen)

    of_random_operators()
    assert seen, "batches were looked at"


# ---- literally -------------------------------------------------------------------------------------------------------

OPERATORS = """
pipeline: p
streams:
  in: {{topic: in, schema: {{i: int64}}}}
  other: {{topic: other, schema: {{i: int64}}}}
  out: {{topic: out}}
operators:
  - {{name: o, {operator}}}
"""
COUNT = "output: {out: {n: Count()}}"
JOIN = (
    "join: {{left: in, right: other}}, window_left: 'sliding, {}', window_right: 'sliding, time(2)', "
    "output: {{out: {{n: left.i}}}}, algorithm: {}"
)
CUSTOM = "custom: in, handler: tests.spec.handler_classes:Contents, window: 'sliding, time(5), count(9)', output: [out]"


@pytest.fixture
def dues(monkeypatch):
    """Seconds of clock, after each batch, at which something is due; None: never."""
    seconds = []

    def feed(graph, state, inputs, clock):
        made = FEED(graph, state, inputs, clock)
        due = graph.due(state)
        seconds.append(None if due == MAX_TIME else due / SECOND)
        return made

    monkeypatch.setattr(Graph, "feed", feed)
    return seconds


@pytest.mark.parametrize(
    ("operator", "due"),
    [
        (f"aggregate: in, window: 'tumbling, time(2)', {COUNT}", 12),
        (f"aggregate: in, window: 'sliding, count(5), time(2)', {COUNT}", 12),
        (f"aggregate: in, window: 'sliding, time(5), count(1)', {COUNT}", None),
        (f"aggregate: in, window: 'tumbling, count(2)', {COUNT}", None),
        ("sort: in, window: 'tumbling, time(2)', order_by: {i: asc}, output: [out]", 12),
        ("sort: in, window: 'sliding, count(2)', order_by: {i: asc}, output: [out]", None),
        ("map: in, output: [out]", None),
        (JOIN.format("time(5)", "inner"), None),
        (JOIN.format("time(5)", "leftOuter"), 15),
        (JOIN.format("count(5)", "leftOuter"), None),
        (JOIN.format("time(5)", "rightOuter"), None),
        (CUSTOM, 15),
    ],
)
def test_after_tuples_at_10_and_11(operator, due, dues):
    """Timers count from 0; what leaves a window after a time does so a nanosecond later (S5)."""
    events = [{"at": at, "stream": "in", "tuple": {"i": at}} for at in (10, 11)]
    list(replay(load_text(OPERATORS.format(operator=operator), "p"), events))
    assert dues == [due if due is None else pytest.approx(due, abs=1e-8)]


def test_an_outer_join_that_holds_nothing_waits_for_nothing(dues):
    pipeline = load_text(OPERATORS.format(operator=JOIN.format("time(5)", "leftOuter")), "p")
    events = [{"at": 10, "stream": "in", "tuple": {"i": 1}}, {"at": 16}]
    list(replay(pipeline, events, batch=1))
    assert dues == [pytest.approx(15, abs=1e-8), None]


def test_behind_its_final_mark_nothing_is_due(dues):
    pipeline = load_text(OPERATORS.format(operator=f"aggregate: in, window: 'tumbling, time(2)', {COUNT}"), "p")
    list(replay(pipeline, [{"at": 10, "tuple": {"i": 1}}, {"at": 11, "punct": "final"}]))
    assert dues == [None]


def test_a_topic_partition_that_will_be_idle(dues):
    """After 3 seconds; the window is behind watermarks and has no timer."""
    events = [row(0, 1, 5, 0), row(1, 2, 6, 1), {"at": 3}, {"at": 4}, row(9, 3, 7, 1)]
    list(replay(load_text(IDLE, "idle"), events, batch=1))
    assert dues == [3, 3, 4, None, 12]
