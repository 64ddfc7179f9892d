"""The examples of the documentation as Markdown: the file, what comes in and what comes out; and the
tables of types (type_tables.py).

`python -m tests.docs.recipes` writes them into the pages. The tests compare the pages with what a replay gives.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sluice
from sluice.config.syntax.function_names import Elsewhere, rows
from sluice.files import project_file
from sluice.replayer.player import replay
from sluice.testing import pipeline_of
from tests.docs.type_tables import TABLES

KINDS = "example|events|grid|numbers|types|functions"
BLOCK = re.compile(rf"(<!-- ({KINDS}): ?([\w/.-]*) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)
MARKS = {"window": "■", "final": "F"}
#: seconds since 1970 from which `at` is shown as a date
FIRST_DATE = 1e9
#: the policies of the grid, and its tuples: the second of arrival and the value
EVICTIONS = ("count(3)", "time(3)", "delta(v, 3)")
TRIGGERS = ("count(1)", "count(2)", "time(2)", "delta(v, 3)")
TUPLES = {1: 1, 2: 2, 3: 4, 6: 4, 7: 5, 8: 9, 9: 10}


def pages() -> list[Path]:
    """The pages with examples that this module writes."""
    candidates = [project_file("README.md"), *sorted(project_file("docs").rglob("*.md"))]
    return [page for page in candidates if BLOCK.search(page.read_text(encoding="utf-8"))]


def written(text: str) -> str:
    """A page with its examples as they are now."""
    kinds = {
        "example": example,
        "events": events_block,
        "grid": grid,
        "numbers": numbers,
        "types": lambda name: TABLES[name](name),
        "functions": functions_elsewhere,
    }
    return BLOCK.sub(lambda found: found[1] + kinds[found[2]](found[3]) + found[5], text)


def events_block(name: str) -> str:
    return f"```json\n{project_file(f'examples/{name}.jsonl').read_text()}```\n"


def grid(_: str) -> str:
    """The contents of sliding windows when they fire, under each eviction and each trigger, with their pictures."""
    tuples = [["second", *map(str, TUPLES)], ["---"] * (len(TUPLES) + 1), ["`v`", *map(str, TUPLES.values())]]
    rows = [["eviction", *(f"trigger `{trigger}`" for trigger in TRIGGERS)], ["---"] * (len(TRIGGERS) + 1)]
    cells = {window: (firings(operator, events), name) for name, window, operator, events in grid_windows()}
    for eviction in EVICTIONS:
        row = [cells[f"sliding, {eviction}, {trigger}"] for trigger in TRIGGERS]
        rows.append([f"`{eviction}`", *(f"[{shown}](pictures/{name}.svg)" for shown, name in row)])
    return "\n".join("".join(f"| {' | '.join(row)} |\n" for row in table) for table in (tuples, rows))


def grid_windows() -> Iterator[tuple[str, str, dict[str, Any], list[dict[str, Any]]]]:
    """Each window of the grid: the name of its picture, its clause, its operator, and its events."""
    events = [{"at": float(at), "tuple": {"v": value}} for at, value in TUPLES.items()]
    for eviction in EVICTIONS:
        for trigger in TRIGGERS:
            window = f"sliding, {eviction}, {trigger}"
            name = "-".join(["grid", *(re.sub(r"\(v, |\W", "", policy) for policy in (eviction, trigger))])
            output = {"content": "Collect(v)"}
            yield name, window, {"window": window, "aggregate_incomplete_windows": True, "output": output}, events


def functions_elsewhere(_: str) -> str:
    """The scalar functions of Flink SQL and ksqlDB, and what to write here, group by group."""
    groups = {row.group: [other for other in rows() if other.group == row.group] for row in rows()}
    return "\n".join(function_group(group, members) for group, members in groups.items())


def function_group(group: str, members: list[Elsewhere]) -> str:
    """A list of the functions with other names; those with one answer are together."""
    others = defaultdict[str, list[str]](list)
    for row in members:
        if row.here != "=":
            others[row.here or f"none: {row.reason}"] += row.names
    lines = [f"* {', '.join(f'`{name}`' for name in names)}: {code_of(here)}\n" for here, names in others.items()]
    return f"### {group}\n\n{''.join(lines)}"


def code_of(text: str) -> str:
    """The text with its calls and expressions as code."""
    return re.sub(r"(?<![\w`])(\w+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?:\[0\])?)", r"`\1`", text)


def numbers(_: str) -> str:
    """The table of start, latency, memory and so on in docs/limits.md, which is its one place."""
    page = project_file("docs/limits.md").read_text(encoding="utf-8")
    return page.split("<!-- numbers -->\n")[1].split("<!-- end of numbers -->")[0]


def firings(operator: dict[str, Any], events: list[dict[str, Any]]) -> str:
    records = replay(pipeline_of({"operator": operator, "input": events}), events)
    contents = [record["tuple"]["content"] for record in records if "tuple" in record]
    return " ".join(f"({' '.join(map(str, content))})" for content in contents)


def example(name: str) -> str:
    """The pipeline file examples/<name>.yaml, and its replay on examples/<name>.jsonl."""
    pipeline, events = project_file(f"examples/{name}.yaml"), project_file(f"examples/{name}.jsonl")
    return f"```yaml\n# examples/{name}.yaml\n{pipeline.read_text()}```\n\n{story(pipeline, events)}"


def story(pipeline: Path, events: Path) -> str:
    """The events as text: time, topic partition if several have records, what comes in; below it what comes out."""
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    records = list(sluice.replay(pipeline, events))
    named, width = any("stream" in line for line in lines), max(len(moment(line["at"])) for line in lines)
    partitioned = any("topic_partition" in line for line in lines)
    shown = []
    for number, line in enumerate(lines):
        partition = f"[{line.get('topic_partition', 0)}] " if partitioned else ""
        shown.append(f"{moment(line['at']):{width}}  {partition}{event(line, named=named)}".rstrip())
        outputs = (output(record) for record in records if record["after"] == number)
        shown += [f"{'':{width}}  → {text}" for text in outputs if text]
    return "\n".join(["```text", *shown, "```\n"])


def moment(at: float) -> str:
    """Seconds of the example, or a time of the calendar."""
    return f"{at:,}" if at < FIRST_DATE else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%MZ")


def event(line: dict[str, Any], *, named: bool) -> str:
    if "tuple" in line:
        return tuple_text(line["stream"] if named else "", line["tuple"])
    if "delete" in line:
        return f"{line['stream']} delete {compact(line['delete'])}"
    if "record" in line:
        return record(line["record"], line["stream"] if named else "")
    return MARKS[line["punct"]] if "punct" in line else ""


def record(of: dict[str, Any], stream: str) -> str:
    """A record: its key, if it has one, and its value."""
    key, value = (of.get(part) for part in ("key", "value"))
    texts = [part if isinstance(part, str) else compact(part) for part in (key, value)]
    where = f"{stream} " if stream else ""
    return f"{where}record {texts[1]}" if key is None else f"{where}record {texts[0]}: {texts[1]}"


def output(record: dict[str, Any]) -> str:
    """A tuple or a dead letter; nothing for a mark."""
    if "dead_letter" in record:
        return f"dead letter: {record['dead_letter']['reason']}"
    return tuple_text(record["stream"], record["tuple"]) if "tuple" in record else ""


def tuple_text(stream: str, values: dict[str, Any]) -> str:
    """A tuple: its stream, and each attribute with its value in JSON."""
    pairs = [f"{name}={compact(value)}" for name, value in values.items()]
    return " ".join([stream, *pairs] if stream else pairs)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    for path in pages():
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
