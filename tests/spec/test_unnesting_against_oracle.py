"""`each` of a map: one tuple for each element, for every cut into batches (ST13)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player

FILE = """
pipeline: orders
streams:
  orders:
    topic: orders
    schema: {id: int64, lines: "list<tuple<sku: string, n: int64>>?", tags: "map<string, int64>"}
  out: {topic: out}
operators:
  - name: each
    map: orders
    each: EACH
    where: WHERE
    output: {out: OUTPUT}
"""
LISTS = {"EACH": "lines as line at place", "WHERE": "line.n > 0", "OUTPUT": "{id: id, place: place, sku: line.sku}"}
MAPS = {"EACH": "tags as tag", "WHERE": "tag.value > 0", "OUTPUT": "{id: id, key: tag.key, n: tag.value * 2}"}


def file_of(words: dict[str, str]) -> str:
    text = FILE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def run(text: str, events: list[dict], cut: int | None = None) -> list[dict]:
    pipeline = load_text(text, "orders.yaml", environment=None)
    saved, records = None, []
    for batch in Cutter(pipeline.inputs).batches(list(numbered(events)), cut or len(events)):
        player = Player(pipeline, {"orders": 1}, python_values)
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        records += player.feed(state, batch)
        saved = player.graph.save(state)
    return records


def oracle(events: list[dict], rows) -> list[tuple]:
    """The tuples and marks, in order: (number of the event, tuple or mark)."""
    found = []
    for number, event in enumerate(events):
        if "punct" in event:
            found.append((number, event["punct"]))
        else:
            found += [(number, row) for row in rows(event["tuple"])]
    return found


def of_lists(values):
    for place, line in enumerate(values["lines"] or []):
        if line["n"] > 0:
            yield {"id": values["id"], "place": place, "sku": line["sku"]}


def of_maps(values):
    for key in sorted(values["tags"]):
        if values["tags"][key] > 0:
            yield {"id": values["id"], "key": key, "n": values["tags"][key] * 2}


LINES = st.lists(st.fixed_dictionaries({"sku": st.sampled_from("abc"), "n": st.integers(-1, 3)}), max_size=3)
TUPLES = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "lines": st.none() | LINES,
        "tags": st.dictionaries(st.sampled_from(["x", "y", "é"]), st.integers(-1, 3)),
    }
)
EVENTS = st.lists(st.builds(lambda values: {"tuple": values}, TUPLES) | st.just({"punct": "window"}), max_size=6)


@pytest.mark.parametrize(("words", "rows"), [(LISTS, of_lists), (MAPS, of_maps)], ids=["list", "map"])
@settings(max_examples=42, derandomize=True, deadline=None)
@given(events=EVENTS)
def test_each_element_is_a_tuple(words, rows, events):
    events = [{"at": n} | event for n, event in enumerate([*events, {"punct": "final"}])]
    expected = oracle(events, rows)
    for cut in (None, 1, 2):
        records = run(file_of(words), events, cut)
        assert [(r["after"], r.get("tuple", r.get("punct"))) for r in records] == expected


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ("lines", "a list, `as`, and a name of its elements, such as items as item"),
        ("id as x", "a list or a map, not int64"),
        ("lines as id", "a name that no attribute of orders has, and that occurs once"),
        ("lines as x at x", "a name that no attribute of orders has, and that occurs once"),
        ("lines as not", "a name that is not a word of expressions (and, or, not, true, false, null)"),
        ("nothing as x", "an attribute of orders (id, lines, tags)"),
    ],
)
def test_a_wrong_clause(each, expected):
    with pytest.raises(PipelineError) as raised:
        load_text(
            file_of(LISTS | {"EACH": each, "WHERE": "id > 0", "OUTPUT": "{id: id}"}), "orders.yaml", environment=None
        )
    assert [(problem.path, problem.expected) for problem in raised.value.problems] == [("operators[0].each", expected)]


def test_a_list_without_a_value_is_a_dead_letter():
    text = file_of(LISTS | {"EACH": "'[lines![9]] as line at place'"})
    (letter,) = run(text, [{"at": 0, "tuple": {"id": 1, "lines": [], "tags": {}}}])
    assert "has no value" in json.dumps(letter["dead_letter"])
