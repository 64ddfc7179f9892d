"""A delay and a throttle give what a list of tuples with their times gives, for every cut into batches (DL1 to DL7);
with `partition_by` what a list for each key gives (DL8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.config.load import check_text, load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.items import FINAL, TUPLE, WINDOW
from sluice.model.changes.operator_changes import changes_of
from sluice.model.engine_limits import EngineLimits
from sluice.model.errors import PipelineError
from sluice.model.spec import Pipeline
from sluice.model.spreading import layout
from sluice.planning.explain_plan import plan
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from tests.spec.strategies import cuts
from tests.spec.test_split_and_merge import Division, check, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

Event = dict[str, Any]
FILE = """
pipeline: p
streams:
  in: {topic: in, schema: {n: int64, k: string, s: "string?", t: timestamp}, event_time: {attribute: t}}
  out: {topic: out}
  counts: {topic: counts}
operators:
  - {name: wait, %s, output: [out]}
"""
SECOND = 1_000_000_000
#: a delay by seconds, or a throttle with seconds between two tuples
PACES = [("delay", 1.0), ("delay", 2.5), ("throttle", 1.0), ("throttle", 0.25), ("throttle", 3.0)]
#: what leaves, as (time in seconds, number of a tuple or mark), and the numbers of the tuples without room
Left = tuple[list[Any], list[int]]
Oracle = Callable[[tuple[str, float], int, list[Event]], Left]


def of(text: str, more: str = "") -> Pipeline:
    return load_text(FILE % text + more, "p", environment=None)


def pipeline_of(pace: tuple[str, float], buffer: int, more: str) -> Pipeline:
    word, size = pace
    return of(f"{word}: in, {f'by: {size}s' if word == 'delay' else f'rate: {1 / size}'}, buffer: {buffer}{more}")


def row(at: float, number: int, key: str = "a", text: str | None = None) -> Event:
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


def in_one_line(pace: tuple[str, float], buffer: int, events: list[Event]) -> Left:
    word, size = pace
    line: list[tuple[float, Any]] = []
    refused = []
    for event in events:
        now = event["at"]
        if event.get("punct") == "final":
            return [(min(time, now), what) for time, what in line] + [(now, "final")], refused
        last = max((time for time, what in line if what != "window"), default=-1e9)
        waiting = [what for time, what in line if time > now and what != "window"]
        if "tuple" in event and len(waiting) >= buffer:
            refused.append(event["tuple"]["n"])
            continue
        time = max([now + size * (word == "delay"), *(earlier for earlier, _ in line)])
        if "tuple" in event and word == "throttle":
            time = max(time, last + size)
        line.append((time, event["tuple"]["n"] if "tuple" in event else "window"))
    return [(time, what) for time, what in line if time <= events[-1]["at"]] if events else [], refused


def in_a_line_of_each_key(pace: tuple[str, float], buffer: int, events: list[Event]) -> Left:
    """Each entry of the output has a place: its time, whether it leaves when it came (then the number of the event),
    its key, and the number of the tuple.
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


def run(pipeline: Pipeline, events: list[Event], sizes: list[int] | None) -> Left:
    """What leaves with its times, from the items themselves."""
    placed, cutter, saved = list(numbered(events)), Cutter(pipeline.inputs), None
    rest, left, refused = iter(placed), list[Any](), list[int]()
    for size in [*(sizes or []), len(placed)]:
        batch = cutter.batch([event for _, event in zip(range(size), rest, strict=False)])
        player = Player(pipeline, {"in": 1}, python_values)
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        made: list[Any] = []
        graph_feed = player.graph.feed

        def seen(*given_items: Any, feed: Any = graph_feed, into: list[Any] = made) -> Any:
            into.append(feed(*given_items))
            return into[-1]

        player.graph.feed = seen  # type: ignore[method-assign]
        records = list(player.feed(state, batch))
        refused += [r["dead_letter"]["tuple"]["n"] for r in records if "dead_letter" in r]
        for outputs in made:
            numbers = iter(outputs["out"].tuples.column("n").to_pylist())
            for at, kind in zip(outputs["out"].at.tolist(), outputs["out"].kind.tolist(), strict=True):
                if kind in (TUPLE, WINDOW, FINAL):
                    left.append((at / SECOND, {WINDOW: "window", FINAL: "final"}.get(kind) or next(numbers)))
        saved = player.graph.save(state)
    return left, refused


def compared(
    more: str, oracle: Oracle, case: tuple[tuple[str, float], int, list[Event]], *cuts: list[int],
    limits: EngineLimits | None = None,
) -> None:  # fmt: skip
    """`limits`: none of the sizes of the engine's tables has to do with delays."""
    del limits
    *of_case, events = case
    expected = oracle(*of_case, events)
    for sizes in (None, *cuts):
        assert run(pipeline_of(*of_case, more), events, sizes) == expected, f"cuts {sizes}"


