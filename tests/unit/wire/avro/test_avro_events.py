"""Change events in Avro, by a schema of the file or of a registry (docs/reference/change-events.md, EN1)."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

import sluice
from sluice.config.load import load_text
from sluice.model.errors import PipelineError

ROW = {"type": "record", "name": "Value", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]}  # fmt: skip
EVENT = {"type": "record", "name": "Envelope", "namespace": "shop.public.customers", "fields": [
    {"name": "before", "type": ["null", ROW], "default": None},
    {"name": "after", "type": ["null", "Value"], "default": None},
    {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
        {"name": "version", "type": "string"}, {"name": "ts_ms", "type": "long"}, {"name": "db", "type": "string"},
    ]}},
    {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"], "default": None},
]}  # fmt: skip
FILE = """
pipeline: changes
registry: {url: "http://registry"}
streams:
  rows:
    topic: rows
    envelope: debezium
    FORMAT
    schema: {id: int64, name: string, kind: string, changed: timestamp, handled: int64, db: string}
    defaults: {name: none}
    change: {kind: op, changed: source.ts_ms, handled: ts_ms, db: source.db}
  out: {topic: out}
operators:
  - {name: pass, map: rows, output: {out: {id: id, name: name, kind: kind, changed: changed, handled: handled, db: db}}}
"""


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    source = {"version": "3.0", "ts_ms": 1_700_000_000_000, "db": "shop"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 5}


def encoded(value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(json.loads(json.dumps(EVENT))), value)
    return sink.getvalue()


ANN, BOB = {"id": 1, "name": "Ann", "at": 0}, {"id": 2, "name": None, "at": 1}
EVENTS = [
    event("c", None, ANN),
    event("r", None, BOB),
    event("u", ANN, BOB),
    event("d", ANN, None),
    event("t", None, None),
]
TUPLES = [[number, name, op, "2023-11-14T22:13:20Z", 5, "shop"] for number, name, op in
          [(1, "Ann", "c"), (2, "none", "r"), (2, "none", "u"), (1, "Ann", "d")]]  # fmt: skip


def outputs(text: str, values: list[bytes | None]) -> list[Any]:
    pipeline = load_text(text, "file", environment=None)
    records = [{"value": None if value is None else {"base64": b64encode(value).decode()}} for value in values]
    found = sluice.replay(pipeline, [{"at": at, "record": record} for at, record in enumerate(records)])
    return [
        [*one["tuple"].values()] if "tuple" in one else one["dead_letter"]["reason"].partition(":")[0] for one in found
    ]


def file(format_: str) -> str:
    return FILE.replace("FORMAT", f"deletes: include\n    {format_}")


def test_events_by_a_schema_of_the_file():
    text = file(f"format: avro\n    avro_schema: {json.dumps(EVENT)}")
    damaged = [encoded(EVENTS[0])[:-3], encoded(event("x", None, ANN)), encoded(event("u", ANN, None)), b"", None]
    assert outputs(text, [*map(encoded, EVENTS), *damaged]) == [
        *TUPLES, "not Avro", "not a change event", "not a change event", "not Avro",
    ]  # fmt: skip


def test_events_by_a_schema_of_a_registry(monkeypatch):
    schemas = {7: EVENT, 8: ROW}
    get = lambda _, number: Schema(json.dumps(schemas[number]), "AVRO") if number in schemas else None  # noqa: E731
    monkeypatch.setattr(SchemaRegistryClient, "get_schema", get)
    values = [b"\0\0\0\0\7" + encoded(value) for value in EVENTS]
    others = [b"\0\0\0\0\x09" + encoded(EVENTS[0]), b"\0\0\0\0\x08abc", b"abc", None]
    assert outputs(file("format: avro-confluent"), [*values, *others]) == [
        *TUPLES, "unknown schema", "unknown schema", "not Avro",
    ]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), [
    (ROW, "the schema of a change event"), ("string", "the schema of a change event"),
    ({**EVENT, "fields": [f | {"type": ["null", {**ROW, "fields": ROW["fields"][1:]}]} if f["name"] == "before" else f
                          for f in EVENT["fields"]]}, "attribute id"),
])  # fmt: skip
def test_a_schema_of_the_file_has_the_row_with_all_attributes(schema, expected):
    given = json.dumps(schema if isinstance(schema, dict) else {"type": schema})
    with pytest.raises(PipelineError, match=expected):
        load_text(file(f"format: avro\n    avro_schema: {given}"), "file", environment=None)
