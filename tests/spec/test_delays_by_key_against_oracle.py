"""A delay and a throttle with `partition_by` give what a line for each key gives, for every cut into batches (DL8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import check_text, load_text
from sluice.engine.graph import Graph
from sluice.model.changes.operator_changes import changes_of
from sluice.model.spec import Pipeline
from sluice.model.spreading import layout
from sluice.planning.explain_plan import plan
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from tests.spec.strategies import cuts
from tests.spec.test_delays_against_oracle import PACES, SECOND, Event, run
from tests.spec.test_split_and_merge import Division, check, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

FILE = """
pipeline: p
streams:
  in: {topic: in, schema: {n: int64, k: string, s: "string?", t: timestamp}, event_time: {attribute: t}}
  out: {topic: out}
  counts: {topic: counts}
operators:
  - {name: wait, %s, output: [out]}
"""


def of(text: str, more: str = "") -> Pipeline:
    return load_text(FILE % text + more, "p", environment=None)


def pipeline_of(pace: tuple[str, float], buffer: int) -> Pipeline:
    word, size = pace
    size_text = f"by: {size}s" if word == "delay" else f"rate: {1 / size}"
    return of(f"{word}: in, {size_text}, buffer: {buffer}, partition_by: [k]")


def row(at: float, number: int, key: str, text: str | None = None) -> Event:
    return {"at": at, "stream": "in", "tuple": {"n": number, "k": key, "s": text, "t": "1970-01-01T00:00:00Z"}}


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[str, float], int, list[Event]]:
    at, events = 0.0, []
    for number, kind in enumerate(draw(st.lists(st.integers(0, 9), max_size=25))):
        at += draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 4.0]))
        tuple_ = row(at, number, draw(st.sampled_from(["b", "a", "c"])), draw(st.sampled_from([None, "x"])))
        events.append({"at": at, "stream": "in", "punct": "window"} if kind == 0 else tuple_)
    if draw(st.booleans()):
        events.append({"at": at + 0.5, "stream": "in", "punct": "final"})
    return draw(st.sampled_from(PACES)), draw(st.sampled_from([1, 2, 1000])), events


def oracle(pace: tuple[str, float], buffer: int, events: list[Event]) -> tuple[list[Any], list[int]]:
    """What leaves, as (time in seconds, number of a tuple or mark), and the numbers of the tuples without room.

    Each entry of the output has a place: its time, whether it leaves when it came (then the number of the event), its
    key, and the number of the tuple.
    """
    word, size = pace
    lines: dict[str, list[float]] = {}
    entries: list[tuple[tuple[float, int, str, int], Any]] = []
    refused = []
    for place, event in enumerate(events):
        now = event["at"]
        if event.get("punct") == "final":
            before = [one for one in entries if one[0][0] <= now]
            rest = sorted((one for one in entries if one[0][0] > now), key=lambda one: (one[0][2], one[0][3]))
            left = [(of[0], what) for of, what in sorted(before)]
            return left + [(now, what) for _, what in [*rest, (0, "final")]], refused
        if "tuple" not in event:
            entries.append(((now, place + 1, "", 0), "window"))
            continue
        line, number = lines.setdefault(event["tuple"]["k"], []), event["tuple"]["n"]
        if sum(time > now for time in line) >= buffer:
            refused.append(number)
            continue
        line.append(max([now + size * (word == "delay"), *(time + size * (word == "throttle") for time in line[-1:])]))
        at_once = line[-1] == now
        entries.append(
            ((line[-1], place + 1 if at_once else 0, "" if at_once else event["tuple"]["k"], number), number)
        )
    last = events[-1]["at"] if events else 0
    return [(of[0], what) for of, what in sorted(entries) if of[0] <= last], refused


@given(cases(), cuts)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_random_delays_and_events(case: tuple[tuple[str, float], int, list[Event]], batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    *of_case, events = case
    expected = oracle(*of_case, events)
    for sizes in (None, [1] * len(events), batches):
        assert run(pipeline_of(*of_case), events, sizes) == expected, f"cuts {sizes}"


@given(cases(), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: tuple[tuple[str, float], int, list[Event]], division: Division):
    pace, buffer, events = case
    check(pipeline_of(pace, buffer), events, division)


# ---- single rules ----------------------------------------------------------------------------------------------------


def test_each_key_has_its_own_rate():
    events = [row(0.0, 0, "a"), row(0.0, 1, "a"), row(0.0, 2, "b"), row(0.5, 3, "b"), row(9.0, 4, "a")]
    left, _ = run(of("throttle: in, rate: 1, partition_by: [k]"), events, None)
    assert left == [(0.0, 0), (0.0, 2), (1.0, 1), (1.0, 3), (9.0, 4)]


def test_a_mark_does_not_wait_and_a_watermark_neither():
    more = """
  - {name: n, aggregate: out, window: "timeInterval, intervalDuration(10)", output: {counts: {n: Count()}}}
