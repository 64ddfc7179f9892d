"""Pipeline files that are drafted from records in Protobuf, and from JSON with a schema of a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from sluice.cli import main
from sluice.config.load import load, load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from tests.registry.servers import Small, small

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  string symbol = 1;
  optional double price = 2;
  google.protobuf.Timestamp time = 3;
  oneof payment { string card = 4; int64 voucher = 5; }
  Customer customer = 6;
  repeated string tags = 7;
  Side side = 8;
  Tree tree = 9;
  message Customer { int64 id = 1; optional string city = 2; }
}
message Tree { int64 v = 1; Tree left = 2; }
enum Side { NONE = 0; BUY = 1; }
"""
TYPES = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def order():
    """Google's class of the message."""
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    enum = file.enum_type.add(name="Side")
    for number, name in enumerate(("NONE", "BUY")):
        enum.value.add(name=name, number=number)
    message, tree = file.message_type.add(name="Order"), file.message_type.add(name="Tree")
    for name in ("payment", "_price"):
        message.oneof_decl.add(name=name)
    customer = message.nested_type.add(name="Customer")
    _field(customer, "id", 1, TYPES.TYPE_INT64)
    customer.oneof_decl.add(name="_city")
    _field(customer, "city", 2, TYPES.TYPE_STRING, oneof=0, alone=True)
    _field(tree, "v", 1, TYPES.TYPE_INT64)
    _field(tree, "left", 2, TYPES.TYPE_MESSAGE, ".shop.Tree")
    _field(message, "symbol", 1, TYPES.TYPE_STRING)
    _field(message, "price", 2, TYPES.TYPE_DOUBLE, oneof=1, alone=True)
    _field(message, "time", 3, TYPES.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _field(message, "card", 4, TYPES.TYPE_STRING, oneof=0)
    _field(message, "voucher", 5, TYPES.TYPE_INT64, oneof=0)
    _field(message, "customer", 6, TYPES.TYPE_MESSAGE, ".shop.Order.Customer")
    _field(message, "tags", 7, TYPES.TYPE_STRING, label=3)
    _field(message, "side", 8, TYPES.TYPE_ENUM, ".shop.Side")
    _field(message, "tree", 9, TYPES.TYPE_MESSAGE, ".shop.Tree")
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _field(message, name, number, kind, type_name="", *, oneof=None, alone=False, label=1):
    one = message.field.add(name=name, number=number, type=kind, label=label)
    if type_name:
        one.type_name = type_name
    if oneof is not None:
        one.oneof_index, one.proto3_optional = oneof, alone


def orders(kind):
    rows = [
        {"symbol": "IBM", "price": 1.5, "card": "c", "customer": {"id": 7, "city": "Rome"}, "side": 1},
        {"symbol": "IBM", "voucher": 0, "customer": {"id": 8}, "tags": ["a"]},
        {"symbol": "SAP", "price": 2.5, "tree": {"v": 1, "left": {"v": 2}}},
        {"symbol": "SAP", "price": 4.5, "card": "d"},
    ]
    return [kind(time={"seconds": 1_357_034_400 + at}, **row).SerializeToString() for at, row in enumerate(rows)]


#: what the schema of a draft has for these records, without the comments
ATTRIBUTES = {
    "symbol": "string", "price": "float64?", "time": "timestamp?", "card": "string?", "voucher": "int64?",
    "customer_id": "int64?", "city": "string?", "tags": "list<string>", "side": "string", "tree_v": "int64?",
    "left": "json?",
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Small]:
    with small() as one:
        yield one


def framed(server, text, kind, content, path=b"\0"):
    if text not in server.schemas:
        server.schemas.append(text)
        server.kinds[text] = kind
    return b"\0" + (server.schemas.index(text) + 1).to_bytes(4, "big") + path + content


def attributes(pipeline):
    return {name: str(type_) for name, type_ in pipeline.streams["orders"].schema}


def test_the_schema_of_the_registry_gives_the_attributes(server, order):
    records = [Sampled(framed(server, ORDER, "PROTOBUF", content), None) for content in orders(order)]
    registry = {"url": server.url, "max.retries": "0"}
    found = sample("orders", [*records, Sampled(b"{}", None)], registry)
    text = draft("orders", found, "orders.yaml", {}, registry)
    assert "\n    format: protobuf-confluent\n" in text
    assert "# 1 of the 5 records are not readable with a schema of the registry" in text
    pipeline = load_text(text, "orders.yaml")
    assert attributes(pipeline) == ATTRIBUTES
    assert [str(one.name) for one in pipeline.operators[-1].partition_by] == ["symbol"]
    assert found.time is not None
    assert [list(one.values) for one in found.attributes if one.name in ("voucher", "left")] == [[0], [{"v": 2}]]


def test_messages_and_schemas_that_follow_each_other(server):
    old = 'syntax = "proto3"; message A { string symbol = 1; } message B { int64 size = 2; string symbol = 1; }'
    new = 'syntax = "proto3"; message A { string symbol = 1; optional string venue = 3; }'
    contents = [(old, b"\x0a\1a", b"\0"), (old, b"\x0a\1b\x10\7", b"\2\2"), (new, b"\x0a\1c\x1a\1X", b"\0")]
    records = [Sampled(framed(server, text, "PROTOBUF", *rest), None) for text, *rest in contents]
    found = sample("orders", records, {"url": server.url})
    types = {one.name: one.type for one in found.attributes}
    assert types == {"symbol": "string", "size": "int64?", "venue": "string?"}


def test_json_with_a_schema_of_the_registry(server):
    schema = json.dumps({"type": "object", "properties": {"symbol": {"type": "string"}}})
    records = [
        Sampled(framed(server, schema, "JSON", b'{"symbol":"%s","price":1.5}' % symbol, b""), None)
        for symbol in (b"A", b"A", b"B", b"B")
    ]
    found = sample("orders", records, {"url": server.url})
    text = draft("orders", found, "orders.yaml", {}, {"url": server.url})
    assert "\n    format: json-confluent\n" in text
    assert attributes(load_text(text, "orders.yaml")) == {"symbol": "string", "price": "float64"}


@pytest.mark.parametrize("key", ["proto", "descriptor"])
def test_a_file_of_the_user_gives_the_attributes(key, order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("schemas").mkdir()
    if key == "proto":
        Path("schemas/order.proto").write_text(ORDER)
    else:
        files = descriptor_pb2.FileDescriptorSet()
        timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
        order.DESCRIPTOR.file.CopyToProto(files.file.add())
        Path("schemas/order.proto").write_bytes(files.SerializeToString())
    lines = [
        json.dumps({"at": at, "record": {"value": {"base64": base64.b64encode(content).decode()}}})
        for at, content in enumerate(orders(order))
    ]
    Path("orders.jsonl").write_text("\n".join(lines))
    arguments = ["init", "--records", "orders.jsonl", f"--{key}", "schemas/order.proto", "--message", "shop.Order"]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    settings = f"\n    format: protobuf\n    {key}: schemas/order.proto\n    message: shop.Order\n"
    assert settings in Path("orders.yaml").read_text()
    assert attributes(load("orders.yaml")) == ATTRIBUTES
    assert "4 results, 0 dead letters" in done.stdout
    assert '{"symbol":"SAP","tuples":2,"average_price":3.5}' in done.stdout


def test_the_average_is_of_a_field_with_values_and_unreadable_records_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("order.proto").write_text(
        'syntax = "proto3"; message A { optional double score = 1; optional int64 size = 2; string symbol = 3; }'
    )
    records = [Sampled(b"\x10" + bytes([size]) + b"\x1a\1" + b"ab"[size % 2 :][:1], None) for size in (3, 4, 7, 8)]
    settings = {"proto": "order.proto"}
    text = draft("orders", sample("orders", [*records, Sampled(b"\x1a\7", None)], {}, settings), "orders.yaml", {}, {})
    assert "average_size: Average(float64(size))" in text
    assert "# 1 of the 5 records are not readable with the schema: such records become dead letters.\n" in text


def test_a_file_with_several_messages_needs_the_name_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("order.proto").write_text(ORDER)
    with pytest.raises(DraftError, match=r"--message: expected one of its messages \(shop.Order, "):
        sample("orders", [Sampled(b"\x0a\1a", None)], {}, {"proto": "order.proto"})


def test_a_message_that_the_file_does_not_have_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("order.proto").write_text("syntax")
    with pytest.raises(DraftError, match="--proto: expected "):
        sample("orders", [Sampled(b"\x0a\1a", None)], {}, {"proto": "order.proto"})
