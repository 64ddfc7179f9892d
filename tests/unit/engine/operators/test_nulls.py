"""What null does in keys, joins, sorts, tables and times: small cases of the rules NU24 to NU30."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.testing import run_case


def tuples(operator: dict[str, Any], *rows: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    events = [{"at": 0.0, **({"port": row.pop("port")} if "port" in row else {}), "tuple": row} for row in rows]
    found = run_case({"operator": operator, "input": [*events, *more.get("behind", [])], "dead_letters": True})
    return [record.get("tuple") or record["dead_letter"]["reason"] for record in found if "punct" not in record]


WHOLE = {"kind": "sort", "window": "tumbling, count(4)", "schema": {"x": "int64?"}}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("asc", [1, 2, None, None]),
        ("desc", [2, 1, None, None]),
        ({"direction": "desc"}, [2, 1, None, None]),
        ({"nulls": "first"}, [None, None, 1, 2]),
        ({"direction": "desc", "nulls": "first"}, [None, None, 2, 1]),
    ],
)
@pytest.mark.parametrize("window", ["tumbling, count(4)", "sliding, count(4)"])
def test_the_place_of_null_in_an_order(window: str, order: Any, expected: list[int | None]):
    """NU28: behind all values, in both directions, or before them."""
    operator = WHOLE | {"window": window, "order_by": [("x", order)]}
    final = [{"at": 0.0, "punct": "final"}] if window.startswith("sliding") else []
    rows = ({"x": x} for x in (None, 2, None, 1))
    assert [row["x"] for row in tuples(operator, *rows, behind=final)] == expected


def test_null_is_a_key_of_its_own():
    """NU24: neither the key of the text null, nor none."""
    operator = {
        "window": "tumbling, count(2), partitioned", "partition_by": ["k"], "schema": {"k": "string?", "n": "int64"},
        "output": {"k": "k", "sum": "Sum(n)"},
    }  # fmt: skip
    rows = [{"k": None, "n": 1}, {"k": "null", "n": 10}, {"k": "null", "n": 20}, {"k": None, "n": 2}]
    assert tuples(operator, *rows) == [{"k": "null", "sum": 30}, {"k": None, "sum": 3}]


def test_aggregates_whose_types_differ_in_a_question_mark_stand_beside_each_other():
    """NU33: in the state each value has the bytes of its own type."""
    operator = {
        "window": "sliding, count(2)",
        "schema": {"p": "tuple<z: int64>?", "o": "tuple<z: int64?>?", "l": "list<int64>", "m": "list<int64?>"},
        "output": {
            "last": "coalesce(LastPresent(p), LastPresent(o))", "all": "concatenate(Collect(p), Collect(o))",
            "both": "concatenate(Last(l), Last(m))", "pair": "[First(p), First(o)]",
        },
    }  # fmt: skip
    first = {"p": {"z": 4}, "o": {"z": None}, "l": [1], "m": [None, 2]}
    second = {"p": None, "o": {"z": 7}, "l": [], "m": [3]}
    assert tuples(operator, first, second) == [
        {"last": {"z": 4}, "all": [{"z": 4}, {"z": None}], "both": [1, None, 2], "pair": [{"z": 4}, {"z": None}]},
        {"last": {"z": 4}, "all": [{"z": 4}, {"z": None}, {"z": 7}], "both": [3], "pair": [{"z": 4}, {"z": None}]},
    ]


def test_a_list_of_aggregates_where_no_window_fires():
    operator = {
        "window": "tumbling, count(2)", "schema": {"n": "int64"},
        "output": {
            "range": "[Min(n), Max(n)]", "named": '{"least": Min(n), "most": Max(n)}', "fixed": "split('a b', ' ')",
        },
    }  # fmt: skip
    assert tuples(operator, {"n": 1}) == []


JOIN = {
    "kind": "join", "left": "sliding, count(0)", "right": "sliding, count(9)", "algorithm": "leftOuter",
    "equality_left": ["k"], "equality_right": ["k"], "schema_left": {"k": "int64?"},
    "schema_right": {"k": "int64?", "n": "int64", "m": "int64?"}, "output": {"n": "right.n", "m": "right.m"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, {"n": 0, "m": None}),
        ({"default_right": {"m": 7}}, {"n": 0, "m": 7}),
        ({"default_right": None}, {"n": None, "m": None}),
    ],
)
def test_null_matches_nothing_and_fills_a_missing_side(given: dict[str, Any], missing: dict[str, Any]):
    """NU25: null does not equal null. NU26."""
    rows = [{"port": "right", "k": k, "n": 1, "m": None} for k in (None, 5)]
    assert tuples(JOIN | given, *rows, {"port": "left", "k": None}) == [missing]
    rows = [{"port": "right", "k": k, "n": 1, "m": None} for k in (None, 5)]
    assert tuples(JOIN | given, *rows, {"port": "left", "k": 5}) == [{"n": 1, "m": None}]


@pytest.mark.parametrize(
    "operator",
    [
        {"window": "tumbling, delta(x, 5)"},
        {"window": "sliding, count(3), delta(x, 5)"},
        {"window": "sliding, delta(x, x), count(1)"},
        {"window": "timeInterval, intervalDuration(2)", "event_time": "x"},
        {"window": "session, inactivityGap(2)", "event_time": "x"},
        {"kind": "dedup", "by": ["x"], "within": "eventTime(2)", "event_time": "x"},
    ],
)
def test_a_time_or_the_attribute_of_a_delta_is_not_null(operator: dict[str, Any]):
    """NU27."""
    more = {"schema": {"x": "int64?"}} | ({} if "kind" in operator else {"output": {"n": "Count()"}})
    assert tuples(operator | more, {"x": None}) == ["x is null"]


def test_a_match_that_is_null_holds_for_no_pair():
    """NU30: neither the condition nor its opposite holds."""
    rows = [{"port": "right", "k": 5, "n": 1, "m": None}, {"port": "right", "k": 5, "n": 2, "m": 7}]
    operator = {name: value for name, value in JOIN.items() if name != "algorithm"}
    for match, expected in (("right.m > 0", [{"n": 2, "m": 7}]), ("not (right.m > 0)", [])):
        given = [dict(row) for row in rows]
        assert tuples(operator | {"match": match}, *given, {"port": "left", "k": 5}) == expected


def test_the_attribute_of_a_delta_of_a_join_is_not_null():
    operator = JOIN | {"right": "sliding, delta(m, 5)"}
    assert tuples(operator, {"port": "right", "k": 1, "n": 1, "m": None}) == ["m is null"]


def test_the_key_of_a_table_is_not_null():
    """NU29: other attributes of a row may be."""
    operator = {name: value for name, value in JOIN.items() if name not in ("left", "right")} | {"table": True}
    rows = [
        {"port": "right", "k": None, "n": 1, "m": 2}, {"port": "right", "k": 5, "n": 1, "m": None},
        {"port": "left", "k": 5},
    ]  # fmt: skip
    assert tuples(operator, *rows) == ["k is null", {"n": 1, "m": None}]


@pytest.mark.parametrize("order", ["{x: {nulls: middle}}", "{x: {direction: up}}", "{x: {null: first}}"])
def test_a_wrong_order_is_refused(order: str):
    text = f"""
pipeline: p
streams: {{in: {{topic: in, schema: {{x: 'int64?'}}}}, out: {{topic: out}}}}
operators:
  - {{name: s, sort: in, window: 'tumbling, count(2)', order_by: {order}, output: [out]}}
"""
    with pytest.raises(PipelineError, match=r"operators\[0\].order_by.x"):
        load_text(text, "p.yaml", environment=None)
