"""Enums, JSON and decimals as messages of Protocol Buffers; Google's implementation is the other hand (PB24, PB25)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, descriptor_pb2, json_format, struct_pb2, wrappers_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.json_columns import column
from sluice.model.protobuf.proto_schema import parse
from sluice.model.types import parse_type
from sluice.wire.protobuf.proto_json import json_text
from sluice.wire.protobuf.proto_read import Reader
from sluice.wire.protobuf.proto_write import Writer

P3 = 'syntax = "proto3"; enum Side { NONE = 0; BUY = 1; SELL = -5; } '
P2 = 'syntax = "proto2"; enum Side { NONE = 0; BUY = 1; SELL = -5; } '


def pair(text, **types):
    """The writer and the reader of the message M, and the tuples of some values."""
    proto, kinds = parse((("m.proto", text),)), tuple((name, parse_type(kind)) for name, kind in types.items())

    def tuples(*values):
        columns = [column([value[name] for value in values], kind) for name, kind in kinds]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(kinds))

    message = proto.messages["M"]
    return Writer.of(kinds, proto, message), Reader.of(kinds, proto, message, {}), tuples


ENUMS = "message M { Side s = 1; optional Side o = 2; repeated Side l = 3; map<string, Side> m = 4; } "


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_an_enum_is_written_by_name_and_by_number(kind):
    numbers = {"NONE": 0, "BUY": 1, "SELL": -5, "77": 77}
    meant = (lambda name: name) if kind == "string" else numbers.get
    writer, reader, tuples = pair(P3 + ENUMS, s=kind, o=f"{kind}?", l=f"list<{kind}>", m=f"map<string, {kind}>")
    values = [
        {"s": meant("NONE"), "o": None, "l": [], "m": {}},
        {"s": meant("SELL"), "o": meant("NONE"), "l": [meant("BUY"), meant("77")], "m": {"a": meant("SELL")}},
    ]
    batch = tuples(*values)
    assert writer.refused(batch) == {}
    written = writer.write(batch)
    assert written[0].as_py() == b""
    assert written[1].as_py() == (
        b"\x08\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x00\x1a\x02\x01\x4d"
        b"\x22\x0e\x0a\x01a\x10\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    )  # fmt: skip
    assert reader.read(written).tuples == batch


@pytest.mark.parametrize(
    ("text", "kind", "good", "bad"),
    [
        (P3, "string", ["BUY", "7", "-7", "2147483647"], ["buy", "", "07", "2147483648", "1.0"]),
        (P3, "int64", [0, 7, -(2**31)], [2**31, -(2**31) - 1]),
        (P2, "string", ["BUY", "-5"], ["7", "SOLD"]),
        (P2, "int64", [1, -5], [7, 2**40]),
    ],
)
def test_a_value_that_an_enum_does_not_have_is_refused(text, kind, good, bad):
    writer, _, tuples = pair(
        f"{text} message M {{ optional Side s = 1; repeated Side l = 2; }}", s=f"{kind}?", l=f"list<{kind}>"
    )
    values = [*({"s": one, "l": [one]} for one in good), {"s": None, "l": []}]
    assert writer.refused(tuples(*values)) == {}
    refused = writer.refused(
        tuples(*({"s": one, "l": []} for one in bad), *({"s": None, "l": [*good, one]} for one in bad))
    )
    assert len(refused) == 2 * len(bad)
    assert refused[0] == f"wrong type: s: expected a value of Side, got {json.dumps(bad[0])}"


# ---- JSON ------------------------------------------------------------------------------------------------------------

STRUCT = 'syntax = "proto3"; import "google/protobuf/struct.proto"; '
STRUCTS = """message M { google.protobuf.Struct s = 1; google.protobuf.Value v = 2; google.protobuf.ListValue l = 3;
  repeated google.protobuf.Value r = 4; map<string, google.protobuf.Value> m = 5; }"""
SCALARS = (
    st.none()
    | st.booleans()
    | st.text(max_size=4)
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.dictionaries(st.text(max_size=200), VALUES, max_size=3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(OBJECTS, VALUES.filter(lambda value: value is not None), st.lists(VALUES, max_size=3))
def test_json_is_written_as_google_reads_it(document, value, items):
    writer, reader, tuples = pair(STRUCT + STRUCTS, s="json", v="json", l="json", r="list<json>", m="map<string, json>")
    batch = tuples({"s": document, "v": value, "l": items, "r": [document, value], "m": {"k": value}})
    assert writer.refused(batch) == {}
    written = writer.write(batch)
    fields = dict(_messages(written[0].as_py()))
    for number, meant, kind in (
        (1, document, struct_pb2.Struct),
        (2, value, struct_pb2.Value),
        (3, items, struct_pb2.ListValue),
    ):
        assert json_format.MessageToDict(kind.FromString(fields[number])) == json.loads(json.dumps(meant))
    decoded = reader.read(written)
    assert decoded.bad == []
    (row,) = decoded.tuples.to_pylist()
    assert [json.loads(row[name]) for name in "svl"] == [document, value, items]
    assert list(map(json.loads, row["r"])) == [document, value]


def _messages(data):
    """The fields with a length, the last one of each number."""
    at = 0
    while at < len(data):
        number, at = data[at] >> 3, at + 1
        size = shift = 0
        while True:
            size |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        yield number, data[at : at + size]
        at += size


def test_json_that_is_no_object():
    writer, _, tuples = pair(STRUCT + STRUCTS, s="json?", l="json?")
    deep = json.loads("[" * 120 + "]" * 120)
    rows = [{"s": [1], "l": None}, {"s": None, "l": {"a": 1}}, {"s": {"a": 1}, "l": []}, {"s": None, "l": deep}]
    assert list(writer.refused(tuples(*rows))) == [0, 1, 3]


def test_an_any_with_a_known_type_is_its_message():
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/wrappers.proto"; package p; '
    proto = parse((("m.proto", text + "message T { int64 id = 1; } message M { google.protobuf.Any a = 1; }"),))
    one = proto.messages["p.M"].fields[0]
    known = any_pb2.Any(type_url="type.googleapis.com/p.T", value=b"\x08\x07")
    assert json.loads(json_text(proto, one, known.SerializeToString())) == {"@type": "type.googleapis.com/p.T", "id": 7}
    wrapped = any_pb2.Any()
    wrapped.Pack(wrappers_pb2.Int64Value(value=5))
    assert json.loads(json_text(proto, one, wrapped.SerializeToString())) == json_format.MessageToDict(wrapped) | {
        "value": 5
    }
    other = any_pb2.Any(type_url="x/p.Other", value=b"\0")
    assert json.loads(json_text(proto, one, other.SerializeToString())) == {"type_url": "x/p.Other", "value": "AA=="}


# ---- decimals --------------------------------------------------------------------------------------------------------


def test_a_decimal_of_confluent_comes_back():
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; '
    text += "message M { confluent.type.Decimal d = 1; repeated confluent.type.Decimal l = 2; }"
    writer, reader, tuples = pair(text, d="decimal(38, 9)?", l="list<decimal(2)>")
    values = [
        {"d": "12345678901234567890123456789.123456789", "l": ["-0.05", "1.28"]}, {"d": None, "l": []},
        {"d": "0", "l": ["0"]}, {"d": "-1", "l": []},
    ]  # fmt: skip
    batch = tuples(*values)
    written = writer.write(batch)
    assert written[1].as_py() == b""
    assert written[3].as_py() == b"\x0a\x0a\x0a\x04\xc4\x65\x36\x00\x10\x26\x18\x09"
    assert reader.read(written).tuples == batch


def test_a_file_that_google_has_compiled_has_the_decimal():
    file = descriptor_pb2.FileDescriptorProto(
        name="confluent/type/decimal.proto", package="confluent.type", syntax="proto3"
    )
    message = file.message_type.add(name="Decimal")
    for number, (name, kind) in enumerate((("value", 12), ("precision", 13), ("scale", 5)), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    own = parse(
        (
            (
                "m.proto",
                'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }',
            ),
        )
    )
    meant = [(one.name, one.number, one.type) for one in message.field]
    kinds = {"bytes": 12, "uint32": 13, "int32": 5}
    assert [(one.name, one.number, kinds[one.kind]) for one in own.messages["confluent.type.Decimal"].fields] == meant


def test_json_in_a_field_of_a_text_is_its_text():
    """proto3 leaves an empty text out, which no JSON is."""
    proto = parse((("m.proto", P3 + " message M { string j = 1; }"),))
    writer = Writer.of((("j", parse_type("json")),), proto, proto.messages["M"])
    tuples = pa.record_batch({"j": column([{"a": 1}, []], parse_type("json"))})
    assert writer.write(tuples).to_pylist() == [b'\n\x07{"a":1}', b"\n\x02[]"]
