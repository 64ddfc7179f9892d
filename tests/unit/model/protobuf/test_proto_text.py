"""Texts of `.proto` files: read as Google's compiler reads them, or refused with the line."""

from __future__ import annotations

import base64
from importlib.resources import files

import pytest
from grpc_tools import protoc

from sluice.model.protobuf.proto_descriptor import files_of
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_schema import parse

PROTO3 = """
// A comment; /* no other one */
syntax = "proto3";
package shop.v1; /* and
another */
import "google/protobuf/timestamp.proto";
import public "google/protobuf/wrappers.proto";
option java_package = "a" "b";
message Order {
  option deprecated = false;
  string id = 1; string message = 2; bool enum = 3; int32 optional_x = 4; bytes reserved = 0x15; float to = 010;
  optional double price = 5 [deprecated = true, json_name = "p"];
  enum Side { option allow_alias = true; UNKNOWN = 0; BUY = 1; LONG = 1 [deprecated = true]; SELL = -2; reserved 9; }
  Side side = 6;
  message Item { string sku = 1; repeated Order orders = 2; Side side = 3; message Side { int32 x = 1; } }
  repeated Item items = 7;
  map<string, Item> by_sku = 9; map<int32, .shop.v1.Order.Side> sides = 10;
  oneof pay { string card = 11; google.protobuf.Int64Value cash = 12; Item.Side deep = 13; }
  google.protobuf.Timestamp at = 14;
  repeated sint32 plain = 15 [packed = false]; repeated fixed64 many = 16;
  reserved 100, 200 to 210; reserved "foo", "bar";
}
service Shop { rpc Get (Order) returns (stream Order) { option deprecated = true; } rpc Put (Order) returns (Order); }
;
"""
PROTO2 = """
syntax = "proto2";
message M {
  required int32 a = 1 [default = -7]; optional string s = 2 [default = "x\\n\\x41\\101"]; repeated int32 r = 3;
  optional E e = 4 [default = B]; optional double d = 5 [default = inf]; optional bool b = 6 [default = true];
  optional group Inner = 7 { optional int32 x = 1; } repeated group Many = 8 { optional string y = 1; }
  oneof o { group Of = 9 { optional int32 z = 1; } int64 w = 12; }
  optional int64 hex = 13 [default = 0x10]; optional float f = 14 [default = -1.5e3];
  extensions 100 to 199; extensions 1000 to max;
  extend M { optional int32 inside = 101; }
}
enum E { A = 3; B = 4; }
extend M { optional int32 more = 100; }
"""
EDITION = """
edition = "2023";
package e;
option features.repeated_field_encoding = EXPANDED;
message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; repeated int32 r = 3;
  repeated int32 p = 4 [features.repeated_field_encoding = PACKED]; M m = 5 [features.message_encoding = DELIMITED];
  E e = 6; int32 q = 7 [features.field_presence = LEGACY_REQUIRED]; }
enum E { option features.enum_type = CLOSED; A = 1; }
"""


@pytest.mark.parametrize("text", [PROTO3, PROTO2, EDITION], ids=["proto3", "proto2", "edition"])
def test_a_text_is_read_as_the_compiler_reads_it(text, tmp_path):
    (tmp_path / "x.proto").write_text(text)
    known, set_ = f"-I{files('grpc_tools') / '_proto'}", tmp_path / "x.desc"
    arguments = ["protoc", f"-I{tmp_path}", known, "--include_imports", f"--descriptor_set_out={set_}", "x.proto"]
    assert protoc.main(arguments) == 0
    compiled = [(name, base64.b64encode(content).decode()) for name, content in files_of(set_.read_bytes())]
    theirs, ours = parse(tuple(compiled)), parse((("x.proto", text),))
    assert {name: ours.messages[name] for name in theirs.messages} == theirs.messages
    assert {name: ours.enums[name] for name in theirs.enums} == theirs.enums
    assert ours.order == theirs.order


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message M {", "x, line 1: a field or a definition, got the end of the file"),
        ("message M { int32 a = ; }", "x, line 1: the number of a field, got ;"),
        ("message M {\n int32 a = 1\n}", "x, line 3: `;`, got }"),
        ("message M { int32 a = 0; }", "a number from 1 to 536870911 for the field a of M"),
        ("message M { int32 a = 1; int32 b = 1; }", "a number of its own for each field of M"),
        ("message M { int32 a = 1; int32 a = 2; }", "a name of its own for each field of M"),
        ("message M {} message M {}", "one definition of M"),
        ("enum E {}", "an enum E with a value"),
        ("massage M {}", "x, line 1: message, enum, import, package, option, extend or service, got massage"),
        ("message M { ! }", "x, line 1: a word, a number or a sign, got '!'"),
        ("/* ", "x, line 1: a word, a number or a sign, got '*'"),
        ("message M " + "{ message M " * 200, "x, line 1: messages that are nested at most 100 deep, got message"),
        ('syntax = "proto2"; message M { optional int32 a = 1 [default = x]; }', "a default of the type int32"),
    ],
)
def test_a_text_that_is_wrong(text, why):
    with pytest.raises(ProtobufError) as error:
        parse((("x", text),))
    assert str(error.value).startswith(why)


@pytest.mark.parametrize("content", [b"", b"\x0a", b"\x0a\xff", b"\x0b", b"\x0a\x02\x0a\x05", b"\xff" * 20])
def test_a_descriptor_that_is_damaged(content):
    with pytest.raises(ProtobufError):
        files_of(content)


def test_a_type_whose_file_is_missing_is_skipped():
    proto = parse((("x", 'import "y.proto"; message M { optional other.T a = 1; optional int32 b = 2; }'),))
    assert [one.kind for one in proto.messages["M"].fields] == ["unknown", "int32"]
