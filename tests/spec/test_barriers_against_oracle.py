"""A barrier and a pair give what lists of waiting tuples give, for every cut and every division of the state (BA1 to
BA8).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.stream.items import MAX_TIME
from sluice.model.changes.operator_changes import changes_of
from sluice.model.engine_limits import EngineLimits
from sluice.model.errors import PipelineError
from sluice.model.spec import Pipeline
from sluice.model.spreading import layout
from sluice.planning.explain_plan import plan
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.replayer.player import Player, replay
from sluice.testing import limited
from tests.spec.comparing import equal
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.strategies import cuts
from tests.spec.test_split_and_merge import Division, check, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

Event = dict[str, Any]
Letter = tuple[str, str]

BARRIER = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, n: int64, x: "float64?", s: string}}
  b: {topic: b, schema: {key: string, m: int64, s: string, z: "tuple<a: int64, b: string?>"}}
  c: {topic: c, schema: {k: string, n: int64}}
  out: {topic: out}
operators:
  - {name: meet, barrier: [a, b, c], %s, output: {out: {k: a.k, n: a.n, x: x, s: b.s, m: m, z: z, c: c.n}}}
"""
PAIR = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, n: int64, s: "string?"}}
  b: {topic: b, schema: {s: "string?", k: string, n: int64}}
  out: {topic: out}
operators:
  - {name: meet, pair: [a, b], %s, output: [out]}
