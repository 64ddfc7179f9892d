"""Each format through the real broker and Spark, with keys and headers; bad records beside good ones."""

from __future__ import annotations

import io
import json
import os
import struct
from base64 import b64decode

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.registry.servers import apicurio, small

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TRADE = {
    "type": "record",
    "name": "Trade",
    "fields": [
        {"name": "price", "type": ["null", "double"]},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "venue", "type": "string"},
    ],
}
TOTAL = {
    "type": "record",
    "name": "Total",
    "fields": [
        {"name": "total", "type": ["null", "double"]},
        {"name": "source", "type": "string", "default": "sluice"},
        {"name": "last", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
AVRO = f"""
streams:
  in:
    schema: {{symbol: string, price: float64, time: timestamp, trace: string}}
    format: avro
    avro_schema: {json.dumps(TRADE)}
    key: {{attributes: [symbol]}}
    headers: {{trace: trace-id}}
    defaults: {{trace: none}}
  out:
    format: avro
    avro_schema: {json.dumps(TOTAL)}
    key: {{format: json, attributes: [symbol]}}
    headers: {{trace: trace-id}}
    marks: header
  dead: {{}}
operators:
  - name: sum
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [symbol]
    output: {{out: {{symbol: symbol, total: Sum(price), last: Last(time), trace: Last(trace)}}}}
dead_letters: dead
clock: records
buckets: 2
"""


def avro(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def trade(symbol, price, time=0, **headers):
    value = avro(TRADE, {"price": price, "time": time, "venue": "X"})
    return {"key": symbol, "value": value, "headers": {name.replace("_", "-"): text for name, text in headers.items()}}


def test_avro_with_keys_and_headers(service):
    service.create("in")
    service.send(
        "in",
        [
            trade("IBM", 1.5, 1000, trace_id="a"),
            {"key": "IBM", "value": b"\xff"},
            trade("IBM", None),
            {**trade("IBM", 7.0), "key": None},
            trade("é", 1.0),
            trade("IBM", 2.25, 2500),
            trade("é", 2.0, 7, trace_id="b"),
        ],
    )
    pipeline = service.pipeline(AVRO)
    service.run(pipeline)
    found = []
    for message in service.read("out"):
        value = fastavro.schemaless_reader(io.BytesIO(message.value()), fastavro.parse_schema(TOTAL), None)
        found.append((json.loads(message.key()), value["total"], value["source"], dict(message.headers())))
    assert found == [
        ({"symbol": "IBM"}, 3.75, "sluice", {"trace-id": b"none", "sluice-mark": b"window"}),
        ({"symbol": "é"}, 3.0, "sluice", {"trace-id": b"b", "sluice-mark": b"window"}),
    ]
    dead = [(message.value(), dict(message.headers())["sluice-reason"]) for message in service.read("dead")]
    assert [reason.partition(b":")[0] for _, reason in dead] == [b"not Avro", b"null attribute", b"missing attribute"]
    assert dead[0][0] == b"\xff"


CSV = """
streams:
  in: {schema: {symbol: string, price: float64, size: int64}, format: csv, delimiter: ";", defaults: {size: 1}}
  large: {format: csv, marks: none}
  symbols: {format: text, marks: none}
  dead: {}
operators:
  - name: large
    map: in
    where: price > 1.0
    output: {large: {symbol: symbol, worth: price * size}}
  - name: symbols
    map: in
    output: {symbols: {symbol: symbol}}
dead_letters: dead
clock: records
"""


def test_csv_and_text(service):
    service.create("in")
    rows = [b"a;1.5;2", b"b;0.5;7", b'"c;d,""";2;', b"e;x;1", b"f;3;4"]
    service.send("in", [{"key": b"k%d" % number, "value": row} for number, row in enumerate(rows)])
    service.run(service.pipeline(CSV))
    assert [message.value() for message in service.read("large")] == [b"a,3.0", b'"c;d,""",2.0', b"f,12.0"]
    assert [message.value() for message in service.read("symbols")] == [b"a", b"b", b'c;d,"', b"f"]
    assert [message.key() for message in service.read("symbols")] == [b"k0", b"k1", b"k2", b"k4"]
    assert [message.value() for message in service.read("dead")] == [b"e;x;1"]


DECIMALS = """
streams:
  in: {schema: {symbol: string, price: decimal(2), rate: "decimal(38, 9)"}}
  totals: {key: {attributes: [low]}, headers: {high: high}, marks: none}
  rates: {decimals: base64, marks: none}
  dead: {}
operators:
  - name: sum
    aggregate: in
    window: sliding, count(2), count(2), partitioned
    partition_by: [symbol]
    output:
      totals: {total: Sum(price), mean: "Average(price, 3)", low: Min(rate), high: Max(rate)}
      rates: {rate: Sum(rate * price)}
dead_letters: dead
clock: records
"""


def test_decimals(service):
    """DE17, DE18: no digit is lost on the way from topic to topic."""
    service.create("in")
    rate = "12345678901234567890.123456789"
    values = [
        f'{{"symbol":"a","price":0.10,"rate":{rate}}}', f'{{"symbol":"a","price":"0.205","rate":{rate}}}',
        f'{{"symbol":"a","price":"0.25","rate":"-{rate}"}}',
    ]  # fmt: skip
    service.send("in", [{"value": value.encode()} for value in values])
    service.run(service.pipeline(DECIMALS))
    (total,) = service.read("totals")
    assert total.value() == b'{"total":0.35,"mean":0.175}'
    assert total.key() == f"-{rate}".encode()
    assert dict(total.headers()) == {"high": rate.encode()}
    (rates,) = service.read("rates")
    unscaled = int.from_bytes(b64decode(json.loads(rates.value())["rate"]), "big", signed=True)
    assert unscaled == 12345678901234567890123456789 * (10 - 25)
    assert [message.value() for message in service.read("dead")] == [values[1].encode()]


CONFLUENT = """
streams:
  in:
    schema: {symbol: string, price: float64}
    format: avro-confluent
    key: {format: avro-confluent, attributes: [symbol]}
  out: {format: avro-confluent, marks: none}
  dead: {}
operators:
  - {name: dear, map: in, where: price > 1.0, output: [out]}
dead_letters: dead
clock: records
"""


@pytest.fixture(params=["small", pytest.param("real", marks=pytest.mark.registry)])
def registry(request):
    with apicurio() if request.param == "real" else small() as one:
        yield one if isinstance(one, str) else one.url


def test_avro_with_a_schema_registry(service, registry):
    service.create("in")
    with SchemaRegistryClient({"url": registry}) as client:
        schema = {"type": "record", "name": "Quote", "fields": [{"name": "price", "type": "float"}]}
        value, key = AvroSerializer(client, json.dumps(schema)), AvroSerializer(client, '"string"')
        context = SerializationContext(service.topic("in"), MessageField.VALUE)
        keyed = SerializationContext(service.topic("in"), MessageField.KEY)
        sent = [{"key": key(f"s{n}", keyed), "value": value({"price": n / 2}, context)} for n in range(6)]
        service.send("in", [*sent, {"key": sent[0]["key"], "value": b"\0\0\0\xff\xff\2"}])
        service.run(service.pipeline(f"{CONFLUENT}registry: {{url: '{registry}'}}"))
        outs = [AvroDeserializer(client)(message.value(), context) for message in service.read("out")]
        assert outs == [{"symbol": f"s{n}", "price": n / 2} for n in range(3, 6)]
        (dead,) = service.read("dead")
        assert dict(dead.headers())["sluice-reason"] == b"unknown schema: the registry has no schema 65535"


PROTO = 'syntax = "proto3"; package shop; enum Side { NONE = 0; BUY = 1; } message Trade { string symbol = 1; optional double price = 2; Side side = 3; }'  # noqa: E501
NAMES = """
streams:
  in: {{schema: {{symbol: string, price: "float64?", side: string}}, defaults: {{side: NONE}},
       format: {form}{settings}}}
  out: {{format: {form}{settings}, marks: none}}
  dead: {{}}
operators:
  - {{name: dear, map: in, where: price > 1.0, output: [out]}}
dead_letters: dead
"""
BAD = b"\0\0\0\xff\xff\2"


def test_protobuf_by_a_file(service, tmp_path):
    """PB24: the side is read by its name, and written as its number."""
    (tmp_path / "trade.proto").write_text(PROTO)
    path = os.path.relpath(tmp_path / "trade.proto")
    service.create("in")
    values = [
        b"\x0a\1a\x11" + struct.pack("<d", 1.5) + b"\x18\1",
        b"\x0a\1b",
        b"\x0a\x05c",
        b"\x0a\1d\x11" + struct.pack("<d", 2),
    ]
    service.send("in", [{"value": value} for value in values])
    service.run(service.pipeline(NAMES.format(form="protobuf", settings=f", proto: {path}, message: shop.Trade")))
    assert [message.value() for message in service.read("out")] == [values[0], values[3]]
    (dead,) = service.read("dead")
    assert (dead.value(), dict(dead.headers())["sluice-reason"].partition(b":")[0]) == (values[2], b"not Protobuf")


@pytest.mark.parametrize("form", ["protobuf-confluent", "json-confluent"])
def test_other_formats_with_a_schema_registry(service, registry, form):
    """Records of two versions of a schema; what is written has the schema that its id names."""
    service.create("in")
    schemas, values = (MESSAGES, MESSAGE_VALUES) if form == "protobuf-confluent" else (DOCUMENTS, DOCUMENT_VALUES)
    with SchemaRegistryClient({"url": registry}) as client:
        kind = "PROTOBUF" if form == "protobuf-confluent" else "JSON"
        numbers = [
            client.register_schema(f"{service.topic('in')}-{version}", Schema(text, kind))
            for version, text in enumerate(schemas)
        ]
        sent = [b"\0" + numbers[version].to_bytes(4, "big") + content for version, content in values]
        service.send("in", [{"value": value} for value in [*sent, BAD]])
        service.run(service.pipeline(f"{NAMES.format(form=form, settings='')}registry: {{url: '{registry}'}}"))
        outs = [message.value() for message in service.read("out")]
        own = client.get_latest_version(f"{service.topic('out')}-value")
        assert own.schema.schema_type == kind
        assert {value[:5] for value in outs} == {b"\0" + own.schema_id.to_bytes(4, "big")}
        assert [value[5:] for value in outs] == WRITTEN[form]
        reasons = [dict(dead.headers())["sluice-reason"] for dead in service.read("dead")]
        assert [reason.partition(b":")[0] for reason in reasons] == REASONS[form]


#: two versions of a schema; records with the number of their version; what is written of those with a price above 1
MESSAGES = [
    'syntax = "proto3"; message T { string symbol = 1; optional double price = 2; }',
    'syntax = "proto3"; message T { string symbol = 1; float price = 4; enum S { NONE = 0; BUY = 1; } S side = 5; }',
]
MESSAGE_VALUES = [
    (0, b"\0\x0a\1a\x11" + struct.pack("<d", 1.5)), (1, b"\0\x0a\1b\x25" + struct.pack("<f", 2.5) + b"\x28\1"),
    (0, b"\0\x0a\1c"), (0, b"\0\x0a\5d"),
]  # fmt: skip
DOCUMENTS = [
    '{"type":"object","properties":{"symbol":{"type":"string"},"price":{"type":"number","minimum":0}}}',
    '{"type":"object","required":["side"],"properties":{"side":{"enum":["BUY","SELL"]}}}',
]
DOCUMENT_VALUES = [
    (0, b'{"symbol":"a","price":1.5}'), (1, b'{"symbol":"b","price":2.5,"side":"BUY"}'), (0, b'{"symbol":"c"}'),
    (0, b'{"symbol":"d","price":-2.5}'),
]  # fmt: skip
WRITTEN = {
    "protobuf-confluent": [
        b"\0\x0a\1" + symbol + b"\x11" + struct.pack("<d", price) + b"\x1a" + bytes([len(side)]) + side
        for symbol, price, side in ((b"a", 1.5, b"NONE"), (b"b", 2.5, b"BUY"))
    ],
    "json-confluent": [
        b'{"symbol":"a","price":1.5,"side":"NONE"}', b'{"symbol":"b","price":2.5,"side":"BUY"}',
    ],
}  # fmt: skip
REASONS = {
    "protobuf-confluent": [b"not Protobuf", b"unknown schema"], "json-confluent": [b"not valid", b"unknown schema"],
}  # fmt: skip