LINES = pytest.mark.parametrize(
    ("more", "oracle"),
    [("", in_one_line), (", partition_by: [k]", in_a_line_of_each_key)],
    ids=["in one line", "by key"],
)


@LINES
@given(cases(), cuts)
@settings(max_examples=28, derandomize=True, deadline=None)
def test_random_delays_and_events(
    more: str, oracle: Oracle, case: tuple[tuple[str, float], int, list[Event]], batches: list[int]
):  # fmt: skip
    """A cut in front of each event, too; at each the state is saved and loaded."""
    compared(more, oracle, case, [1] * len(case[-1]), batches)


@LINES
@given(cases(), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(
    more: str, oracle: Oracle, case: tuple[tuple[str, float], int, list[Event]], division: Division
):  # fmt: skip
    del oracle
    pace, buffer, events = case
    check(pipeline_of(pace, buffer, more), events, division)


# ---- single rules ----------------------------------------------------------------------------------------------------


def rows(numbers: list[float]) -> list[Event]:
    return [row(at, n) for n, at in enumerate(numbers)]


def test_a_throttle_keeps_the_distance():
    left, _ = run(of("throttle: in, rate: 2"), [*rows([0.0, 0.0, 0.0, 0.1, 5.0]), *rows([9.0])], None)
    assert left == [(0.0, 0), (0.5, 1), (1.0, 2), (1.5, 3), (5.0, 4), (9.0, 0)]


def test_a_watermark_waits_behind_the_tuples_before_it():
    more = """
  - {name: n, aggregate: out, window: "timeInterval, intervalDuration(10)", output: {counts: {n: Count()}}}
"""
    events = [*rows([0.0]), {"at": 1.0, "stream": "in", "watermark": 20.0}, *rows([2.0, 30.0])]
    events[2]["tuple"]["t"] = events[3]["tuple"]["t"] = "1970-01-01T00:00:25Z"
    records = [r for r in replay(of("delay: in, by: 5s", more), events) if r["stream"] == "counts" and "tuple" in r]
    assert [(r["after"], r["tuple"]) for r in records] == [(3, {"n": 1})]


def test_what_waits_is_shown():
    pipeline = of("delay: in, by: 5s")
    graph, player = Graph(pipeline, {"in": 1}), Player(pipeline, {"in": 1})
    state = graph.initial()
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(rows([1.0, 2.0]))))))
    (found,) = graph.inspect(state, None)
    assert ([row["n"] for row in found.held], found.policy) == ([0, 1], {"due": 6.0})
    assert graph.due(state) == 6 * SECOND


def test_all_tuples_are_in_one_bucket():
    assert layout(of("delay: in, by: 5s")).why == (
        "wait: its tuples and marks leave in the order in which they came, those of all keys together (DL6)",
    )


def test_the_plan_says_how_long_a_tuple_waits():
    (step,) = plan(of("delay: in, by: 5s"))[0].steps
    assert (step.kind, step.windows, step.waits) == ("delay", ("5 s later; at most 1,000,000 tuples wait",), "5 s")
    (step,) = plan(of("throttle: in, rate: 4, buffer: 9"))[0].steps
    assert (step.kind, step.windows) == ("throttle", ("at least 0.25 s between two tuples; at most 9 tuples wait",))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("delay: in, by: 5s", "delay: in, by: 9s, buffer: 3", ["kept"]),
        ("delay: in, by: 5s", "throttle: in, rate: 9", ["kept"]),
        ("delay: in, by: 5s", "dedup: in, by: [n], within: time(1)", ["emptied"]),
    ],
)
def test_what_an_upgrade_keeps(before: str, after: str, words: list[str]):
    assert [one.word for one in changes_of(of(before), of(after)).all] == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay: in, by: 0s", "operators[0].by: expected"),
        ("delay: in", 'operators[0].by: expected the key "by"'),
        ("throttle: in, rate: fast", "operators[0].rate: expected a number"),
        ("throttle: in, rate: -1", "operators[0].rate: expected"),
        ("throttle: inn, rate: 1", "did you mean in?"),
        ("trottle: in, rate: 1", "did you mean throttle?"),
    ],
)
def test_wrong_delays(text: str, message: str):
    with pytest.raises(PipelineError) as raised:
        of(text)
    assert any(message in str(problem) for problem in raised.value.problems), raised.value.problems


# ---- a line of each key ----------------------------------------------------------------------------------------------


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


def test_what_waits_of_a_key_is_shown():
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
def test_what_an_upgrade_keeps_of_keys(after: str, word: str):
    before = of("throttle: in, rate: 1, partition_by: [k]")
    assert [one.word for one in changes_of(before, of(f"throttle: in, {after}")).all] == [word]


def test_many_pieces():
    """Single tuples, of which each waits: pieces are joined, and all leave in order."""
    events = [row(n / 100, n, f"k{n % 7}") for n in range(200)] + [row(50.0, 200, "x")]
    left, _ = run(of("delay: in, by: 10s, partition_by: [k]"), events, [1] * 201)
    assert [number for _, number in left] == [*range(200)]