"""
KEYS = {BARRIER: {"a": ("k", "n"), "b": ("key", "m"), "c": ("k", "n")}, PAIR: {"a": ("k", "n"), "b": ("k", "n")}}
#: the key of the case -> partition_by of the file
FORMS = {
    BARRIER: ["buffer: 1000", "partition_by: {a: [k], b: [key], c: [k]}",
              "partition_by: {a: [k, n], b: [key, m], c: [k, n]}"],
    PAIR: ["buffer: 1000", "partition_by: [k]", "partition_by: [k, n]"],
}  # fmt: skip

VALUES = {
    "k": ["x", "y", "zz"], "key": ["x", "y", "zz"], "n": [1, 2], "m": [1, 2], "x": [None, 0.5], "s": ["", "text"],
    "z": [{"a": 1, "b": None}, {"a": 2, "b": "t"}],
}  # fmt: skip
ATTRIBUTES = {
    BARRIER: {"a": "k n x s", "b": "key m s z", "c": "k n"}, PAIR: {"a": "k n s", "b": "s k n"},
}  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, int, int, float, list[Event]]:
    """The file, how many attributes the key has, the buffer, the timeout (0: none), and the events."""
    file, length = draw(st.sampled_from([BARRIER, PAIR])), draw(st.integers(0, 2))
    streams = {
        name: st.fixed_dictionaries({one: st.sampled_from(VALUES[one]) for one in names.split()})
        for name, names in ATTRIBUTES[file].items()
    }
    rows = st.one_of(*(st.tuples(st.just(name), row) for name, row in streams.items()))
    at, events, final = 0.0, [], set[str]()
    for stream, row in draw(st.lists(rows, max_size=30)):
        at += draw(st.sampled_from([0.0, 0.0, 0.5, 2.0]))
        what = draw(st.integers(0, 14))
        kind = {"punct": "window"} if what == 0 else {"punct": "final"} if what == 1 else {"tuple": row}
        final |= {stream} if what == 1 else set()
        events.append({"at": at, "stream": stream} | kind)
    return file, length, draw(st.sampled_from([1, 2, 1000])), draw(st.sampled_from([0.0, 0.0, 1.0, 5.0])), events


def pipeline_of(file: str, length: int, buffer: int, timeout: float) -> Pipeline:
    more = [FORMS[file][length]] + [f"buffer: {buffer}"] * bool(length) + [f"timeout: {timeout}s"] * bool(timeout)
    text = ", ".join(more).replace("buffer: 1000", f"buffer: {buffer}", 1)
    return load_text(file % text, "p", environment=None)


def oracle(file: str, length: int, buffer: int, timeout: float, events: list[Event]) -> tuple[list[Any], list[Letter]]:
    """The outputs as (number of the event, tuple or mark), and the dead letters as (stream, reason)."""
    names = list(ATTRIBUTES[file])
    queues: dict[Any, dict[str, list[Any]]] = defaultdict(lambda: {name: [] for name in names})
    outputs, letters, finals = list[Any](), list[Letter](), set[str]()
    for number, event in enumerate(events):
        name = event["stream"]
        letters += expired(queues, timeout, event["at"])
        if len(finals) == len(names) or name in finals:
            continue
        if event.get("punct") == "final":
            finals.add(name)
            if len(finals) == len(names):
                letters += [(one, "final") for queue in queues.values() for one, rows in queue.items() for _ in rows]
                queues.clear()
                outputs.append((number, "final"))
        if "tuple" not in event:
            continue
        queue = queues[tuple(event["tuple"][one] for one in KEYS[file][name][:length])]
        if len(queue[name]) == buffer:
            letters.append((name, "already"))
            continue
        queue[name].append((event["at"], event["tuple"]))
        if all(queue.values()):
            outputs += [(number, one) for one in shown(*(queue[one].pop(0)[1] for one in names))]
    return outputs, sorted(letters)


def expired(queues: Any, timeout: float, now: float) -> list[Letter]:
    """Removes the tuples that have waited for too long."""
    found = []
    for queue in queues.values() if timeout else ():
        for stream, rows in queue.items():
            while rows and rows[0][0] + timeout <= now:
                rows.pop(0)
                found.append((stream, "within"))
    return found


def shown(a: Event, b: Event, c: Event | None = None) -> list[Any]:
    """What comes out of a set."""
    if c is None:
        return [a, {one: b[one] for one in a}, "window"]
    return [{"k": a["k"], "n": a["n"], "x": a["x"], "s": b["s"], "m": b["m"], "z": b["z"], "c": c["n"]}]


def run(pipeline: Pipeline, events: list[Event], sizes: list[int] | None) -> tuple[list[Any], list[Letter]]:
    placed, saved, records = list(numbered(events)), None, []
    partitions = topic_partitions(placed, [stream.name for stream in pipeline.inputs])
    rest, cutter = iter(placed), Cutter(pipeline.inputs)
    for size in [*(sizes or []), len(placed)]:
        batch = cutter.batch([event for _, event in zip(range(size), rest, strict=False)])
        player = Player(pipeline, partitions, python_values)
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        records += player.feed(state, batch)
        saved = player.graph.save(state)
    outputs = [(r["after"], r.get("tuple", r.get("punct"))) for r in records if "dead_letter" not in r]
    letters = [r["dead_letter"] for r in records if "dead_letter" in r]
    return outputs, sorted((stream_of(pipeline, one["tuple"]), one["reason"].split()[kind(one)]) for one in letters)


def stream_of(pipeline: Pipeline, row: dict[str, Any]) -> str:
    return next(s.name for s in pipeline.inputs if [name for name, _ in s.schema] == list(row))


def kind(letter: dict[str, Any]) -> int:
    """The place of the word that says why: `already`, `within`, `final`."""
    words = letter["reason"].split()
    return next(place for place, word in enumerate(words) if word in ("already", "within", "final"))


def compared(
    case: tuple[str, int, int, float, list[Event]], *cuts: list[int], limits: EngineLimits = CLEANED_EARLY
) -> None:
    *of, events = case
    pipeline, expected = limited(pipeline_of(*of), limits), oracle(*of, events)
    for sizes in (None, *cuts):
        outputs, letters = run(pipeline, events, sizes)
        assert equal([list(one) for one in outputs], [list(one) for one in expected[0]]), f"cuts {sizes}"
        assert letters == expected[1], f"cuts {sizes}"


@given(cases(), cuts)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_random_barriers_and_events(case: tuple[str, int, int, float, list[Event]], batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    compared(case, [1] * len(case[-1]), batches)


@given(cases(), divisions())
@settings(max_examples=12, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: tuple[str, int, int, float, list[Event]], division: Division):
    *of, events = case
    check(pipeline_of(*of), events, division)


# ---- single rules ----------------------------------------------------------------------------------------------------

FILE = """
pipeline: p
streams:
  a: {topic: a, schema: {id: string, x: int64, t: timestamp}, event_time: {attribute: t}}
  b: {topic: b, schema: {id: string, y: string, t: timestamp}, event_time: {attribute: t}}
  same: {topic: same, schema: {id: string, x: int64, t: timestamp}}
  out: {topic: out}
  counts: {topic: counts}
