"""`previous`, `change` and `rate` give what a list of the tuples of each key gives, for every cut and every division of
the state (PV1 to PV10).
"""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.operators.previous.previous_state import PreviousState
from sluice.model.changes.operator_changes import changes_of
from sluice.model.errors import PipelineError
from sluice.model.spreading import layout
from sluice.planning.explain_plan import plan
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from sluice.testing import on_stream, pipeline_of, run_case
from tests.spec.every_cut import CLEANED_EARLY, check_expected
from tests.spec.strategies import VALUES, Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

#: attribute -> its type and its values; numbers are small enough for exact differences
ATTRIBUTES: dict[str, tuple[str, list[Any]]] = {
    "k": ("string?", ["a", "b", "ab", None]), "n": ("int64", [0, 1, 2]),
    "i": ("int64", [0, 1, -5, 2**40]), "j": ("int64?", [None, 7, -7]),
    "f": ("float64", [0.0, 0.5, -2.5, math.nan, math.inf]),
    "s": ("string?", ["", "x", "long enough to be apart", None]),
    "d": ("decimal(2)", ["0.05", "-12.50", "99.99"]),
    "t": ("timestamp", ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01.5Z", "2013-01-01T05:15:00Z"]),
    "v": ("list<float64>", [[], [0.5, 1.0]]), "z": ("tuple<a: int64, t: timestamp?, c: decimal(2), l: list<string?>>",
                                                    VALUES["z"]),
    "m": ("map<string, float64?>", VALUES["m"][:3]), "b": ("boolean", [True, False]),
}  # fmt: skip
SCHEMA = {name: kind for name, (kind, _) in ATTRIBUTES.items()}
PREVIOUS = [("previous", x, n) for x in ATTRIBUTES for n in (1, 2, 5)]
CHANGES = [("change", x, 1) for x in "ijfdt"] + [("rate", x, 1) for x in "ijfd"]

tuples = st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in ATTRIBUTES.items()})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    calls = draw(st.lists(st.sampled_from(PREVIOUS + CHANGES), min_size=1, max_size=5, unique=True))
    operator: dict[str, Any] = {
        "kind": "map", "schema": SCHEMA, "where": draw(st.sampled_from(["", "i >= 0", "isPresent(j) and j > 0"])),
        "partition_by": draw(st.sampled_from([[], ["k"], ["n"], ["k", "n"], ["n % 2"]])),
        "forget_after": draw(st.sampled_from(["", "", "1s", "3s"])), "calls": calls,
        "output": {"i": "i", **{f"o{place}": text(call) for place, call in enumerate(calls)}},
    }  # fmt: skip
    rows, at, found = draw(st.lists(st.one_of(tuples, tuples, tuples, st.just("window")), max_size=25)), 0.0, []
    for row in rows:
        at += draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
        found.append({"at": at} | ({"punct": "window"} if row == "window" else {"tuple": row}))
    return {"operator": operator, "input": found}


def text(call: tuple[str, str, int]) -> str:
    name, x, n = call
    return {"previous": f"previous({x}{f', {n}' if n > 1 else ''})", "change": f"change({x})",
            "rate": f"rate({x}, t)"}[name]  # fmt: skip


def oracle(case: Case) -> list[dict[str, Any]]:
    """A list of tuples for each key, from the tuples as an ordinary map shows them."""
    operator = case["operator"]
    shown = run_case({"operator": {"kind": "map", "schema": SCHEMA, "output": {x: x for x in SCHEMA}},
                      "input": case["input"]})  # fmt: skip
    earlier: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    last: dict[Any, float] = {}
    found = []
    for record in shown:
        if "punct" in record:
            found.append(record)
            continue
        row, at = record["tuple"], case["input"][record["after"]]["at"]
        if not holds(operator["where"], row):
            continue
        key = tuple(row["n"] % 2 if name == "n % 2" else row[name] for name in operator["partition_by"])
        if operator["forget_after"] and at - last.get(key, at) >= float(operator["forget_after"].rstrip("s")):
            earlier[key].clear()
        last[key] = at
        found.append(record | {"tuple": {"i": row["i"]} | {
            f"o{place}": value(call, row, earlier[key]) for place, call in enumerate(operator["calls"])
        }})  # fmt: skip
        earlier[key].append(row)
    return found


def holds(where: str, row: dict[str, Any]) -> bool:
    return {"": True, "i >= 0": row["i"] >= 0}.get(where, row["j"] is not None and row["j"] > 0)


