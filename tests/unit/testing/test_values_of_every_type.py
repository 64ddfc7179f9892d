"""Optional values, decimals, structs, maps, lists and JSON in the test kit, the lab, its pictures and its tests."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from sluice.lab import lab_answer
from sluice.replayer.event_file import EventError
from sluice.testing import WINDOW, PipelineTest

FILE = """
pipeline: values
streams:
  in:
    topic: in
    schema:
      k: string?
      price: decimal(2)?
      wide: "decimal(38, 9)"
      tags: "map<string, float64?>"
      who: {id: int64, name: string?, at: timestamp?}
      list: "list<tuple<a: decimal(2), b: json?>>"
      doc: json?
      raw: bytes?
      flag: boolean?
  sums: {topic: sums}
operators:
  - name: sum
    aggregate: in
    window: sliding, count(2), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output:
      sums: {k: k, n: Count(price), price: Sum(price), wide: Max(wide), tags: Last(tags), who: Last(who),
             list: Last(list), doc: Last(doc), raw: Last(raw), flag: Last(flag)}
"""
FULL = {
    "k": "a", "price": "1.10", "wide": "12345678901234567890.123456789", "tags": {"x": 1.5, "y": None},
    "who": {"id": 1, "name": "Ann", "at": "2024-01-01T00:00:00Z"}, "list": [{"a": "1.10", "b": {"z": 1}}],
    "doc": {"v": [1, None]}, "raw": "AAE=", "flag": False,
}  # fmt: skip
BARE = {"wide": 1, "tags": {}, "who": {"id": 2}, "list": []}
EMPTY = {
    "k": None, "n": 0, "price": None, "wide": "1.000000000", "tags": {}, "who": {"id": 2, "name": None, "at": None},
    "list": [], "doc": None, "raw": None, "flag": None,
}  # fmt: skip


def test_the_test_kit_takes_and_gives_each_value():
    test = PipelineTest(FILE).send("in", FULL, BARE).restart()
    test.expect("sums", {**FULL, "n": 1}, WINDOW, EMPTY, WINDOW)
    test.send("in", {**BARE, "price": Decimal("2.50"), "doc": {"v": Decimal("1.10")}, "list": [{"a": Decimal(3)}]})
    got = test.tuples("sums")[-1]
    assert (got["price"], got["doc"], got["list"]) == ("2.50", {"v": 1.1}, [{"a": "3.00", "b": None}])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"doc": {1: 2}}, 'attribute "doc" must be json?, got {"1": 2}'),
        ({"doc": {"x": float("inf")}}, 'attribute "doc" must be json?, got {"x": Infinity}'),
        ({"doc": [b""]}, 'attribute "doc" must be json?'),
        ({"raw": b"ab"}, 'attribute "raw" must be bytes?, got "b\'ab\'" (base64 with padding)'),
        ({"tags": None}, 'attribute "tags" must be map<string, float64?>, got null'),
        ({"who": {"name": "x"}}, 'attribute "who" must be tuple<id: int64, name: string?, at: timestamp?>, got'),
        ({"price": 1.005}, 'attribute "price" must be decimal(2)?, got 1.005 (it has at most'),
    ],
)
def test_the_test_kit_says_which_value_is_wrong(given: dict[str, Any], message: str):
    with pytest.raises(EventError) as raised:
        PipelineTest(FILE).send("in", BARE | given)
    assert message in str(raised.value)


def test_the_lab_shows_and_tests_each_value(tmp_path: Path):
    lines = [
        {"at": 1, "tuple": FULL},
        {"at": 2, "tuple": BARE},
        {"at": 3, "record": {"value": orjson.dumps(BARE).decode()}},
    ]
    events = lab_answer.parsed("\n".join(orjson.dumps(line).decode() for line in lines))
    shown = lab_answer.answer(FILE, events, "values.yaml")
    assert (shown["error"], shown["keys"]) == (None, ["a", "null"])
    texts = [step["text"] for step in orjson.loads(orjson.dumps(shown))["steps"]]
    assert "price=1.10 wide=12345678901234567890.123456789" in texts[0]
    assert 'who={"id": 1, "name": "Ann", "at": "2024-01-01T00:00:00Z"} list=[{"a": "1.10", "b": {"z": 1}}]' in texts[0]
    assert shown["shown"]["2"]["label"] == "null·null"
    written: dict[str, Any] = {}
    exec(lab_answer.test_of(FILE, events, "values.yaml"), written)  # noqa: S102 - the module that the lab writes
    written["test_outputs"](tmp_path)


def test_windows_show_each_value_they_hold():
    test = PipelineTest(FILE).send("in", FULL, BARE)
    graph, state = test._player.graph, test._state  # noqa: SLF001
    assert [window.held for key in ("a", "null") for window in graph.inspect(state, key)] == [
        [FULL], [{name: value for name, value in EMPTY.items() if name != "n"}],
    ]  # fmt: skip