operators:
  - {name: meet, %s}
"""
TIME = "2026-01-01T00:00:00Z"


def of(text: str, more: str = "") -> Pipeline:
    return load_text(FILE % text + more, "p", environment=None)


def outputs(text: str, *events: tuple[str, str], timeout: float = 1.0) -> list[Any]:
    number = count()
    rows = {"a": {"x": 1}, "b": {"y": "t"}, "same": {"x": 2}}
    given_events = [
        {"at": next(number) * timeout, "stream": stream, "tuple": {"id": key, "t": TIME} | rows[stream]}
        for stream, key in events
    ]
    return [
        record.get("tuple", record.get("punct", record.get("dead_letter"))) for record in replay(of(text), given_events)
    ]


def test_the_nth_tuples_meet_without_a_key():
    rows = outputs("barrier: [a, b], output: {out: {a: a.id, b: b.id}}", ("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"))
    assert rows == [{"a": "1", "b": "3"}, {"a": "2", "b": "4"}]


def test_a_list_has_the_attributes_of_all_inputs():
    rows = outputs("barrier: [a, b], partition_by: [id], output: [out]", ("a", "1"), ("b", "1"))
    assert rows == [{"id": "1", "x": 1, "t": TIME, "y": "t"}]


def test_a_pair_is_followed_by_a_mark():
    rows = outputs("pair: [a, same], partition_by: [id], output: [out]", ("same", "1"), ("a", "2"), ("a", "1"))
    assert rows == [{"id": "1", "x": 1, "t": TIME}, {"id": "1", "x": 2, "t": TIME}, "window"]


def test_the_watermark_is_the_lower_one_of_the_inputs():
    more = """
  - {name: n, aggregate: out, window: "timeInterval, intervalDuration(10)", output: {counts: {n: Count()}}}
"""
    pipeline = of("barrier: [a, b], output: {out: {t: a.t, x: x}}", more)
    at = [0.0, 1.0, 2.0, 3.0]
    events = [
        {"at": at[0], "stream": "a", "tuple": {"id": "1", "x": 1, "t": "1970-01-01T00:00:01Z"}},
        {"at": at[1], "stream": "b", "tuple": {"id": "1", "y": "", "t": "1970-01-01T00:00:01Z"}},
        {"at": at[2], "stream": "a", "watermark": 20.0}, {"at": at[3], "stream": "b", "watermark": 10.0},
    ]  # fmt: skip
    fired = [r for r in replay(pipeline, events) if r["stream"] == "counts" and "tuple" in r]
    assert [(r["after"], r["tuple"]) for r in fired] == [(3, {"n": 1})]


def test_check_warns_of_results_that_may_be_late():
    more = """
  - {name: n, aggregate: out, window: "timeInterval, intervalDuration(10)", output: {counts: {n: Count()}}}
