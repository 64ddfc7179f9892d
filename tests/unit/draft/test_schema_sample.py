"""Pipeline files that are drafted from records with a schema of a registry."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from decimal import Decimal

import fastavro
import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.config.load import load, load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from sluice.wire.schema_registry import RegistryError
from tests.registry.servers import Small, small

TIME = {"type": "long", "logicalType": "timestamp-millis"}
TAGS = {"type": "map", "values": "string"}
TRADE = {"symbol": "string", "price": ["null", "double"], "time": ["null", TIME], "tags": TAGS}


@pytest.fixture
def server() -> Iterator[Small]:
    with small() as one:
        yield one


def schema(fields):
    listed = [{"name": name, "type": type_} for name, type_ in fields.items()]
    return json.dumps({"type": "record", "name": "Trade", "fields": listed})


def record(server, fields, key=None, **values):
    """A record whose schema the registry has."""
    text = schema(fields)
    if text not in server.schemas:
        server.schemas.append(text)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), values)
    number = server.schemas.index(text) + 1
    return Sampled(b"\0" + number.to_bytes(4, "big") + out.getvalue(), key)


def drafted(server, records):
    registry = {"url": server.url, "max.retries": "0"}
    return draft("trades", sample("trades", records, registry), "trades.yaml", {}, registry)


def test_the_schema_of_the_registry_gives_the_attributes(server):
    records = [
        record(server, TRADE, symbol=symbol, price=price, time=1_357_034_400_500, tags={})
        for symbol, price in [("IBM", 1.5), ("IBM", None), ("SAP", 2.5), ("SAP", 3.5)]
    ]
    text = drafted(server, [*records, Sampled(b"{}", None)])
    assert (
        text[text.index("# 1 of") : text.index("  results:")]
        == """\
# 1 of the 5 records are not readable with a schema of the registry: such records become dead letters.
pipeline: trades
streams:
  trades:                                   # the input: a tuple for each record
    topic: trades
    format: avro-confluent
    schema:
      symbol: string                        # such as "IBM"
      price: float64?                       # such as 1.5; missing or null in 1 of 4 records
      time: timestamp?                      # such as "2013-01-01T10:00:00.5Z"; may be null
      tags: "map<string, string>"           # such as {}
    # event_time: {attribute: time, lag: 10s} # for windows over the time in the records
"""
    )
    assert "\n# kafka: {bootstrap.servers: HOST:PORT} " in text
    assert text.endswith(f'registry:\n  url: "{server.url}"\n  max.retries: "0"\n')
    pipeline = load_text(text, "trades.yaml")
    assert [str(one.name) for one in pipeline.operators[-1].partition_by] == ["symbol"]


def test_schemas_that_have_evolved_give_all_their_fields(server):
    old, new = {"symbol": "string", "size": "int"}, {"symbol": "string", "size": "double", "venue": "string"}
    records = [record(server, old, symbol="a", size=1), record(server, new, symbol="b", size=1.5, venue="X")]
    text = drafted(server, records)
    assert "      size: float64                         # such as 1.0\n" in text
    assert '      venue: string?                        # such as "X"; missing or null in 1 of 2 records\n' in text
    assert str(dict(load_text(text, "trades.yaml").streams["trades"].schema)["venue"]) == "string?"


def test_no_record_has_a_schema_that_the_registry_knows(server):
    with pytest.raises(DraftError) as raised:
        drafted(server, [Sampled(b"\0\0\0\0\x11abc", None)])
    assert str(raised.value) == (
        "no sampled record of trades can be read with its schema: the registry has no schema 17"
    )


def test_records_that_are_no_objects_of_their_schema(server):
    (good,) = [record(server, {"size": "long"}, size=7)]
    with pytest.raises(DraftError, match=r"read with its schema: not Avro: its bytes end in the middle of a value"):
        drafted(server, [Sampled(good.value[:5] + b"\xff", None)])


def test_a_registry_that_does_not_answer(server):
    good = record(server, {"size": "long"}, size=7)
    server.failures += [500]
    with pytest.raises(RegistryError, match="not today"):
        drafted(server, [good])


# ---- change events ---------------------------------------------------------------------------------------------------

ROW = {"type": "record", "name": "Value", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
]}  # fmt: skip
EVENT = {"type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": [
    {"name": "before", "type": ["null", ROW], "default": None},
    {"name": "after", "type": ["null", "Value"], "default": None},
    {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
        {"name": "db", "type": "string"}, {"name": "ts_ms", "type": "long"}]}},
    {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"], "default": None},
]}  # fmt: skip
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
CHANGES = """\
pipeline: orders
streams:
  orders:                                   # the input: a tuple for each record
    topic: orders
    format: avro-confluent
    envelope: debezium                      # the row after each change; a deleted row makes no tuple, or `deletes: \
