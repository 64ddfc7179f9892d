"""Windows over tables, change by change (docs/reference/change-events.md, EN10 to EN18)."""

from __future__ import annotations

from typing import Any

import pytest

import sluice
from sluice.config.load import load_text
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by

FILE = """
pipeline: totals
streams:
  orders: {topic: orders, table: true, schema: {id: int64, of: string, x: int64}, key: {attributes: [id], format: json}}
  out: {topic: out}
operators:
  - name: total
    aggregate: orders
"""


def pipeline(window: str, output: str, **more: Any) -> Pipeline:
    keys = "".join(f"    {key}: {value}\n" for key, value in more.items())
    return load_text(
        f'{FILE}    window: "{window}"\n{keys}    output: {{out: {{{output}}}}}\n', "file", environment=None
    )


def fired(of: Pipeline, *changes: str) -> list[str]:
    """By change: the results of its firings, each firing followed by `|`.

    A change is `1 a 5` (the row of the key 1), `-1` (its deletion), `clear` (a truncate), or `@5` (only the clock).
    """
    events, now = [], 0.0
    for change in changes:
        now = float(change[1:]) if change[0] == "@" else now
        events.append({"at": now, "stream": "orders"} | event(change))
    found = [""] * len(changes)
    for batch in (1, 100):
        before, found = found, [""] * len(changes)
        for record in sluice.replay(of, events, batch=batch):
            found[record["after"]] += shown(record)
        assert batch == 1 or before == found, "the cut into batches shows"
    return found


def shown(record: dict[str, Any]) -> str:
    if "tuple" in record:
        return " ".join(str(value) for value in record["tuple"].values()) + " "
    return "|" if "punct" in record else "dead"


def event(change: str) -> dict[str, Any]:
    match change.split():
        case [number, of, x]:
            return {"tuple": {"id": int(number), "of": of, "x": int(x)}}
        case ["clear"]:
            return {"truncate": True}
        case [text] if text[0] == "-":
            return {"delete": {"id": int(text[1:])}}
    return {}


OUTPUT = "of: Any(of), total: Sum(x), most: Max(x), ids: Collect(id)"


def test_windows_of_the_current_rows():
    """(EN10, EN11)"""
    of = pipeline("table, partitioned", OUTPUT, partition_by="[of]")
    changes = {
        "1 a 10": "a 10 10 [1] |", "2 a 5": "a 15 10 [1, 2] |", "3 b 7": "b 7 7 [3] |",
        "1 a 1": "a 6 5 [1, 2] |",  # a change keeps its place
        "-2": "a 1 1 [1] |", "-9": "",  # there is no such row
        "3 a 2": "|a 3 2 [1, 3] |",  # it leaves the window of b, and is the newest one of a
        "2 a 4": "a 7 4 [1, 3, 2] |",  # it comes again
    }  # fmt: skip
    assert fired(of, *changes) == [*changes.values()]


def test_a_row_that_changes_its_group_keeps_its_place():
    """(EN11)"""
    of = pipeline("table", "of: Any(of), ids: Collect(id)", group_by="[of]")
    found = fired(of, "1 a 0", "2 a 0", "3 b 0", "1 b 0", "2 b 0")
    assert found[2:] == ["a [1, 2] b [3] |", "a [2] b [1, 3] |", "b [1, 2, 3] |"]


def test_triggers_count_changes():
    """(EN12)"""
    of = pipeline("table, count(2)", "total: Sum(x)")
    assert fired(of, "1 a 1", "2 a 2", "2 a 2", "-7", "-1", "3 a 5") == ["", "3 |", "", "", "2 |", ""]


def test_a_time_trigger_fires_every_window_with_rows():
    """(EN12)"""
    of = pipeline("table, time(5), partitioned", "of: Any(of), total: Sum(x)", partition_by="[of]")
    found = fired(of, "1 a 1", "2 b 2", "@5", "3 a 3", "-2", "@10", "-1", "-3", "@15")
    assert found == ["", "", "a 1 |b 2 |", "", "", "a 4 |", "", "", "|"]


def test_the_row_before_the_newest_ones_comes_back():
    """(EN13)"""
    of = pipeline("sliding, count(2)", "total: Sum(x), ids: Collect(id)", aggregate_incomplete_windows="false")
    changes = {
        "1 a 1": "", "2 a 2": "3 [1, 2] |", "3 a 4": "6 [2, 3] |", "2 a 8": "12 [2, 3] |",
        "1 a 16": "12 [2, 3] |",  # not in the window
        "-3": "24 [1, 2] |", "-1": "8 [2] |", "4 a 1": "9 [2, 4] |",
    }  # fmt: skip
    assert fired(of, *changes) == [*changes.values()]


def test_a_truncate_is_one_change_of_each_window():
    """(EN14)"""
    of = pipeline("table, count(3), partitioned", "of: Any(of), total: Sum(x)", partition_by="[of]")
    assert fired(of, "1 a 1", "2 a 2", "3 b 3", "clear", "3 b 4", "1 a 5") == ["", "", "", "|", "b 4 |", ""]


def test_a_window_without_rows_has_a_mark_alone():
    """(EN18)"""
    of = pipeline("table", "total: Sum(x)")
    assert fired(of, "1 a 1", "-1", "2 a 2", "clear") == ["1 |", "|", "2 |", "|"]


def test_a_retraction_needs_no_row_before_the_change():
    """(EN16) Deletions and updates have the key, and no values of the row that they replace."""
    text = FILE.replace("table: true", "envelope: debezium, table: true")
    of = load_text(f"{text}    window: table\n    output: {{out: {{total: Sum(x)}}}}\n", "file", environment=None)
    rows = [
        ("c", {"id": 1, "of": "a", "x": 5}),
        ("c", {"id": 2, "of": "a", "x": 7}),
        ("u", {"id": 1, "of": "a", "x": 6}),
    ]
    records = [({"id": row["id"]}, {"op": op, "before": None, "after": row}) for op, row in rows]
    records += [({"id": 2}, {"op": "d", "before": None, "after": None}), ({"id": 2}, None)]
    events = [{"at": n, "record": {"key": key, "value": value}} for n, (key, value) in enumerate(records)]
    assert [r["tuple"]["total"] for r in sluice.replay(of, events) if "tuple" in r] == [5, 12, 13, 6]


def test_a_row_whose_expression_fails_does_not_replace_the_one_before():
    of = pipeline("table", "total: Sum(10 % x)")
    assert fired(of, "1 a 3", "2 a 0", "1 a 0", "-1") == ["1 |", "dead", "dead", "|"]


@pytest.mark.parametrize(("partition_by", "spread"), [
    ("[id]", True), ("[id % 2]", True), ("[of]", False), ("[id, of]", False),
])  # fmt: skip
def test_rows_are_spread_by_the_key_of_the_table_only(partition_by, spread):
    """(EN17)"""
    of = pipeline("table, partitioned", "total: Sum(x)", partition_by=partition_by)
    assert (spread_by(of) is not None) == spread
