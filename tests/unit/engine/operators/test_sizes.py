"""How many tuples the windows of an operator contain, for every kind of window: also where summaries stand for them."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.engine.graph import Graph, GraphState
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player

SUM, LIST = "Sum(v)", "Collect(v)"
WINDOWS = [
    ("tumbling, count(100)", 9),
    ("tumbling, time(100), partitioned", 9),
    ("tumbling, count(4)", 1),
    ("sliding, count(4)", 4),
    ("sliding, count(40)", 9),
    ("sliding, count(4), partitioned", 9),
    ("sliding, time(3), count(1)", 4),
    ("sliding, delta(t, 2.5)", 3),
    ("timeInterval, intervalDuration(5)", 4),
    ("timeInterval, intervalDuration(10), creationPeriod(5)", 9),
    ("timeInterval, intervalDuration(5), partitioned", 4),
    ("slidingTime, timeDifference(3)", 4),
    ("session, inactivityGap(2)", 9),
]
DEDUPS = [("time(5)", "first", 3), ("eventTime(5)", "first", 3), ("eventTime(5)", "last", 3), ("time(100)", "last", 3)]


def pipeline(operator: str, *, event_time: bool) -> Pipeline:
    of = "event_time: {attribute: t, lag: 0}" if event_time else ""
    return load_text(
        f"""
pipeline: sizes
streams:
  in: {{topic: in, schema: {{k: string, t: float64, v: float64}}, {of}}}
  out: {{topic: out}}
operators:
  - {operator}
""",
        "sizes.yaml", environment=None,
    )  # fmt: skip


def aggregate(window: str, function: str, more: str = "") -> str:
    key = "partition_by: [k], " if "partitioned" in window else ""
    return f'{{name: one, aggregate: in, window: "{window}", {key}{more}output: {{out: {{x: "{function}"}}}}}}'


def sizes(pipeline: Pipeline) -> list[int]:
    """The numbers of tuples after nine tuples, of the keys a, b and c, at the seconds 0 to 8: of the state, and of the
    state that was saved and loaded.
    """
    events: list[dict[str, Any]] = [
        {"at": n, "stream": "in", "tuple": {"k": "abc"[n % 3], "t": float(n), "v": float(n)}} for n in range(9)
    ]
    player = Player(pipeline, {"in": 1}, python_values)
    state: GraphState = player.graph.initial()
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(events)))))
    loaded = player.graph.load(player.graph.save(state))
    return [_tuples(player.graph, one) for one in (state, loaded)]


def _tuples(graph: Graph, state: GraphState) -> int:
    return graph.sizes(state)["one"][1]


@pytest.mark.parametrize("function", [SUM, LIST])
@pytest.mark.parametrize(("window", "tuples"), WINDOWS)
def test_windows_count_what_they_contain(window: str, tuples: int, function: str):
    over = window.split(",", maxsplit=1)[0] in {"timeInterval", "slidingTime", "session"}
    assert sizes(pipeline(aggregate(window, function), event_time=over)) == [tuples, tuples]


@pytest.mark.parametrize("window", [window for window, _ in WINDOWS[:9]])
def test_groups_of_a_window_count_together(window: str):
    over = window.startswith("timeInterval")
    grouped = sizes(pipeline(aggregate(window, SUM, "group_by: [k], "), event_time=over))
    assert grouped == [dict(WINDOWS)[window]] * 2


@pytest.mark.parametrize(("within", "keep", "tuples"), DEDUPS)
def test_a_dedup_counts_the_tuples_that_it_remembers(within: str, keep: str, tuples: int):
    clause = f'{{name: one, dedup: in, by: [k], within: "{within}", keep: {keep}, output: [out]}}'
    assert sizes(pipeline(clause, event_time="event" in within)) == [tuples, tuples]


def test_a_session_over_the_clock_counts_its_tuples():
    assert sizes(pipeline(aggregate("session, inactivityGap(5)", SUM), event_time=False)) == [9, 9]
