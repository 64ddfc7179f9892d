"""Every table of docs/windows.md and docs/sort.md is what a replay of it gives, row by row."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.replayer.player import replay
from sluice.testing import pipeline_of

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"### (?P<title>[^\n]*)|```yaml\n(?P<yaml>.*?)```\s+(?P<table>(?:\|[^\n]*\n)+)", re.DOTALL)
MARKS = {"■": "window", "F": "final"}


def examples(page: str) -> list[Any]:
    found, title = [], ""
    for match in EXAMPLE.finditer((DOCS / page).read_text()):
        title = match["title"] or title
        if match["yaml"]:
            operator = yaml.safe_load(match["yaml"])
            found.append(pytest.param(operator, rows(match["table"]), id=operator.get("window", title)))
    return found


def rows(table: str) -> list[dict[str, str]]:
    """The rows as column -> text."""
    head, _, *body = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in body]


def event(row: dict[str, str]) -> dict[str, Any]:
    of = {"topic_partition": int(row["of"])} if "of" in row else {}
    cells = {name: text for name, text in row.items() if name not in ("at", "of", "output")}
    first = next(iter(cells.values()))
    if first in MARKS:
        content: dict[str, Any] = {"punct": MARKS[first]}
    elif first.startswith("w "):
        content = {"watermark": float(first[2:])}
    else:
        content = {"tuple": {name: yaml.safe_load(text) for name, text in cells.items()}} if first else {}
    return {"at": seconds(row["at"])} | of | content


def seconds(at: str) -> float:
    """Also of a time of the calendar."""
    return datetime.fromisoformat(at).timestamp() if "T" in at else float(at)


def shown(record: dict[str, Any]) -> str:
    if "punct" in record:
        return next(sign for sign, word in MARKS.items() if word == record["punct"])
    return " ".join(map(str, record["tuple"].values()))


def test_the_page_has_an_example_of_each_policy():
    windows = " ".join(str(example.id) for example in examples("windows.md"))
    assert len(examples("windows.md")) == 34
    assert all(
        word in windows
        for word in (
            "count(",
            "time(",
            "delta(",
            "punct(",
            "partitioned",
            "partitionAge(",
            "partitionCount(",
            "tupleCount(",
            "timeInterval",
            "slidingTime",
            "session",
        )
    )


@pytest.mark.parametrize(("operator", "table"), [*examples("windows.md"), *examples("sort.md")])
def test_table(operator: dict[str, Any], table: list[dict[str, str]]):
    events = [event(row) for row in table]
    origin = "first" if "T" in table[0]["at"] else None
    records = list(replay(pipeline_of({"operator": operator, "input": events}), events, clock_origin=origin))
    records = [record for record in records if "dead_letter" not in record]
    got = [" ".join(shown(r) for r in records if r["after"] == number) for number in range(len(table))]
    assert got == [row["output"] for row in table]
