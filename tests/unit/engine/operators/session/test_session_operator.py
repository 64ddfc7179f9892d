"""Sessions of an operator: when the next one is over, what is held, and what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.json_columns import python_values
from sluice.columns.saved_columns import StateError
from sluice.engine.graph import GraphState
from sluice.engine.operators.session.session_state import SessionState
from sluice.engine.stream.items import MAX_TIME
from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from sluice.testing import on_stream, pipeline_of, run_case

SECOND = 10**9


class Running:
    """A session window over the clock or over event time, to which events are fed one after the other."""

    def __init__(self, limits: EngineLimits = LIMITS, *, event_time: bool = False, **more: Any) -> None:
        operator = {
            "kind": "aggregate", "window": "session, inactivityGap(5)", "partition_by": ["k"],
            "output": {"k": "k", "n": "Count()", "all": "Collect(x)"},
            "schema": {"k": "string", "x": "int64", "t": "float64"},
        } | ({"event_time": "t"} if event_time else {}) | more  # fmt: skip
        self.pipeline = pipeline_of({"operator": operator, "input": [], "limits": limits})
        self.player = Player(self.pipeline, {"input": 1}, python_values)
        self.state: GraphState = self.player.graph.initial()
        self.cutter = Cutter(self.pipeline.inputs)

    def feed(self, *events: dict[str, Any]) -> list[dict[str, Any]]:
        return list(self.player.feed(self.state, self.cutter.batch(list(numbered(map(on_stream, events))))))

    @property
    def own(self) -> SessionState:
        (state,) = self.state.operators
        assert isinstance(state, SessionState)
        return state


def row(at: float, key: str = "a", x: int = 0, t: float = 0.0) -> dict[str, Any]:
    return {"at": at, "tuple": {"k": key, "x": x, "t": t}}


def test_a_session_of_the_clock_is_due_a_nanosecond_behind_its_reach():
    running = Running()
    assert running.player.graph.due(running.state) == MAX_TIME
    running.feed(row(1), row(3, "b"))
    assert running.player.graph.due(running.state) == 6 * SECOND + 1
    running.feed(row(4))
    assert running.player.graph.due(running.state) == 8 * SECOND + 1
    running.feed({"at": 20.0})
    assert running.player.graph.due(running.state) == MAX_TIME


def test_a_session_of_event_time_is_never_due():
    running = Running(event_time=True)
    running.feed(row(1, t=1.0))
    assert running.player.graph.due(running.state) == MAX_TIME


def test_open_sessions_of_a_key_are_shown():
    running = Running(event_time=True)
    running.feed(row(0, t=10.0), row(1, t=30.0), row(2, "b", t=12.0), row(3, t=14.0))
    (inside,) = running.player.graph.inspect(running.state, "a")
    assert inside.tuples == 3
    assert inside.policy == {
        "sessions": [{"start": 10.0, "end": 14.0, "tuples": 2}, {"start": 30.0, "end": 30.0, "tuples": 1}]
    }
    assert running.player.graph.inspect(running.state, "c") == []


def test_what_is_over_is_forgotten():
    """Keys, texts, sessions and listed tuples: the state after thousands of sessions is as small as after a few."""
    output = {"k": "k", "text": "Max(k)", "all": "Collect(x)"}
    running = Running(EngineLimits(uncompacted=16), output=output, group_by=["x"])
    sizes = []
    for batch in range(40):
        running.feed(*(row(10 * batch + n / 100, f"key {batch} {n}", n) for n in range(50)))
        sizes.append(running.player.graph.size(running.state))
    assert max(sizes[20:]) < 2 * max(sizes[:4])
    assert running.own.sizes[1] <= 50
    assert running.own.keys.count <= 150


def test_the_state_of_another_operator_is_refused():
    running = Running()
    running.feed(row(1))
    saved = running.player.graph.save(running.state)
    other = Running(output={"n": "Sum(x)"})
    with pytest.raises(StateError, match="another"):
        other.player.graph.load(saved)
    tumbling = Running(window="tumbling, count(2)", partition_by=[])
    with pytest.raises(StateError, match="aggregate over sessions"):
        other.player.graph.load(tumbling.player.graph.save(tumbling.state))


def test_a_trace_shows_what_comes_out():
    """The sessions of an aggregate have no events of their own."""
    events = [row(0), row(10)]
    case = Running().pipeline
    assert list(replay(case, events_on_input(events), trace=True)) == list(replay(case, events_on_input(events)))


def events_on_input(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event | {"stream": "input"} for event in events]


def test_a_state_split_by_key_has_each_key_in_one_part():
    running = Running(event_time=True)
    running.feed(*(row(n, f"key {n}", n, t=float(n)) for n in range(30)))
    parts = running.own.split(4, lambda key: len(key) % 2 * 3)
    assert [part.keys.count for part in parts] == [20, 0, 0, 10]
    assert parts[0].merge(parts[1:]).keys.count == 30


GAPS = {0.0: "dead letter", -1.0: "dead letter", float("nan"): "dead letter", 1e300: "dead letter", 2.0: "tuple"}


@pytest.mark.parametrize(("gap", "what"), GAPS.items())
def test_a_tuple_whose_gap_is_no_gap_is_a_dead_letter(gap: float, what: str):
    case = {
        "operator": {
            "kind": "aggregate", "window": "session, inactivityGap(w)", "output": {"n": "Count()"},
            "schema": {"w": "float64"},
        },
        "input": [{"at": 0.0, "tuple": {"w": gap}}, {"at": 10.0}], "dead_letters": True,
    }  # fmt: skip
    records = run_case(case)
    if what == "tuple":
        assert records[0] == {"after": 1, "tuple": {"n": 1}}
    else:
        reason = "its inactivityGap is no number of seconds above 0, of at most 3,650 days (G4)"
        assert [record["dead_letter"]["reason"] for record in records] == [reason]
