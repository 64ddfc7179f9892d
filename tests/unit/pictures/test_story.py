"""What a story says of each kind of window, from the events of a replay."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.session.session_operator import SessionOperator
from sluice.engine.operators.session.session_state import SessionState
from sluice.pictures.story import Change, Story
from sluice.pictures.story_builder import build_story
from sluice.replayer.event_file import EventError
from sluice.testing import pipeline_of


def story(operator: dict[str, Any], *events: dict[str, Any], **options: Any) -> Story:
    case = {"operator": {"output": {"all": "Collect(x)"}} | operator, "input": list(events)}
    return build_story(pipeline_of(case), events, **options)


def x(at: float, value: int, **others: Any) -> dict[str, Any]:
    return {"at": at, "tuple": {"x": value} | others}


def words(change: Change) -> str:
    """The change in short: -left, [inside], !fired."""
    left = "".join(f"-{chip.label} " for chip in change.left)
    fired = "".join(f" !{[int(chip.label) for chip in chips]}" for chips in change.fired)
    return f"{left}{[int(chip.label) for chip in change.inside]}{fired}"


def changes(of: Story) -> list[list[str]]:
    return [[words(change) for change in step.changes] for step in of.steps]


def test_a_tumbling_window_is_empty_after_it_fired():
    built = story({"window": "tumbling, count(2)"}, x(0, 1), x(1, 2), x(2, 3))
    assert changes(built) == [["[1]"], ["[] ![1, 2]"], ["[3]"]]
    assert [len(step.outputs) for step in built.steps] == [0, 2, 0]


def test_a_sliding_window_keeps_its_tuples_and_evicts_the_oldest():
    built = story({"window": "sliding, count(2)"}, x(0, 1), x(1, 2), x(2, 3))
    assert changes(built)[1:] == [["[1, 2] ![1, 2]"], ["-1 [2, 3] ![2, 3]"]]


def test_a_sliding_window_that_was_never_full_fires_only_if_it_aggregates_incomplete_windows():
    events = (x(0, 1), x(1, 2), x(2, 3))
    assert changes(story({"window": "sliding, count(3)", "aggregate_incomplete_windows": False}, *events))[0] == ["[1]"]
    built = story({"window": "sliding, count(3)", "aggregate_incomplete_windows": True}, *events)
    assert changes(built)[0] == ["[1] ![1]"]


def test_a_delta_trigger_fires_without_the_tuple_that_triggers():
    built = story({"window": "sliding, count(3), delta(x, 2)"}, x(0, 0), x(1, 1), x(2, 2), x(3, 3))
    assert changes(built)[3] == ["-0 [1, 2, 3] ![0, 1, 2]"]


def test_timers_are_steps_of_their_own_at_their_own_times():
    built = story({"window": "tumbling, time(5)"}, x(1, 1), x(11, 2))
    assert [(step.at / 1e9, step.after, step.event is None) for step in built.steps] == [
        (1, 0, False), (5, 1, True), (10, 1, True), (11, 1, False),
    ]  # fmt: skip
    assert changes(built)[1] == ["[] ![1]"]


def test_each_partition_is_a_window():
    operator = {"window": "tumbling, count(2), partitioned", "partition_by": ["k"]}
    built = story(operator, x(0, 1, k="a"), x(1, 2, k="b"), x(2, 3, k="a"))
    assert [[change.window.key for change in step.changes] for step in built.steps] == [["a"], ["b"], ["a"]]
    assert changes(built)[2] == ["[] ![1, 3]"]


def test_panes_have_bounds_and_fire_with_the_watermark():
    operator = {"window": "timeInterval, intervalDuration(10)", "event_time": "ts"}
    built = story(operator, x(0, 1, ts=108.0), x(1, 2, ts=112.0), {"at": 2, "watermark": 110}, x(3, 3, ts=101.0))
    first = built.steps[0].changes[0].window
    assert (first.start, first.end) == (100_000_000_000, 110_000_000_000)
    assert changes(built)[2] == ["[] ![1]"]
    assert built.steps[2].watermarks == {"input": 110_000_000_000}
    assert [chip.label for chip in built.steps[3].changes[0].late] == ["3"]
    assert built.steps[2].changes[0].ended == "closed"


def test_overlapping_panes_hold_the_same_chip():
    operator = {"window": "timeInterval, intervalDuration(10), creationPeriod(5)", "event_time": "ts"}
    one, two = story(operator, x(0, 1, ts=108.0)).steps[0].changes
    assert one.inside == two.inside
    assert one.window != two.window


def test_a_session_that_connects_two_replaces_both():
    operator = {"window": "session, inactivityGap(5)", "event_time": "ts"}
    built = story(
        operator, x(0, 1, ts=10.0), x(1, 2, ts=18.0), x(2, 3, ts=14.0), {"at": 3, "watermark": 24}
    )  # fmt: skip
    grown = built.steps[2].changes[0]
    assert [(window.start, window.end) for window in grown.replaces] == [(10 * 10**9,) * 2, (18 * 10**9,) * 2]
    assert sorted(chip.label for chip in grown.inside) == ["1", "2", "3"]
    assert built.steps[3].changes[0].ended == "closed"
    assert len(built.steps[3].changes[0].fired) == 1


def test_sessions_over_the_clock_end_at_their_own_times():
    operator = {"window": "session, inactivityGap(5)", "partition_by": ["k"], "output": {"k": "k", "all": "Collect(x)"}}
    built = story(operator, x(1, 1, k="a"), x(2, 2, k="b"), {"at": 30})
    ends = [(round(step.at / 1e9, 3), step.changes[0].window.key) for step in built.steps if step.changes]
    assert ends[2:] == [(6.0, "a"), (7.0, "b")]


def test_a_dedup_shows_the_tuples_that_it_stores():
    operator = {"kind": "dedup", "by": ["k"], "within": "time(5)", "keep": "last"}
    built = story(operator, x(0, 1, k="a"), x(1, 2, k="a"), x(2, 3, k="b"), {"at": 30})
    assert changes(built) == [["[1]"], ["-1 [2]"], ["[3]"], ["-2 []"], ["-3 []"], []]
    assert [step.outputs[0].values["x"] for step in built.steps if step.outputs] == [2, 3]
    assert built.ports[0].clause == "keep last, time(5)"


def test_a_map_shows_the_earlier_tuples_of_each_key():
    operator = {"kind": "map", "partition_by": ["k"], "output": {"p": "previous(x)"}}
    built = story(operator, x(0, 1, k="a"), x(1, 2, k="b"), x(2, 3, k="a"))
    assert changes(built) == [["[1]"], ["[2]"], ["-1 [3]"]]
    assert built.ports[0].clause == "the tuple before by k: x"


def firings(of: Story) -> list[tuple[float, Any, Any, list[int]]]:
    """The clock at each firing, the start and the end of its window in seconds, and the tuples in it."""
    return [
        (step.at / 1e9, *(None if time is None else time / 1e9 for time in (change.window.start, change.window.end)),
         [int(chip.label) for chip in chips])
        for step in of.steps for change in step.changes for chips in change.fired
    ]  # fmt: skip


OF_KEY = {"event_time": "ts", "watermarks": {"per": "key", "lag": 1, "idle_after": 5}, "partition_by": ["k"]}


def test_a_batch_by_age_is_flushed_at_its_own_time():
    built = story({"window": "tumbling, count(3) or time(5) since first"}, x(1, 1), x(2, 2), {"at": 30}, x(31, 3))
    assert firings(built) == [(6.0, None, None, [1, 2])]


def test_panes_that_grow_begin_together():
    operator = {"window": "cumulate, maximumDuration(30), step(10)", "event_time": "ts"}
    built = story(
        operator, x(0, 1, ts=91.0), x(1, 2, ts=115.0), {"at": 2, "watermark": 112}, {"at": 3, "watermark": 120}
    )
    assert firings(built) == [(2.0, 90.0, 100.0, [1]), (2.0, 90.0, 110.0, [1]), (3.0, 90.0, 120.0, [1, 2])]


def test_an_empty_pane_is_a_window_without_tuples():
    operator = {
        "window": "timeInterval, intervalDuration(10), partitioned", "event_time": "ts", "partition_by": ["k"],
        "empty_panes": {"fill": "zero", "forget_after": "20s"}, "output": {"n": "Count()"},
    }  # fmt: skip
    built = story(operator, x(0, 1, k="a", ts=101.0), {"at": 1, "watermark": 120})
    assert firings(built) == [(1.0, 100.0, 110.0, [1]), (1.0, 110.0, 120.0, [])]


def test_the_panes_of_a_key_with_its_own_time_close_with_its_tuples_and_by_the_clock():
    operator = OF_KEY | {"window": "timeInterval, intervalDuration(10), partitioned"}
    built = story(operator, x(0, 1, k="b", ts=505.0), x(1, 2, k="a", ts=5.0), x(2, 3, k="a", ts=12.0), {"at": 30})
    assert firings(built) == [(2.0, 0.0, 10.0, [2]), (5.0, 500.0, 510.0, [1]), (7.0, 10.0, 20.0, [3])]


def test_the_sessions_of_a_key_with_its_own_time_end_with_its_tuples_and_by_the_clock():
    operator = OF_KEY | {"window": "session, inactivityGap(3)"}
    built = story(operator, x(0, 1, k="b", ts=505.0), x(1, 2, k="a", ts=5.0), x(2, 3, k="a", ts=12.0), {"at": 30})
    assert firings(built) == [(2.0, 5.0, 5.0, [2]), (5.0, 505.0, 505.0, [1]), (7.0, 12.0, 12.0, [3])]


def test_a_sort_with_a_rank_shows_its_batches():
    operator = {"kind": "sort", "window": "tumbling, count(2)", "order_by": {"x": "desc"}, "output": {"r": "rank()"}}
    assert changes(story(operator, x(0, 1), x(1, 2))) == [["[1]"], ["[] ![1, 2]"]]


STREAMS = """
pipeline: p
streams:
  a: {topic: a, schema: {x: int64}}
  b: {topic: b, schema: {y: int64}}
  out: {topic: out}
