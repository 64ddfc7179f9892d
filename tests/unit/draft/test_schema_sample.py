"""Pipeline files that are drafted from records with a schema of a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pytest

from sluice.config.load import load_text
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
    records = [
        record(server, old, symbol="a", size=1),
        record(server, new, symbol="b", size=1.5, venue="X"),
    ]
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