def value(call: tuple[str, str, int], row: dict[str, Any], earlier: list[dict[str, Any]]) -> Any:
    name, x, n = call
    before = earlier[-n][x] if len(earlier) >= n else None
    if name == "previous" or before is None or row[x] is None:
        return before if name == "previous" else None
    if x == "t":
        return seconds(row[x]) - seconds(before)
    change = Decimal(row[x]) - Decimal(before) if x == "d" else row[x] - before
    if name == "change":
        return change
    elapsed = seconds(row["t"]) - seconds(earlier[-1]["t"])
    return float(change) / elapsed if elapsed else None


def seconds(time: Any) -> float:
    return (datetime.fromisoformat(time) if isinstance(time, str) else time).timestamp()


@given(cases(), cuts)
@settings(max_examples=25, derandomize=True, deadline=None)
def test_random_maps_and_events(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check_expected(oracle, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


# ---- single rules ----------------------------------------------------------------------------------------------------

FILE = """
pipeline: p
streams:
  readings: {topic: r, schema: {id: string, value: float64, count: int64, at: timestamp, name: string}}
  moves: {topic: m}
operators:
  - {name: move, map: readings, %s}
"""


def of(text: str):
    return load_text(FILE % text, "p", environment=None)


def outputs(text: str, *rows: dict[str, Any]) -> list[Any]:
    whole = [{"value": 0.0, "count": 0, "at": "1970-01-01T00:00:00Z", "name": "", "id": "a"} | row for row in rows]
    events = [{"at": float(n), "stream": "readings", "tuple": row} for n, row in enumerate(whole)]
    return [record.get("tuple", record.get("dead_letter")) for record in replay(of(text), events)]


def test_the_tuple_before_of_the_same_key():
    rows = outputs(
        "partition_by: [id], output: {moves: {p: previous(value)}}",
        {"id": "a", "value": 1.0}, {"id": "b", "value": 2.0}, {"id": "a", "value": 3.0}, {"id": "b", "value": 4.0},
    )  # fmt: skip
    assert [row["p"] for row in rows] == [None, None, 1.0, 2.0]


def test_without_a_key_it_is_the_tuple_before_of_all():
    rows = outputs("output: {moves: {p: 'previous(id) ?: \"-\"'}}", {"id": "a"}, {"id": "b"}, {"id": "c"})
    assert [row["p"] for row in rows] == ["-", "a", "b"]


def test_tuples_that_where_drops_are_no_earlier_tuples():
    rows = outputs("where: value > 0, output: {moves: {p: previous(value)}}",
                   {"value": 1.0}, {"value": -1.0}, {"value": 2.0})  # fmt: skip
    assert [row["p"] for row in rows] == [None, 1.0]


def test_a_tuple_without_a_value_is_no_earlier_tuple():
    rows = outputs("output: {moves: {p: previous(12 % count)}}", {"count": 5}, {"count": 0}, {"count": 7})
    assert rows[0] == {"p": None}
    assert rows[1]["reason"] == "12 % count has no value"
    assert rows[2] == {"p": 2}


def test_a_tuple_whose_output_has_an_error_is_an_earlier_tuple():
    rows = outputs("output: {moves: {p: previous(count), q: 12 % count}}", {"count": 5}, {"count": 0}, {"count": 7})
    assert (rows[0]["p"], rows[2]["p"]) == (None, 0)


def test_a_counter_of_large_numbers_has_an_exact_rate():
    rows = outputs("output: {moves: {r: 'rate(count, at)'}}",
                   {"count": 2**60, "at": "1970-01-01T00:00:00Z"}, {"count": 2**60 + 3, "at": "1970-01-01T00:00:02Z"},
                   {"count": 2**60 + 9, "at": "1970-01-01T00:00:02Z"})  # fmt: skip
    assert [row["r"] for row in rows] == [None, 1.5, None]


def test_a_key_begins_anew_exactly_forget_after_its_last_tuple():
    """PV9: in one batch and in several."""
    operator = {"kind": "map", "schema": {"k": "string", "i": "int64"}, "partition_by": ["k"], "forget_after": "1s",
                "output": {"before": "previous(i)"}}  # fmt: skip
    times = [0.0, 0.5, 1.25, 2.25, 3.249999999]
    case = {"operator": operator, "input": [{"at": at, "tuple": {"k": "a", "i": n}} for n, at in enumerate(times)]}
    for sizes in (None, [1] * 5):
        assert [record["tuple"]["before"] for record in run_case(case, sizes)] == [None, 0, 1, None, 3]


def test_the_state_forgets_keys():
    """Each key comes once."""
    operator = {"kind": "map", "schema": {"k": "string"}, "partition_by": ["k"], "forget_after": "1s",
                "output": {"p": "previous(k)"}}  # fmt: skip
    events = [{"at": n / 10, "tuple": {"k": f"key {n}"}} for n in range(1000)]
    pipeline = pipeline_of({"operator": operator, "input": events, "limits": CLEANED_EARLY})
    player, sizes = Player(pipeline, {"input": 1}, python_values), []
    state = player.graph.initial()
    for batch in Cutter(pipeline.inputs).batches(list(numbered(events)), 10):
        list(player.feed(state, batch))
        (own,) = state.operators
        assert isinstance(own, PreviousState)
        sizes.append(max(own.sizes[0], own.strings.count))
    assert max(sizes) < 60


def test_what_a_key_holds_is_shown():
    operator = {"kind": "map", "schema": {"k": "string", "x": "int64"}, "partition_by": ["k"],
                "output": {"p": "previous(x + 1, 2)"}}  # fmt: skip
    events = [{"at": at, "tuple": {"k": "a", "x": at}} for at in (1, 2, 3)]
    pipeline = pipeline_of({"operator": operator, "input": events})
    graph = Graph(pipeline, {"input": 1})
    player, state = Player(pipeline, {"input": 1}), graph.initial()
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(map(on_stream, events))))))
    (found,) = graph.inspect(state, "a")
    assert found.held == [{"x + 1": 3}, {"x + 1": 4}]
    assert graph.inspect(state, "b") == []