operators:
  - {name: it, %s}
"""


def sent(at: float, stream: str, **values: int) -> dict[str, Any]:
    return {"at": at, "stream": stream, "tuple": values}


def test_a_barrier_shows_what_waits_at_each_input():
    pipeline = load_text(STREAMS % "barrier: [a, b], output: {out: {x: x, y: y}}", "p", environment=None)
    built = build_story(pipeline, [sent(0, "a", x=1), sent(1, "a", x=2), sent(2, "b", y=3), sent(3, "b", y=4)])
    assert changes(built) == [["[1]"], ["[1, 2]"], ["-1 [2]"], ["-2 []"]]
    assert [port.clause for port in built.ports] == ["a waits", "b waits"]


def test_a_pair_shows_what_waits_at_each_input():
    text = STREAMS.replace("y: int64", "x: int64") % "pair: [a, b], output: [out]"
    built = build_story(
        load_text(text, "p", environment=None), [sent(0, "a", x=1), sent(1, "a", x=2), sent(2, "b", x=3)]
    )
    assert changes(built) == [["[1]"], ["[1, 2]"], ["-1 [2]"]]


def test_a_split_stores_nothing_and_shows_its_outputs():
    pipeline = load_text(STREAMS % "split: a, to: {out: x > 1}", "p", environment=None)
    built = build_story(pipeline, [sent(0, "a", x=1), sent(1, "a", x=2)])
    assert (changes(built), [len(step.outputs) for step in built.steps]) == ([[], []], [0, 1])


def test_a_throttle_by_key_shows_what_waits_of_each_key():
    pipeline = load_text(STREAMS % "throttle: a, rate: 0.5, partition_by: [x], output: [out]", "p", environment=None)
    built = build_story(pipeline, [sent(0, "a", x=1), sent(1, "a", x=1), sent(1, "a", x=2), {"at": 9}])
    shown = [(step.at / 1e9, change.window.key, words(change)) for step in built.steps for change in step.changes]
    assert shown == [(1.0, "1", "[1]"), (2.0, "1", "-1 []")]


def test_a_delay_shows_what_waits():
    pipeline = load_text(STREAMS % "delay: a, by: 3s, output: [out]", "p", environment=None)
    built = build_story(pipeline, [sent(0, "a", x=1), sent(1, "a", x=2), {"at": 9}])
    assert [words for step in changes(built) for words in step] == ["[1]", "[1, 2]", "-1 [2]", "-2 []"]
    assert built.ports[0].clause == "3 s later; at most 1,000,000 tuples wait"


def test_a_join_shows_both_sides():
    case = {
        "operator": {
            "kind": "join", "left": "sliding, time(2)", "right": "sliding, time(2)", "algorithm": "inner",
            "output": {"a": "left.a", "b": "right.b"},
        },
        "input": [
            {"at": 0, "port": "left", "tuple": {"a": 1}}, {"at": 1, "port": "right", "tuple": {"b": 2}}, {"at": 9},
        ],
    }  # fmt: skip
    events = [{("stream" if key == "port" else key): value for key, value in one.items()} for one in case["input"]]
    built = build_story(pipeline_of(case), events)
    sides = [(change.window.side, words(change)) for step in built.steps for change in step.changes]
    assert sides == [("left", "[1]"), ("right", "[2]"), ("left", "-1 []"), ("right", "-2 []")]
    assert built.steps[1].outputs[0].values == {"a": 1, "b": 2}


def test_a_join_over_event_time_shows_the_tuples_that_wait():
    case = {
        "operator": {
            "kind": "join", "window": "interval, before(2), after(2)", "event_time": "t", "algorithm": "inner",
            "output": {"a": "left.a", "b": "right.b"},
        },
        "input": [
            {"at": 0, "port": "left", "tuple": {"a": 1, "t": 5.0}},
            {"at": 1, "port": "left", "tuple": {"a": 3, "t": 4.0}},
            {"at": 2, "port": "right", "tuple": {"b": 2, "t": 7.0}}, {"at": 3, "port": "left", "watermark": 6.5},
            {"at": 4, "port": "right", "watermark": 6.5},
        ],
    }  # fmt: skip
    events = [{("stream" if key == "port" else key): value for key, value in one.items()} for one in case["input"]]
    built = build_story(pipeline_of(case), events)
    sides = [(change.window.side, words(change)) for step in built.steps for change in step.changes]
    assert sides == [("left", "[1]"), ("left", "[3, 1]"), ("right", "[2]"), ("left", "-3 [1]")]


def test_a_long_story_says_how_many_events_it_leaves_out():
    built = story({"window": "tumbling, count(2)"}, *(x(n, n) for n in range(10)), most=4)
    assert (len(built.steps), built.left_out) == (4, 6)


def test_an_event_that_cannot_be_used_is_an_error_with_its_place():
    events = ({"at": 0, "tuple": {"x": "a"}}, {"at": 1, "tuple": {"x": 1}})
    with pytest.raises(EventError, match=r'event 1: attribute "x" must be string, got 1'):
        story({"window": "tumbling, count(2)", "schema": {"x": "string"}}, *events)


SESSIONS = """
pipeline: sessions
streams:
  in: {topic: in, schema: {x: int64, key: string, ts: float64}, event_time: {attribute: ts, lag: 0}}
  out: {topic: out}
operators:
  - {name: sum, aggregate: in, window: "WINDOW", partition_by: [key], output: {out: {x: Sum(x)}}}
"""


@pytest.mark.parametrize("window", ["session, inactivityGap(50)", "session, inactivityGap(2)"])
def test_each_step_looks_at_the_sessions_of_few_keys(window: str, monkeypatch: pytest.MonkeyPatch):
    """Looking at all keys after each event would take a time that grows with the square of their number."""
    looked: list[str | None] = []
    inspect = SessionOperator.inspect

    def counted(self: SessionOperator, state: SessionState, key: str | None) -> list[InspectedWindow]:
        looked.append(key)
        return inspect(self, state, key)

    monkeypatch.setattr(SessionOperator, "inspect", counted)
    events = [{"at": n, "tuple": {"x": n, "key": f"k{n % 40}", "ts": float(n)}} for n in range(200)]
    built = build_story(load_text(SESSIONS.replace("WINDOW", window), "sessions.yaml"), events)
    assert len(built.steps) == len(events)
    assert len(looked) <= 2 * len(events) + 1