"""
    (step, _) = plan(of("barrier: [a, b], output: {out: {t: a.t, x: x}}", more))[0].steps
    assert "the barrier holds tuples while the watermark advances" in step.behind[0]


def test_what_a_key_holds_is_shown():
    pipeline = of("barrier: [a, b], partition_by: [id], output: [out]")
    graph = Graph(pipeline, {"a": 1, "b": 1})
    player, state = Player(pipeline, {"a": 1, "b": 1}), graph.initial()
    events = [{"at": 0.0, "stream": "b", "tuple": {"id": key, "y": key, "t": TIME}} for key in "aab"]
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(events)))))
    (found,) = graph.inspect(state, "a")
    assert (found.side, [row["y"] for row in found.held]) == ("b", ["a", "a"])
    assert graph.inspect(state, "c") == []


def test_the_plan_says_what_waits():
    (step,) = plan(of("barrier: [a, b], partition_by: [id], buffer: 5, timeout: 1m, output: [out]"))[0].steps
    assert (step.kind, step.windows) == ("barrier", ("a by id", "b by id"))
    assert step.fires == "when the last of the next tuples of equal keys comes; at most 5 tuples of an input wait"
    assert step.waits == "until the other inputs have theirs, at most 60 s"
    (step,) = plan(of("pair: [a, same], output: [out]"))[0].steps
    assert step.kind == "pair"


def test_a_new_timeout_is_that_of_the_tuples_that_wait():
    before, after = of("barrier: [a, b], output: [out]"), of("barrier: [a, b], timeout: 5s, output: [out]")
    event = {"at": 1.0, "stream": "a", "tuple": {"id": "1", "x": 1, "t": TIME}}
    player = Player(before, {"a": 1, "b": 1})
    state = player.graph.initial()
    list(player.feed(state, Cutter(before.inputs).batch(list(numbered([event])))))
    changed = Graph(after, {"a": 1, "b": 1})
    assert player.graph.due(state) == MAX_TIME
    assert changed.due(changed.load(player.graph.save(state))) == 6_000_000_000


def test_how_tuples_are_spread():
    keys = layout(of("barrier: [a, b], partition_by: [id], output: [out]")).keys
    assert keys is not None
    assert {name: [one.name for one in key] for name, key in keys.items()} == {"a": ["id"], "b": ["id"]}
    assert layout(of("barrier: [a, b], output: [out]")).why == (
        "meet: it has no partition_by, so that it counts the tuples of each input (BA8)",
    )


@pytest.mark.parametrize(
    ("key", "spread"), [("id", ["id"]), ("y", None), ("x", None)]
)  # fmt: skip
def test_a_window_behind_a_barrier_decides_by_which_part_of_the_key_tuples_are_spread(
    key: str, spread: list[str] | None
):
    more = f"""
  - name: n
    aggregate: out
    window: "sliding, count(2), partitioned"
    partition_by: [{key}]
    output: {{counts: {{n: Count()}}}}
"""
    keys = layout(of("barrier: [a, b], partition_by: {a: [id, t], b: [id, t]}, output: [out]", more)).keys
    assert (None if keys is None else [one.name for one in keys["b"]]) == spread


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("barrier: [a, b], output: [out]", "barrier: [a, b], buffer: 9, timeout: 1m, output: {out: {x: x}}", ["kept"]),
        ("barrier: [a, b], output: [out]", "barrier: [a, b], partition_by: [id], output: [out]", ["emptied"]),
        ("barrier: [a, b], output: [out]", "barrier: [b, a], output: [out]", ["emptied"]),
    ],
)
def test_what_an_upgrade_keeps(before: str, after: str, words: list[str]):
    assert [one.word for one in changes_of(of(before), of(after)).all] == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("barrier: [a], output: [out]", "operators[0].barrier: expected"),
        ("barrier: a, output: [out]", "operators[0].barrier: expected a list"),
        ("barrier: [a, a], output: [out]", "operators[0].barrier[1]: expected each stream only once"),
        ("barrier: [a, bb], output: [out]", "operators[0].barrier[1]"),
        ("barrier: [a, b], output: {out: {id: id}}", "expected a.id or b.id, as both sides have id"),
        ("barrier: [a, b], output: {out: {x: a.xx}}", "did you mean"),
        ("barrier: [a, b], partition_by: {a: [id]}, output: [out]", "of a, which has string; b has no key"),
        ("barrier: [a, b], partition_by: {a: [x], b: [id]}, output: [out]", "which has int64; b has string (rule BA1)"),
        ("barrier: [a, b], partition_by: {a: [id], c: [id]}, output: [out]", "c: expected an input (a, b)"),
        ("pair: [a, b], output: [out]", "a stream with the attributes of a"),
        ("pair: [a, same], output: {out: {x: x}}", "operators[0].output: expected a list"),
        ("barier: [a, b], output: [out]", "did you mean barrier?"),
    ],
)  # fmt: skip
def test_wrong_barriers(text: str, message: str):
    with pytest.raises(PipelineError) as raised:
        of(text)
    assert any(message in str(problem) for problem in raised.value.problems), raised.value.problems
