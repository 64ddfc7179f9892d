"""Protobuf and JSON Schema with a schema registry, and Confluent's own serializers as the counterpart."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from sluice.columns.arrow_types import HEADERS, arrow_schema
from sluice.model.members import Member
from sluice.model.spec import Coding, Stream
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, list_of, optional_of, struct_of
from sluice.wire.formats.json_confluent_format import JsonSchemaOptions
from sluice.wire.formats.protobuf_format import ProtobufOptions
from sluice.wire.record_codec import Records
from sluice.wire.schema_registry import RegistryError
from tests.registry.servers import apicurio, small

SCHEMA = (("symbol", STRING), ("size", INT64))
TEXT = 'syntax = "proto3"; package shop; message Other { int32 x = 1; } message Trade { string symbol = 1; int64 size = 2; message In { int64 size = 4; } }'  # noqa: E501
FILES = (("trade.proto", TEXT),)


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with apicurio() as url:
        yield url


@pytest.fixture(params=["small", pytest.param("real", marks=pytest.mark.registry)])
def url(request) -> Iterator[str]:
    if request.param == "real":
        yield request.getfixturevalue("real")
        return
    with small() as one:
        yield one.url


@pytest.fixture
def client(request) -> Iterator[SchemaRegistryClient]:
    where = "url" if "url" in request.fixturenames else "real"
    with SchemaRegistryClient({"url": request.getfixturevalue(where)}) as one:
        yield one


@pytest.fixture
def name(request) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def records(url, topic, form, options, schema=SCHEMA, **properties):
    stream = Stream("s", schema, topic, Coding(form, options), defaults=(("size", 0),))
    return Records.of(stream, {"url": url, "max.retries": "1", **properties})


def protobuf(url, topic, message="", files=(), **more):
    return records(url, topic, "protobuf-confluent", ProtobufOptions(message, files), **more)


def json_(url, topic, text=None, **more):
    return records(url, topic, "json-confluent", JsonSchemaOptions(json_schema=text), **more)


def decode(these, values):
    nothing = pa.nulls(len(values), pa.binary()), pa.nulls(len(values), HEADERS)
    return these.decode(pa.array(values, pa.binary()), *nothing)


def rows(*values, schema=SCHEMA):
    arrow = arrow_schema(schema)
    columns = [pa.array(column, one.type) for column, one in zip(zip(*values, strict=True), arrow, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def framed(number, content):
    return b"\0" + number.to_bytes(4, "big") + content


def message_class(text: descriptor_pb2.FileDescriptorProto, name: str):
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(text)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def trade_file(**types: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="trade.proto", package="shop", syntax="proto3")
    other, trade = file.message_type.add(name="Other"), file.message_type.add(name="Trade")
    other.field.add(name="x", number=1, type=5, label=1)
    for number, (field, kind) in enumerate(types.items(), 1):
        trade.field.add(name=field, number=number, type=getattr(trade.field.add(), f"TYPE_{kind.upper()}"), label=1)
        del trade.field[-2]
    return file


# ---- Protobuf --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [FILES, ()])
def test_protobuf_is_registered_and_read_by_its_id(url, name, files):
    these = protobuf(url, name, "shop.Trade" if files else "", files)
    values = these.encode_values(rows(("IBM", 7), ("é", -1), ("", 0))).to_pylist()
    assert {value[5:7] for value in values[:2]} == {b"\2\2" if files else b"\0\x0a"}
    assert decode(these, values).tuples.to_pylist() == rows(("IBM", 7), ("é", -1), ("", 0)).to_pylist()


@pytest.mark.registry
@pytest.mark.parametrize("files", [FILES, ()])
def test_confluents_own_deserializer_reads_protobuf(real, name, files):
    these = protobuf(real, name, "shop.Trade" if files else "", files)
    (value,) = these.encode_values(rows(("IBM", 7))).to_pylist()
    file = trade_file(symbol="string", size="int64")
    kind = message_class(file, "shop.Trade")
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False})(
        value, SerializationContext(name, MessageField.VALUE)
    )
    assert (read.symbol, read.size) == ("IBM", 7)


@pytest.mark.registry
def test_what_confluents_own_serializer_of_protobuf_writes_is_read(real, name, client):
    file = trade_file(symbol="string", venue="string", size="int32")
    kind = message_class(file, "shop.Trade")
    theirs = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    sent = theirs(kind(symbol="A", size=3, venue="X"), SerializationContext(name, MessageField.VALUE))
    assert decode(protobuf(real, name), [sent]).tuples.to_pylist() == [{"symbol": "A", "size": 3}]
    assert decode(protobuf(real, name, "shop.Trade"), [sent]).bad == []
    refused = decode(protobuf(real, name, "shop.Order"), [sent]).bad
    assert refused[0][1] == "unknown schema: expected the message shop.Order, got shop.Trade"


def test_schemas_of_protobuf_evolve_within_a_batch(url, name, client):
    texts = [
        'syntax = "proto3"; message T { string symbol = 1; int64 size = 2; }',
        'syntax = "proto3"; message T { string symbol = 1; }',
        'syntax = "proto3"; message T { string venue = 3; optional sint32 size = 4; string symbol = 1; }',
    ]
    numbers = [client.register_schema(f"{name}-{at}", Schema(text, "PROTOBUF")) for at, text in enumerate(texts)]
    values = [
        framed(numbers[0], b"\0\x0a\1a\x10\1"), framed(numbers[2], b"\0\x0a\1c\x1a\1X"),
        framed(numbers[1], b"\0\x0a\1b"), framed(numbers[2], b"\0\x20\7\x0a\1d"), framed(numbers[0], b"\2\0\x0a\1e"),
    ]  # fmt: skip
    decoded = decode(protobuf(url, name), values)
    assert decoded.bad == []
    assert [tuple(row.values()) for row in decoded.tuples.to_pylist()] == [
        ("a", 1), ("c", 0), ("b", 0), ("d", -4), ("e", 0),
    ]  # fmt: skip
    own = protobuf(url, name, "T", (("t.proto", texts[0]),))  # by the numbers of its own fields
    assert [row["size"] for row in decode(own, values).tuples.to_pylist()] == [1, 0, 0, 0, 0]


def test_a_list_may_be_optional_if_it_is_only_read(url, name, client):
    text = 'syntax = "proto3"; message T { repeated string tags = 1; map<string, string> by = 2; }'
    number = client.register_schema(f"{name}-x", Schema(text, "PROTOBUF"))
    members = (("first", Member(("tags", 0))), ("env", Member(("by", "env"))))
    schema = (("tags", optional_of(list_of(STRING))), ("first", optional_of(STRING)), ("env", optional_of(STRING)))
    stream = Stream("s", schema, name, Coding("protobuf-confluent", ProtobufOptions()), members=members)
    decoded = decode(Records.of(stream, {"url": url}), [framed(number, b"\0\x0a\1a\x12\7\x0a\3env\x12\0")])
    assert (decoded.bad, decoded.tuples.to_pylist()) == ([], [{"tags": ["a"], "first": "a", "env": ""}])


def test_messages_within_messages(url, name, client):
    number = client.register_schema(f"{name}-x", Schema(TEXT, "PROTOBUF"))
    these = protobuf(url, name, schema=(("size", INT64),))
    values = [framed(number, b"\4\2\0\x20\5"), framed(number, b"\2\2\x10\6"), framed(number, b"\2\x0c\x10\6")]
    decoded = decode(these, values)
    assert decoded.tuples.to_pylist() == [{"size": 5}, {"size": 6}]
    assert decoded.bad == [(2, f"unknown schema: the schema {number} has no message with the path [6]")]


def test_bad_records_in_protobuf_are_set_aside_one_by_one(url, name):
    these = protobuf(url, name)
    (good,) = these.encode_values(rows(("a", 1))).to_pylist()
    values = [
        good,
        b"",
        b"\0\0\0",
        b"\1" + good[1:],
        b"\0\x00\xff\xff\xff\0",
        good[:-1],
        good[:5],
        good[:5] + b"\xff",
        good,
    ]
    decoded = decode(these, values)
    assert decoded.good.tolist() == [0, 8]
    assert [why.partition(":")[0] for _, why in decoded.bad] == [
        "not Protobuf", "not Protobuf", "not Protobuf", "unknown schema", "not Protobuf", "not Protobuf",
        "not Protobuf",
    ]  # fmt: skip


@pytest.mark.registry
def test_a_schema_of_protobuf_that_imports_another_one(real, name, client):
    common = 'syntax = "proto3"; package common; message Money { int64 units = 1; }'
    main = f'syntax = "proto3"; import "{name}.proto"; message T {{ string symbol = 1; common.Money size = 2; }}'
    size = struct_of(units=INT64)
    these = protobuf(
        real, name, "T", ((f"{name}.proto", common), ("t.proto", main)),
        schema=(("symbol", STRING), ("size", optional_of(size))),
    )  # fmt: skip
    values = these.encode_values(rows(("a", {"units": 5}), ("b", None), schema=these.stream.schema))
    theirs = protobuf(real, name, schema=(("symbol", STRING), ("size", optional_of(size))))
    assert decode(theirs, values.to_pylist()).tuples.to_pylist() == [
        {"symbol": "a", "size": {"units": 5}}, {"symbol": "b", "size": None},
    ]  # fmt: skip
    assert client.get_latest_version(f"{name}-value").schema.references == [
        SchemaReference(f"{name}.proto", f"{name}.proto", 1)
    ]


def test_a_compiled_schema_in_the_registry_is_read(url, name, client):
    content = base64.b64encode(trade_file(symbol="string", size="int64").SerializeToString()).decode()
    number = client.register_schema(f"{name}-x", Schema(content, "PROTOBUF"))
    assert decode(protobuf(url, name), [framed(number, b"\2\2\x0a\1a\x10\1")]).tuples.to_pylist() == [
        {"symbol": "a", "size": 1}
    ]


@pytest.mark.parametrize("make", [protobuf, json_])
def test_a_schema_that_is_not_registered_is_refused_where_the_file_says_so(url, name, make):
    these = make(url, name, **{"auto.register.schemas": "false"})
    with pytest.raises(RegistryError, match=f"has no schema like this one under the subject {name}-value"):
        these.encode_values(rows(("a", 1)))
    make(url, name).encode_values(rows(("a", 1)))
    assert these.encode_values(rows(("a", 1))).to_pylist()


@pytest.mark.registry
def test_a_schema_of_another_kind(real, name, client):
    number = client.register_schema(f"{name}-x", Schema('"string"', "AVRO"))
    for these, kind in ((protobuf(real, name), "Protobuf"), (json_(real, name), "JSON Schema")):
        assert (
            decode(these, [framed(number, b"\0")]).bad[0][1]
            == f"unknown schema: the schema {number} is AVRO, not {kind}"
        )


# ---- JSON Schema -----------------------------------------------------------------------------------------------------

ALL = (
    ("symbol", STRING),
    ("size", INT64),
    ("price", optional_of(FLOAT64)),
    ("at", TIMESTAMP),
    ("tags", list_of(STRING)),
)
ROW = ("IBM", 7, None, 1_700_000_000_000_000_000, ["a"])


def test_json_is_registered_and_read_by_its_id(url, name):
    these = json_(url, name, schema=ALL)
    values = these.encode_values(rows(ROW, schema=ALL)).to_pylist()
    assert values[0][5:6] == b"{"
    assert decode(these, values).bad == []


@pytest.mark.registry
def test_confluents_own_serializers_of_json(real, name, client):
    these = json_(real, name, schema=ALL)
    (value,) = these.encode_values(rows(ROW, schema=ALL)).to_pylist()
    context = SerializationContext(name, MessageField.VALUE)
    read = JSONDeserializer(None, schema_registry_client=client)(value, context)
    assert read == {"symbol": "IBM", "size": 7, "price": None, "at": "2023-11-14T22:13:20Z", "tags": ["a"]}
    text = json.dumps(
        {"title": "T", "type": "object", "properties": {"symbol": {"type": "string"}, "size": {"type": "integer"}}}
    )
    theirs = JSONSerializer(text, client)
    sent = theirs({"symbol": "A", "size": 3, "more": {}}, SerializationContext(f"{name}-other", MessageField.VALUE))
    assert decode(json_(real, name), [sent]).tuples.to_pylist() == [{"symbol": "A", "size": 3}]


POSITIVE = json.dumps({
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["symbol"],
    "properties": {"symbol": {"type": "string", "maxLength": 3}, "size": {"type": "integer", "minimum": 0}},
})  # fmt: skip


def test_json_that_does_not_follow_its_schema(url, name, client):
    number = client.register_schema(f"{name}-x", Schema(POSITIVE, "JSON"))
    values = [
        framed(number, content)
        for content in (b'{"symbol":"a","size":1}', b'{"symbol":"a","size":-1}', b'{"size":1}', b'{"symbol":"abcd"}',
                        b"{", b"[1]", b'{"symbol":"b"}')
    ]  # fmt: skip
    decoded = decode(json_(url, name), values)
    assert decoded.tuples.to_pylist() == [{"symbol": "a", "size": 1}, {"symbol": "b", "size": 0}]
    assert dict(decoded.bad) == {
        1: "not valid: /size: -1 is less than the minimum of 0",
        2: 'not valid: /: "symbol" is a required property',
        3: 'not valid: /symbol: "abcd" is longer than 3 characters',
        4: "not JSON: unexpected end of data: line 1 column 2 (char 1)",
        5: 'not valid: /: [1] is not of type "object"',
    }
    own = json_(url, name, '{"type":"object","required":["size"]}')
    assert [row for row, _ in decode(own, values).bad] == [2, 3, 4, 5, 6]


@pytest.mark.registry
def test_a_json_schema_that_refers_to_another_one(real, name, client):
    side = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "enum": ["A", "B"]})
    client.register_schema(f"{name}-side", Schema(side, "JSON"))
    properties = {"symbol": {"$ref": "side.json"}}
    text = json.dumps(
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties}
    )
    number = client.register_schema(
        f"{name}-x", Schema(text, "JSON", [SchemaReference("side.json", f"{name}-side", 1)])
    )
    decoded = decode(json_(real, name), [framed(number, b'{"symbol":"A"}'), framed(number, b'{"symbol":"C"}')])
    assert decoded.tuples.to_pylist() == [{"symbol": "A", "size": 0}]
    assert decoded.bad == [(1, 'not valid: /symbol: "C" is not one of "A" or "B"')]


def test_a_json_schema_that_refers_to_an_address_is_not_requested(url, name, client):
    text = json.dumps({"type": "object", "properties": {"symbol": {"$ref": "http://localhost:1/side.json"}}})
    number = client.register_schema(f"{name}-x", Schema(text, "JSON"))
    ((_, why),) = decode(json_(url, name), [framed(number, b'{"symbol":"A"}')]).bad
    assert why.startswith(
        f"unknown schema: the schema {number} cannot be used: expected a JSON Schema that can be used"
    )
