"""The tables and lists of docs/types.md: the types of the code, and what becomes of a value of each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from sluice.columns.column_forms import column, form
from sluice.config.load import load_text
from sluice.model import avro_schema
from sluice.model.errors import PipelineError
from sluice.model.protobuf import proto_fit
from sluice.model.types import TYPES, Type, parse_type
from sluice.replayer.player import replay
from sluice.wire import csv_rows, plain_values
from sluice.wire.json import json_write

#: type -> a value of it, as event files have it
VALUES: dict[str, Any] = {
    "boolean": True, "int64": 7, "float64": 2.5, "decimal(2)": "12.50", "string": "a,b",
    "timestamp": "2024-01-01T10:00:00Z", "bytes": "AAE=", "json": {"a": [1, None]},
    "list<int64>": [1, 2], "map<string, int64>": {"a": 1},
    "tuple<id: int64, name: string>": {"id": 1, "name": "a"}, "int64?": None,
}  # fmt: skip
#: a value and its type, which conversions take; and the conversions
GIVEN = [
    ("boolean", True), ("int64", 7), ("float64", 2.5), ("decimal(2)", "12.50"), ("string", "7"), ("string", "true"),
    ("string", "2024-01-01T10:00:00Z"), ("string", "AAE="), ("timestamp", "2024-01-01T10:00:00Z"), ("bytes", "AAE="),
    ("json", {"a": 1}), ("int64?", None),
]  # fmt: skip
CONVERSIONS = (
    "boolean(x)", "int64(x)", "float64(x)", "decimal(x, 2)", "string(x)", "timestamp(x)", "bytes(x)", "json(x)",
)  # fmt: skip


def table(*rows: Iterable[str]) -> str:
    """The rows as Markdown; the first one is the head."""
    head, *body = [list(row) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
    return "".join(f"{re.sub(r' {2,}', ' ', line)}\n" for line in lines)


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def listed(entries: Iterable[str]) -> str:
    return "".join(f"* {entry}\n" for entry in entries)


def name(row: Type) -> str:
    return row.notation or row.word


def names(_: str) -> str:
    """The names of each type: in the file, and in other systems."""
    return listed(code([name(row), *_aliases(row)]) + _elsewhere(row) for row in TYPES)


def _aliases(row: Type) -> tuple[str, ...]:
    return ("optional<T>",) if row.optional else row.aliases


def _elsewhere(row: Type) -> str:
    return f"; for {code(row.foreign)}" if row.foreign else ""


def uses(_: str) -> str:
    """The types whose values can be used for something. An optional type is as the type without `?`."""
    of = {
        "compared, and keys": lambda row: row.comparable,
        "keys of a map": lambda row: row.names_entries,
        "orders of a sort": lambda row: row.sortable,
        "attributes of a `delta`": lambda row: row.distance,
        "event times": lambda row: row.time,
    }
    doubts = code(name(row) for row in TYPES if row.doubt_as_key)
    entries = {use: code(name(row) for row in TYPES if holds(row) and not row.optional) for use, holds in of.items()}
    return listed(f"{use}: {types}" for use, types in entries.items()) + f"* keys with a warning: {doubts}\n"


def formats(_: str) -> str:
    """How each format writes a value of each type, and which type a generated schema has."""
    head = ["type", "JSON", "CSV", "text, key, header", "Avro", "Protobuf"]
    return table(head, *([f"`{word}`", *_written(parse_type(word), value)] for word, value in VALUES.items()))


def _written(type_: Type, value: Any) -> list[str]:
    tuples = pa.RecordBatch.from_arrays([column([value], type_)], ["a"])
    member, field, text = (
        encoded[0].as_py()
        for encoded in (json_write.encode(tuples), csv_rows.encode(tuples, ","), plain_values.encode_text(tuples))
    )
    member = member.removeprefix(b'{"a":').removesuffix(b"}")
    texts = [f"`{written.decode()}`" if written else "nothing" for written in (member, field, text)]
    avro = json.loads(avro_schema.schema_of("r", (("a", type_),)))["fields"][0]["type"]
    return [*texts, f"`{json.dumps(avro)}`", _protobuf(type_)]


def _protobuf(type_: Type) -> str:
    lines = proto_fit.schema_of("r", (("a", type_),)).splitlines()
    return f"`{' '.join(line.strip() for line in lines if line.startswith('  '))}`"


def in_python(_: str) -> str:
    """The values that classes of users get."""
    given = {
        word: form(parse_type(word)).to_user(column([value], parse_type(word)))[0] for word, value in VALUES.items()
    }
    return listed(f"`{word}`: `{type(value).__name__}`, `{value!r}`" for word, value in given.items())


def conversions(_: str) -> str:
    """What each conversion gives for each value: the value as JSON, or that it has none. Empty: `check` refuses it."""
    rows = [["x", *CONVERSIONS]]
    rows += [
        [f"{word} {json.dumps(value)}", *(_converted(word, value, to) for to in CONVERSIONS)] for word, value in GIVEN
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(["```text", *lines, "```\n"])


def _converted(word: str, value: Any, conversion: str) -> str:
    file = {
        "pipeline": "p", "streams": {"s": {"topic": "s", "schema": {"x": word}}, "o": {"topic": "o"}},
        "operators": [{"name": "m", "map": "s", "output": {"o": {"y": conversion}}}],
    }  # fmt: skip
    try:
        pipeline = load_text(json.dumps(file), "p", environment=None)
    except PipelineError:
        return ""
    records = list(replay(pipeline, [{"at": 0.0, "tuple": {"x": value}}]))
    return next((json.dumps(record["tuple"]["y"]) for record in records if "tuple" in record), "no value")


TABLES: dict[str, Callable[[str], str]] = {
    "names": names, "uses": uses, "conversions": conversions, "formats": formats, "python": in_python,
}  # fmt: skip
