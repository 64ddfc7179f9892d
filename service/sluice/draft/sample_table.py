"""What the sampled records have, as a table for the terminal, and the first results of a draft."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from sluice.draft.envelopes import CONNECT, DEBEZIUM, UPSERT
from sluice.draft.sampled_attributes import Attribute
from sluice.draft.sampled_records import Sample
from sluice.draft.user_choices import Roles

#: results that are shown
SHOWN = 5
#: attributes in the table
MAX_ROWS = 40
#: characters of a path, and of an example
WIDTH = 40
#: characters of a result
LINE = 200
HEAD = ("attribute", "path", "type", "in", "example")
ENVELOPES = {
    DEBEZIUM: "change events of Debezium", CONNECT: "Connect's schema and payload", UPSERT: "rows and tombstones",
}  # fmt: skip


def findings(sample: Sample, roles: Roles) -> Iterator[str]:
    """The lines of the table: each attribute with its path, its type, and in how many of the records it is."""
    envelope = ENVELOPES.get(sample.envelope.word)
    yield f"{counted(sample.records, 'record')}: {sample.format}{f', {envelope}' if envelope else ''}"
    listed = [_row(attribute, roles) for attribute in sample.attributes[:MAX_ROWS]]
    yield from _aligned([HEAD, *listed])
    if len(sample.attributes) > MAX_ROWS:
        yield f"... and {counted(len(sample.attributes) - MAX_ROWS, 'more attribute')}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _row(attribute: Attribute, roles: Roles) -> tuple[str, ...]:
    type_ = "left out" if attribute.problem else roles.type_of(attribute)
    share = 100 * (attribute.documents - attribute.absent) // max(1, attribute.documents)
    options = "" if attribute.form is None else " ".join(attribute.form.options.values()).replace("true", "")
    return attribute.name, attribute.source, f"{type_} {options}".strip(), f"{share} %", attribute.example


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cut = [[_cut(cell, WIDTH) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    for row in cut:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def first_results(written: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first results of a replay, and how many results and dead letters there are."""
    results = [row["tuple"] for row in written if "tuple" in row]
    dead = [row["dead_letter"]["reason"] for row in written if "dead_letter" in row]
    yield f"the file over these records: {counted(len(results), 'result')}, {counted(len(dead), 'dead letter')}"
    yield from (f"  {_cut(orjson.dumps(row).decode(), LINE)}" for row in results[:SHOWN])
    if dead:
        yield f"  the first dead letter: {dead[0]}"
