"""Every example of docs/join.md is what a replay of it gives, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.testing import run_case
from tests.docs.test_windows_page import MARKS, examples

KEYS = ("partition_by_left", "partition_by_right", "equality_left", "equality_right")


def case_of(written: dict[str, Any], heads: list[str]) -> dict[str, Any]:
    """The operator as a case has it; texts where the head of the table names an attribute."""
    schemas = {f"schema_{side}": dict.fromkeys(names, "string") for side, *names in map(str.split, heads)}
    if "window" in written:  # over the event time t
        schemas = {side: names | {"t": "float64"} for side, names in schemas.items()}
        return {"kind": "join", "algorithm": "inner", "event_time": "t"} | {key: [] for key in KEYS} | written | schemas
    if "window_left" not in written:  # the right side is a table
        own = {key: [] for key in KEYS} | {"table": True}
        return {"kind": "join", "algorithm": "inner"} | own | written | schemas
    windows = {"left": written.pop("window_left"), "right": written.pop("window_right")}
    return {"kind": "join", "algorithm": "inner"} | {key: [] for key in KEYS} | written | windows | schemas


def event(row: dict[str, str]) -> dict[str, Any]:
    at, *cells = list(row.items())[:-1]
    for head, cell in cells:
        port, *names = head.split()
        if cell in MARKS:
            return {"at": float(at[1]), "port": port, "punct": MARKS[cell]}
        if cell.startswith("w "):
            return {"at": float(at[1]), "port": port, "watermark": float(cell[2:])}
        if cell.startswith("delete "):
            return {"at": float(at[1]), "port": port, "delete": {names[0]: cell.removeprefix("delete ")}}
        if cell:
            values = {
                name: float(text) if name == "t" else text for name, text in zip(names, cell.split(), strict=True)
            }
            return {"at": float(at[1]), "port": port, "tuple": values}
    return {"at": float(at[1])}


def shown(record: dict[str, Any]) -> str:
    if "punct" in record:
        return next(sign for sign, word in MARKS.items() if word == record["punct"])
    return " ".join(filter(None, [record.get("stream"), f"({' '.join(record['tuple'].values())})"]))


@pytest.mark.parametrize(("written", "table"), examples("join.md"))
def test_table(written: dict[str, Any], table: list[dict[str, str]]):
    operator = case_of(dict(written), list(table[0])[1:-1])
    records = run_case({"operator": operator, "input": [event(row) for row in table]})
    got = [" ".join(shown(r) for r in records if r["after"] == number) for number in range(len(table))]
    assert got == [row["output"] for row in table]


def test_examples_stand_in_the_page():
    assert len(examples("join.md")) == 6