def test_the_plan_says_what_is_stored_and_how_tuples_are_spread():
    text = "partition_by: [id], forget_after: 1h, output: {moves: {id: id, p: 'previous(value, 3)', c: change(count)}}"
    (step,) = plan(of(text))[0].steps
    assert (step.kind, step.windows) == (
        "map", ("the 3 tuples before by id: value, count, forgotten 3600 s after the last one",)
    )  # fmt: skip
    keys = layout(of(text)).keys
    assert keys is not None
    assert [one.name for one in keys["readings"]] == ["id"]
    assert layout(of("output: {moves: {p: previous(id)}}")).why == (
        "move: previous() reads the tuples of all keys, as it has no partition_by (PV10)",
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("output: {moves: {p: previous(value)}}", "output: {moves: {before: previous(value), id: id}}", ["kept"]),
        ("output: {moves: {p: previous(value)}}", "forget_after: 1h, output: {moves: {p: previous(value)}}", ["kept"]),
        ("output: {moves: {p: previous(value)}}", "output: {moves: {p: previous(count)}}", ["emptied"]),
        ("output: {moves: {p: previous(value)}}", "output: {moves: {p: 'previous(value, 2)'}}", ["emptied"]),
        ("output: {moves: {p: value}}", "output: {moves: {p: previous(value)}}", ["new"]),
    ],
)
def test_what_an_upgrade_keeps(before: str, after: str, words: list[str]):
    assert [one.word for one in changes_of(of(before), of(after)).all] == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "where: value > previous(value), output: [moves]",
            "previous() in the output of a map alone, as where is decided",
        ),
        ("output: {moves: {p: previous(previous(value))}}", "no previous() inside of previous(); previous(x, 2) is"),
        ("output: {moves: {p: 'previous(value, 0)'}}", "a constant from 1 to 1000 in previous()"),
        ("output: {moves: {p: 'previous(value, count)'}}", "previous("),
        ("output: {moves: {p: change(name)}}", "change(int64)"),
        ("output: {moves: {p: LAG(value)}}", "previous(x) or previous(x, n) in the output of a map, with partition_by"),
        ("output: {moves: {p: previos(value)}}", "did you mean previous?"),
        (
            "partition_by: [id], output: [moves]",
            "operators[0].partition_by: expected no partition_by, as no output has",
        ),
        ("partition_by: [it], output: {moves: {p: previous(id)}}", "operators[0].partition_by[0]"),
    ],
)
def test_wrong_maps(text: str, message: str):
    with pytest.raises(PipelineError) as raised:
        of(text)
    assert any(message in str(problem) for problem in raised.value.problems), raised.value.problems


def test_elsewhere_there_is_no_previous():
    operator = {"kind": "aggregate", "window": "tumbling, count(2)", "output": {"p": "Sum(previous(x))"}}
    with pytest.raises(PipelineError, match=r"previous\(\) in the output of a map alone \(rule PV3\)"):
        pipeline_of({"operator": operator, "input": [{"at": 0, "tuple": {"x": 1}}]})
