"""What joins over event time do besides pairing: late tuples, tuples without a time, watermarks, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.engine.graph import GraphState
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay

Record = dict[str, Any]


def pipeline(window: str, *, more: str = "", event_time: str = "t") -> Pipeline:
    text = f"""
pipeline: pairs
streams:
  left: {{topic: left, schema: {{k: string, t: float64}}, event_time: {event_time}}}
  right: {{topic: right, schema: {{k: string, t: float64, v: string}}, event_time: {event_time}}}
  pairs: {{topic: pairs, watermarks: true}}
  alone: {{topic: alone}}
operators:
  - {{name: j, join: {{left: left, right: right}}, window: "{window}", equality_left: [k], equality_right: [k], {more}
     output: {{pairs: {{k: left.k, t: left.t, s: right.t}}}}}}
  - {{name: m, map: right, output: [alone]}}
"""
    return load_text(text, "pairs.yaml", environment=None)


def left(at: float, t: float, k: str = "a") -> Record:
    return {"at": at, "stream": "left", "tuple": {"k": k, "t": t}}


def right(at: float, t: float, k: str = "a") -> Record:
    return {"at": at, "stream": "right", "tuple": {"k": k, "t": t, "v": ""}}


def watermarks(at: float, time: float) -> list[Record]:
    return [{"at": at, "stream": stream, "watermark": time} for stream in ("left", "right")]


def of_join(found: list[Record]) -> list[Record]:
    return [r for r in found if r.get("stream") == "pairs" or "dead_letter" in r]


def reasons(found: list[Record]) -> list[tuple[int, str]]:
    return [(r["after"], r["dead_letter"]["reason"]) for r in found if "dead_letter" in r]


def test_a_late_tuple_is_a_dead_letter():
    """It is paired with nothing. A tuple at the watermark less the grace is not late."""
    events = [left(0, 4), *watermarks(1, 8), right(2, 4.75), right(3, 5), left(4, 3)]
    found = list(replay(pipeline("interval, before(5), after(5), grace(3)"), events))
    assert [r["tuple"] for r in of_join(found) if "tuple" in r] == [{"k": "a", "t": 4.0, "s": 5.0}]
    less = "before the watermark of the join less grace"
    assert reasons(found) == [(3, f"late: t is 0.25 s {less}"), (5, f"late: t is 2 s {less}")]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e10])
@pytest.mark.parametrize("window", ["interval, before(5), after(5)", "asOf"])
def test_a_tuple_without_a_time_is_a_dead_letter(window: str, time: float):
    found = list(replay(pipeline(window), [left(0, time), right(1, 2), left(2, 2), *watermarks(3, 9)]))
    assert reasons(found) == [(0, "t is no event time that a join can count")]
    assert [r["tuple"] for r in of_join(found) if "tuple" in r] == [{"k": "a", "t": 2.0, "s": 2.0}]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("interval, before(5), after(2)", [5.0]),
        ("interval, before(5), after(2), grace(1)", [4.0]),
        ("interval, before(-2), after(4)", [6.0]),
        ("interval, before(0), after(0)", [10.0]),
        ("asOf, grace(3)", [7.0]),
    ],
)
def test_the_watermark_of_the_outputs(window: str, expected: list[float]):
    """That of the join is the least of both sides."""
    events = [*watermarks(0, 10), {"at": 1, "stream": "left", "watermark": 20.0}]
    found = of_join(list(replay(pipeline(window), events)))
    assert [record["watermark"] for record in found] == [f"1970-01-01T00:00:{seconds:02.0f}Z" for seconds in expected]


@pytest.mark.parametrize("window", ["interval, before(5), after(3), grace(1)", "asOf, grace(1)"])
def test_no_output_is_late_for_the_watermark_behind_it(window: str):
    """A timeInterval window that reads the pairs has no late tuple, whatever the order of arrival."""
    text = f"""
pipeline: panes
streams:
  left: {{topic: left, schema: {{k: string, t: float64}}, event_time: {{attribute: t, lag: 2, minimum_gap: 0}}}}
  right: {{topic: right, schema: {{k: string, t: float64}}, event_time: {{attribute: t, lag: 2, minimum_gap: 0}}}}
  pairs: {{event_time: t}}
  counts: {{topic: counts}}
operators:
  - {{name: j, join: {{left: left, right: right}}, window: "{window}", equality_left: [k], equality_right: [k],
     algorithm: leftOuter, output: {{pairs: {{k: left.k, t: left.t}}}}}}
  - {{name: n, aggregate: pairs, window: "timeInterval, intervalDuration(1)", output: {{counts: {{n: Count()}}}}}}