include`
    change: {op: op, changed: source.ts_ms} # attributes that are beside the row
    schema:
      id: int64                             # such as 1
      note: string?                         # such as "x"; missing or null in 5 of 11 records
      amount: "decimal(10, 2)"              # such as "1.50"
      op: string                            # such as "c"
      changed: timestamp                    # such as 1700000000000
    # key: {attributes: [id], format: avro-confluent} # for a table: the key of the record
    # table: true                           # a table: the newest record of each key, for the right side of a join
    event_time: {attribute: changed, lag: 10s} # the records are in order; each_minute waits 10s for earlier ones
"""


def written(schema, value) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def changes():
    """Eleven rows of three keys, then a deletion and a tombstone: (value, key), as records of Avro."""
    for number in range(11):
        row = {"id": number % 3 + 1, "note": "x" if number % 2 == 0 else None, "amount": Decimal("1.50")}
        source = {"db": "shop", "ts_ms": 1_700_000_000_000 + 1000 * number}
        event = {"before": None, "after": row, "source": source, "op": "c" if number < 3 else "u", "ts_ms": None}
        yield written(EVENT, event), written(KEY, {"id": row["id"]})
    gone = {"before": row, "after": None, "source": source, "op": "d", "ts_ms": 5}
    yield written(EVENT, gone), written(KEY, {"id": row["id"]})
    yield None, written(KEY, {"id": row["id"]})


def framed(server, schema, content):
    text = json.dumps(schema)
    if text not in server.schemas:
        server.schemas.append(text)
    return b"\0" + (server.schemas.index(text) + 1).to_bytes(4, "big") + content


def test_change_events_with_a_registry(server):
    records = [
        Sampled(None if value is None else framed(server, EVENT, value), framed(server, KEY, key))
        for value, key in changes()
    ]
    registry = {"url": server.url, "max.retries": "0"}
    text = draft("orders", sample("orders", records, registry), "orders.yaml", {}, registry)
    assert text[text.index("pipeline:") : text.index("  results:")] == CHANGES
    assert "# key: id, the key of the records\n" in text
    assert "not readable" not in text
    as_table = text.replace("    # key:", "    key:").replace("    # table:", "    table:")
    assert load_text(text, "orders.yaml").streams["orders"].envelope.word == "debezium"
    assert "    key: {attributes: [id], format: avro-confluent}" in as_table


def test_change_events_with_a_schema_of_a_file(tmp_path):
    (tmp_path / "orders.avsc").write_text(json.dumps(EVENT))
    events = [
        {"at": at, "record": {"value": value and {"base64": base64.b64encode(value).decode()}}}
        for at, (value, _) in enumerate(changes())
    ]
    (tmp_path / "orders.jsonl").write_text("\n".join(map(json.dumps, events)))
    result = CliRunner().invoke(main, [
        "init", "--records", str(tmp_path / "orders.jsonl"), "--avro-schema", str(tmp_path / "orders.avsc"),
        str(tmp_path / "orders.yaml"),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    stream = load(tmp_path / "orders.yaml", environment={}).streams["orders"]
    assert (stream.value.format, stream.envelope.word) == ("avro", "debezium")
    assert {name: str(type_) for name, type_ in stream.schema} == {
        "id": "int64", "note": "string?", "amount": "decimal(10, 2)", "op": "string", "changed": "timestamp",
    }  # fmt: skip
    assert "11 results" in result.output or "results, 0 dead letters" in result.output


def test_times_of_connect_and_texts_of_times_are_times(tmp_path):
    connect = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
    zoned = {"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"}
    day = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
    fields = [
        {"name": "seen", "type": connect}, {"name": "made", "type": zoned}, {"name": "day", "type": day},
        {"name": "note", "type": "string"},
    ]  # fmt: skip
    schema = {"type": "record", "name": "Row", "fields": fields}
    (tmp_path / "rows.avsc").write_text(json.dumps(schema))
    row = {"seen": 1_700_000_000_000_000, "made": "2024-01-31T10:00:00+02:00", "day": 19_000, "note": "x"}
    records = [Sampled(written(schema, row), None)] * 3
    text = draft("rows", sample("rows", records, {}, {"avro_schema": str(tmp_path / "rows.avsc")}), "r.yaml", {}, {})
    assert [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("      ")][:4] == [
        "seen: timestamp", "made: timestamp", "day: timestamp", "note: string",
    ]  # fmt: skip


def test_numbers_without_a_fixed_scale_are_decimals(tmp_path):
    variable = {"type": "record", "name": "io.debezium.data.VariableScaleDecimal", "fields": [
        {"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]}  # fmt: skip
    schema = {"type": "record", "name": "Row", "fields": [{"name": "price", "type": ["null", variable]}]}
    (tmp_path / "rows.avsc").write_text(json.dumps(schema))
    rows = [{"price": {"scale": 2, "value": b"\x07"}}, {"price": None}, {"price": {"scale": 1, "value": b"\x07"}}]
    records = [Sampled(written(schema, row), None) for row in rows]
    text = draft("rows", sample("rows", records, {}, {"avro_schema": str(tmp_path / "rows.avsc")}), "r.yaml", {}, {})
    assert '      price: "decimal(38, 2)?" ' in text


def test_all_change_events_are_deletions(server):
    value, _ = list(changes())[-2]
    registry = {"url": server.url, "max.retries": "0"}
    with pytest.raises(DraftError, match="none has a row, as all are deletions"):
        sample("orders", [Sampled(framed(server, EVENT, value), None)], registry)


def test_a_key_that_is_a_record_of_avro_and_not_in_the_value(server):
    value = {"type": "record", "name": "Reading", "fields": [{"name": "temp", "type": "double"}]}
    records = [
        Sampled(framed(server, value, written(value, {"temp": 1.5})), framed(server, KEY, written(KEY, {"id": at % 3})))
        for at in range(12)
    ]
    registry = {"url": server.url, "max.retries": "0"}
    text = draft("temps", sample("temps", records, registry), "temps.yaml", {}, registry)
    assert "      id: {from: key.id, type: int64}" in text
    assert "    key: {format: avro-confluent}\n" in text
    assert [str(one.name) for one in load_text(text, "temps.yaml").operators[0].partition_by] == ["id"]