"""
    events = [row(0.0, 0, "a"), {"at": 1.0, "stream": "in", "watermark": 20.0}, row(9.0, 1, "a")]
    pipeline = of("delay: in, by: 5s, partition_by: [k]", more)
    checked = check_text(FILE % "delay: in, by: 5s, partition_by: [k]" + more, "p", environment=None)
    assert any("holds tuples while the watermark advances" in hint.text for hint in checked.cautions)
    records = list(replay(pipeline, events))
    assert [r["dead_letter"]["tuple"]["n"] for r in records if "dead_letter" in r] == [0]


def test_the_state_forgets_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sluice.engine.operators.delay.keyed_delay_state.should_compact", lambda *_: True)
    pipeline = of("throttle: in, rate: 1, partition_by: [k]")
    player = Player(pipeline, {"in": 1})
    state = player.graph.initial()
    given_events = [row(0.0, n, f"k{n}") for n in range(5)] + [row(0.5, 5, "k0"), row(1.2, 6, "k9")]
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(given_events)))))
    assert state.operators[0].sizes == (2, 0)  # the last tuples of k0 and k9 left less than a second ago


def test_what_waits_is_shown():
    pipeline = of("delay: in, by: 5s, partition_by: [k]")
    graph, player = Graph(pipeline, {"in": 1}), Player(pipeline, {"in": 1})
    state = graph.initial()
    events = [row(1.0, 0, "a"), row(2.0, 1, "b"), row(3.0, 2, "b")]
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(events)))))
    (found,) = graph.inspect(state, "b")
    assert ([held["n"] for held in found.held], found.policy) == ([1, 2], {"due": 7.0})
    assert not graph.inspect(state, "z")
    assert graph.due(state) == 6 * SECOND


def test_tuples_are_spread_by_the_key():
    pipeline = of("throttle: in, rate: 4, buffer: 9, partition_by: [k]")
    assert layout(pipeline).why == ()
    (step,) = plan(pipeline)[0].steps
    assert step.windows == ("at least 0.25 s between two tuples by k; at most 9 tuples wait",)


@pytest.mark.parametrize(
    ("after", "word"),
    [
        ("rate: 9, buffer: 3, partition_by: [k]", "kept"),
        ("rate: 1, partition_by: [s]", "emptied"),
        ("rate: 1", "emptied"),
    ],
)
def test_what_an_upgrade_keeps(after: str, word: str):
    before = of("throttle: in, rate: 1, partition_by: [k]")
    assert [one.word for one in changes_of(before, of(f"throttle: in, {after}")).all] == [word]


def test_many_pieces():
    """Single tuples, of which each waits: pieces are joined, and all leave in order."""
    events = [row(n / 100, n, f"k{n % 7}") for n in range(200)] + [row(50.0, 200, "x")]
    left, _ = run(of("delay: in, by: 10s, partition_by: [k]"), events, [1] * 201)
    assert [number for _, number in left] == [*range(200)]