"""
    times = [3, 1, 2, 5, 4, 6, 8, 7, 9, 12, 10, 11, 30, 29, 31, 60, 90]
    events = [{"at": n, "stream": ("left", "right")[n % 2], "tuple": {"k": "ab"[n % 3 == 0], "t": float(t)}}
              for n, t in enumerate(t for t in times for _ in range(2))]  # fmt: skip
    found = list(replay(load_text(text, "panes.yaml", environment=None), events))
    assert not reasons(found)
    assert sum(r["tuple"]["n"] for r in found if "tuple" in r) > 10


def held(window: str, events: list[Record], **more: Any) -> int:
    """The number of tuples that are stored after these events."""
    made = pipeline(window, **more)
    player = Player(made, {"left": 1, "right": 1}, python_values)
    state: GraphState = player.graph.initial()
    list(player.feed(state, Cutter(made.inputs).batch(list(numbered(events)))))
    return player.graph.sizes(state)["j"][1]


def test_a_key_keeps_one_right_tuple():
    """The newest of those that the watermark has passed, and all that are newer."""
    events = [right(0, 1), right(0, 2), right(0, 3), right(0, 7), right(0, 8), right(0, 1, "b")]
    assert held("asOf", events) == 6
    assert held("asOf", [*events, *watermarks(1, 4)]) == 4
    assert held("asOf", [*events, *watermarks(1, 20)]) == 2


def test_a_right_tuple_is_kept_for_left_tuples_up_to_the_newer_one():
    """U5: also for a left tuple that is one nanosecond older than the newer right tuple."""
    last = 3.999999999
    events = [right(0, 2), right(0, 4), *watermarks(1, last), left(2, last), left(3, 4), *watermarks(4, 9)]
    found = of_join(list(replay(pipeline("asOf"), events)))
    assert [r["tuple"] for r in found if "tuple" in r] == [
        {"k": "a", "t": last, "s": 2.0},
        {"k": "a", "t": 4.0, "s": 4.0},
    ]


@pytest.mark.parametrize(("window", "newer", "last"), [("asOf", 4, 3.999999999), ("asOf, maximumAge(2)", 9, 4.0)])
def test_a_right_tuple_is_kept_at_the_last_time_at_which_it_is_a_partner(window: str, newer: float, last: float):
    """U5: also if the watermark of that time makes an earlier left tuple of the key certain."""
    events = [right(0, 2), right(0, newer), left(0, 3), *watermarks(1, last), left(2, last), *watermarks(3, 20)]
    found = of_join(list(replay(pipeline(window), events)))
    assert [(r["tuple"]["t"], r["tuple"]["s"]) for r in found if "tuple" in r] == [(3.0, 2.0), (last, 2.0)]


def test_a_right_tuple_is_forgotten_after_the_maximum_age():
    events = [right(0, 1), right(0, 2, "b")]
    assert held("asOf, maximumAge(5)", [*events, *watermarks(1, 6)]) == 2
    assert held("asOf, maximumAge(5)", [*events, *watermarks(1, 6.5)]) == 1
    assert held("asOf, maximumAge(5)", [*events, *watermarks(1, 8)]) == 0


def test_an_interval_join_forgets_by_the_watermark():
    events = [left(0, 1), right(0, 1), left(0, 9)]
    assert held("interval, before(2), after(4)", [*events, *watermarks(1, 5)]) == 2
    assert held("interval, before(2), after(4)", [*events, *watermarks(1, 6)]) == 1
    assert held("interval, before(2), after(4)", [*events, *watermarks(1, 14)]) == 0


def test_a_stream_joined_with_itself():
    """Each tuple comes to the left, then to the right, and is its own partner too."""
    text = """
pipeline: self
streams:
  people: {topic: people, schema: {id: int64, t: float64}, event_time: t}
  pairs: {topic: pairs}
operators:
  - {name: near, join: {left: people, right: people}, window: "interval, before(1), after(1)",
     output: {pairs: {l: left.id, r: right.id}}}
"""
    events = [{"at": n, "tuple": {"id": n, "t": float(t)}} for n, t in enumerate((1, 2, 9))]
    found = list(replay(load_text(text, "self.yaml", environment=None), events))
    assert [tuple(r["tuple"].values()) for r in found if "tuple" in r] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)]


def test_many_tuples_of_a_key_in_any_order():
    """Searches leap over tuples that came late, and over tuples that have left."""
    times = [(n * 7919) % 1000 / 10 for n in range(1000)]
    events = [left(n, t) for n, t in enumerate(times)]
    events += [right(1000 + n, t + 0.05) for n, t in enumerate(times)]
    found = list(replay(pipeline("interval, before(0), after(0.1)"), events))
    pairs = sorted((r["tuple"]["t"], r["tuple"]["s"]) for r in of_join(found) if "tuple" in r)
    assert pairs == sorted((t, t + 0.05) for t in times)


def test_the_windows_of_a_key_are_shown():
    made = pipeline("interval, before(2), after(4)")
    player = Player(made, {"left": 1, "right": 1}, python_values)
    state = player.graph.initial()
    events = [left(0, 3), left(0, 1), right(0, 7), left(0, 2, "b")]
    list(player.feed(state, Cutter(made.inputs).batch(list(numbered(events)))))
    shown = player.graph.inspect(state, "a")
    assert [(one.side, [row["t"] for row in one.held]) for one in shown] == [("left", [1.0, 3.0]), ("right", [7.0])]
