"""Every example of docs/windows.md and docs/sort.md is what a replay of it gives, row by row."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.load import load_text
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from sluice.testing import pipeline_of

DOCS = Path(__file__).parents[2] / "docs"
#: a table of Markdown, or a block of text whose columns begin where the words of its first line do
TABLE = r"\s+(?P<table>(?:\|[^\n]*\n)+|```text\n(?:(?!```).)*```)"
YAML = r"(?P<yaml>(?:(?!```).)*)```" + TABLE
EXAMPLE = re.compile(r"### (?P<title>[^\n]*)|```yaml\n" + YAML, re.DOTALL)
MARKS = {"■": "window", "F": "final"}


def examples(page: str) -> list[Any]:
    found = []
    for match in EXAMPLE.finditer((DOCS / page).read_text()):
        if match["yaml"]:
            operator = yaml.safe_load(match["yaml"])
            window = operator.get(
                "window", operator.get("window_left", "a table" if "equality_right" in operator else None)
            )
            if window is not None:  # else a whole pipeline, or a stream: tests of their own read these
                found.append(pytest.param(operator, rows(match["table"]), id=window))
    return found


def rows(table: str) -> list[dict[str, str]]:
    """The rows as column -> text."""
    if table.startswith("```"):
        first, *lines = table.splitlines()[1:-1]
        starts = [word.start() for word in re.finditer(r"\S+( \S+)*", first)]
        head, *body = [columns(line, starts) for line in (first, *lines)]
    else:
        head, _, *body = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in body]


def columns(line: str, starts: list[int]) -> list[str]:
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def event(row: dict[str, str]) -> dict[str, Any]:
    of = {"topic_partition": int(row["topic partition"])} if "topic partition" in row else {}
    cells = {name: text for name, text in row.items() if name not in ("at", "topic partition", "output")}
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


def test_what_users_of_other_systems_write_here_is_a_clause():
    page = (DOCS / "coming-from.md").read_text()
    clauses = re.findall(r"`((?:timeInterval|cumulate|tumbling|sliding|slidingTime|session), [^`]*)`", page)
    assert len(clauses) >= 15
    for clause in clauses:
        timed = clause.startswith(("timeInterval", "cumulate", "slidingTime", "session"))
        event_time = "event_time: {attribute: ts, lag: 0}, " if timed else ""
        key = "partition_by: [x], " if "partitioned" in clause else ""
        text = f"""
pipeline: other
streams:
  in: {{topic: in, {event_time}schema: {{ts: timestamp, x: int64}}}}
  out: {{topic: out}}
operators:
  - {{name: a, aggregate: in, window: "{clause}", {key}output: {{out: {{n: Count()}}}}}}
"""
        assert load_text(text, "coming-from.md", environment=None).operators


ROLLUP = re.compile(r"```yaml\n(?=pipeline: rollup\n)" + YAML, re.DOTALL)


def test_panes_of_panes():
    """Each column of an output stream has the results that the tuple of the row causes, without their marks."""
    found = ROLLUP.search((DOCS / "windows.md").read_text())
    assert found is not None
    table = rows(found["table"])
    events = [{"at": n, "tuple": {name: int(row[name]) for name in ("ts", "amount")}} for n, row in enumerate(table)]
    records = list(replay(load_text(found["yaml"], "windows.md", environment=None), events))
    for stream in ("tens", "thirties", "minutes"):
        made = [[shown(r) for r in records if r.get("stream") == stream and "tuple" in r and r["after"] == n]
                for n in range(len(table))]  # fmt: skip
        assert [" ".join(row) for row in made] == [row[stream] for row in table]
    assert not [record for record in records if "dead_letter" in record]


QUIET = re.compile(r"```yaml\nevent_time: " + YAML, re.DOTALL)


def test_a_watermark_that_follows_the_clock():
    """The watermark after each row, read from the state."""
    found = QUIET.search((DOCS / "windows.md").read_text())
    assert found is not None
    pipeline = load_text(f"""
pipeline: quiet
streams:
  in: {{topic: in, schema: {{ts: float64}}, event_time: {found["yaml"].strip()}}}
  out: {{topic: out}}
operators:
  - {{name: a, aggregate: in, window: "timeInterval, intervalDuration(10)", output: {{out: {{n: Count()}}}}}}
""", "windows.md", environment=None)  # fmt: skip
    player = Player(pipeline, {"in": 1})
    state, table = player.graph.initial(), rows(found["table"])
    events = [{"at": float(row["at"])} | ({"tuple": {"ts": float(row["ts"])}} if row["ts"] else {}) for row in table]
    for row, batch in zip(table, Cutter(pipeline.inputs).batches(list(numbered(events)), 1), strict=True):
        list(player.feed(state, batch))
        assert player.graph.watermarks(state) == {"in": round(float(row["watermark"]) * 1e9)}, row


def test_the_page_has_an_example_of_each_policy():
    windows = " ".join(str(example.id) for example in examples("windows.md"))
    assert len(examples("windows.md")) == 35
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
