"""Protobuf: what Google's implementation writes is read, and what is written Google's implementation reads.

SLUICE_TEST_CASES=1000 makes more random schemas and more damaged messages.
"""

from __future__ import annotations

import base64
import os
import struct
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from sluice.columns.arrow_types import arrow_schema
from sluice.config.syntax.member_path import member_path
from sluice.model.members import Member, text_of
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import GIVEN, check_reading, check_writing, kind_of, message_of, schema_of
from sluice.model.protobuf.proto_schema import Protobuf, ProtoMessage, parse
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, list_of, optional_of, parse_type
from sluice.wire.protobuf.proto_read import Reader
from sluice.wire.protobuf.proto_write import Writer
from tests.unit.wire.protobuf import random_messages as random_

CASES = int(os.environ.get("SLUICE_TEST_CASES", "60"))
#: messages of each random schema
MESSAGES = 12


def compiled(text: str, name: str = "") -> tuple[Protobuf, ProtoMessage]:
    proto = parse((("test.proto", text),))
    return proto, message_of(proto, name)


def schema(**types):
    return tuple((name, parse_type(type_)) for name, type_ in types.items())


def decode(text, types, *values, defaults=None, name=""):
    return Reader.of(schema(**types), *compiled(text, name), defaults or {}).read(pa.array(values, pa.binary()))


def rows(text, types, *values, **more):
    decoded = decode(text, types, *values, **more)
    assert decoded.bad == []
    return [tuple(row.values()) for row in as_numbers(decoded.tuples)]


def as_numbers(tuples: pa.RecordBatch) -> list[dict]:
    """The rows, with times in nanoseconds."""
    columns = [_as_number(column) for column in tuples.columns]
    return pa.RecordBatch.from_arrays(columns, tuples.schema.names).to_pylist()


def _as_number(column):
    if pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        return column.cast(pa.list_(pa.int64()))
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def reason(text, types, value, **more):
    return decode(text, types, value, **more).bad[0][1]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def sized(number: int, content: bytes) -> bytes:
    return tag(number, 2) + varint(len(content)) + content


# ---- each kind of field ----------------------------------------------------------------------------------------------


P3 = 'syntax = "proto3"; '
MINUS = varint(2**64 - 1)


@pytest.mark.parametrize(
    ("kind", "type_", "value", "meant"),
    [
        ("int32", "int64", tag(1, 0) + MINUS, -1),
        ("int32", "int64", tag(1, 0) + varint(2**32 + 7), 7),
        ("int64", "int64", tag(1, 0) + varint(2**63), -(2**63)),
        ("uint32", "int64", tag(1, 0) + MINUS, 2**32 - 1),
        ("uint64", "int64", tag(1, 0) + varint(2**63 - 1), 2**63 - 1),
        ("uint64", "float64", tag(1, 0) + varint(2**63), 2.0**63),
        ("sint32", "int64", tag(1, 0) + varint(3), -2),
        ("sint64", "int64", tag(1, 0) + MINUS, -(2**63)),
        ("bool", "boolean", tag(1, 0) + varint(2), True),
        ("fixed32", "int64", tag(1, 5) + b"\xff\xff\xff\xff", 2**32 - 1),
        ("sfixed32", "int64", tag(1, 5) + b"\xff\xff\xff\xff", -1),
        ("sfixed64", "int64", tag(1, 1) + b"\xff" * 8, -1),
        ("fixed64", "float64", tag(1, 1) + b"\xff" * 8, 2.0**64),
        ("float", "float64", tag(1, 5) + b"\0\0\xc0\x3f", 1.5),
        ("double", "float64", tag(1, 1) + b"\0\0\0\0\0\0\xf8\x3f", 1.5),
        ("int32", "float64", tag(1, 0) + varint(3), 3.0),
        ("string", "string", sized(1, "é".encode()), "é"),
        ("bytes", "string", sized(1, b"x"), "x"),
        ("string", "string", b"", ""),
        ("double", "float64", b"", 0.0),
        ("bool", "boolean?", b"", False),
        ("repeated int32", "list<int64>", sized(1, b"\1\2") + tag(1, 0) + b"\3", [1, 2, 3]),
        ("repeated int32", "list<int64>?", b"", []),
        ("repeated string", "list<string>", sized(1, b"a") + sized(1, b""), ["a", ""]),
        ("optional int32", "int64?", b"", None),
        ("optional int32", "int64?", tag(1, 0) + b"\0", 0),
        ("google.protobuf.Int64Value", "int64?", b"", None),
        ("google.protobuf.Int64Value", "int64?", sized(1, b""), 0),
        ("google.protobuf.StringValue", "string", sized(1, sized(1, b"x")), "x"),
        ("repeated google.protobuf.Int32Value", "list<int64>", sized(1, b"") + sized(1, b"\x08\x05"), [0, 5]),
        ("google.protobuf.Timestamp", "timestamp", sized(1, b"\x08\x02\x10\x01"), 2_000_000_001),
        ("google.protobuf.Timestamp", "timestamp?", b"", None),
        ("google.protobuf.Timestamp", "timestamp", sized(1, b"\x08\x02") + sized(1, b"\x10\x01"), 2_000_000_001),
        ("google.protobuf.Duration", "float64", sized(1, b"\x08\x02\x10" + varint(500_000_000)), 2.5),
        ("google.protobuf.Duration", "int64", sized(1, b"\x08" + MINUS), -1_000_000_000),
    ],
)
def test_a_value_is_read(kind, type_, value, meant):
    assert rows(f"{P3}message M {{ {kind} a = 1; }}", {"a": type_}, value) == [(meant,)]


SIDES = "enum Side { NONE = 0; BUY = 1; LONG = 1; SELL = -5; } message M { optional Side a = 1; repeated Side b = 2; }"
ENUMS = f"{P3}option allow_alias = true; {SIDES}"


@pytest.mark.parametrize(
    ("syntax", "value", "meant"),
    [
        ("proto3", tag(1, 0) + b"\1", ("BUY", [])),
        ("proto3", tag(1, 0) + varint(2**64 - 5) + sized(2, b"\0\1"), ("SELL", ["NONE", "BUY"])),
        ("proto3", tag(1, 0) + b"\x09" + sized(2, b"\x09"), ("9", ["9"])),
        ("proto2", tag(1, 0) + b"\x09" + sized(2, b"\x09\1"), (None, ["BUY"])),
    ],
)
def test_an_enum_is_read_by_its_name(syntax, value, meant):
    text = f'syntax = "{syntax}"; {SIDES}'
    assert rows(text, {"a": "string?", "b": "list<string>"}, value) == [meant]


def test_an_enum_is_read_by_its_number():
    value = tag(1, 0) + varint(2**64 - 5) + sized(2, b"\1")
    assert rows(ENUMS, {"a": "int64", "b": "list<int64>"}, value) == [(-5, [1])]


def test_defaults():
    text = """syntax = "proto2"; enum Side { A = 3; B = 4; }
      message M { optional int32 i = 1 [default = 7]; optional string s = 2 [default = "x"]; optional Side e = 3;
                  optional double d = 4; optional Side f = 5 [default = B];
                  optional google.protobuf.Duration w = 6; }"""
    types = {"i": "int64", "s": "string", "e": "string", "d": "float64", "f": "string", "w": "float64"}
    defaults = {"e": "none", "d": 1.5, "w": 2.5}
    assert rows(text, types, b"", defaults=defaults) == [(7, "x", "none", 1.5, "B", 2.5)]
    assert rows(text, types, tag(3, 0) + b"\4", defaults=defaults) == [(7, "x", "B", 1.5, "B", 2.5)]
    optional = {name: f"{type_}?" for name, type_ in types.items()}
    assert rows(text, optional, b"") == [(None,) * 6]


ONEOF = f"{P3}message M {{ oneof o {{ string a = 1; int32 b = 2; google.protobuf.Int32Value c = 3; }} }}"


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (b"", (None, None)),
        (sized(1, b""), ("", None)),
        (tag(2, 0) + b"\7" + sized(1, b"x"), ("x", None)),
        (sized(1, b"x") + sized(3, b"\x08\1"), (None, 1)),
        (sized(1, b"x") + tag(2, 0) + b"\7", (None, None)),
    ],
)
def test_the_last_member_of_a_oneof_counts(value, meant):
    assert rows(ONEOF, {"a": "string?", "c": "int64?"}, value) == [meant]


def test_unknown_fields_and_messages_without_an_attribute_are_skipped():
    text = f"{P3}message M {{ message N {{ N n = 1; }} N n = 1; map<string, N> m = 2; int32 a = 3; }}"
    group = tag(9, 3) + tag(1, 0) + b"\1" + tag(2, 3) + tag(2, 4) + tag(9, 4)
    value = sized(1, b"\xff\xff") + sized(2, b"x") + group + tag(8, 5) + b"1234" + tag(7, 1) + b"12345678"
    assert rows(text, {"a": "int64"}, value + tag(3, 0) + b"\5") == [(5,)]


# ---- what cannot be read ---------------------------------------------------------------------------------------------

PLAIN = f"{P3}message M {{ int64 a = 1; string s = 2; repeated int32 r = 3; optional int64 o = 4; uint64 u = 5; }}"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (tag(1, 0), "not Protobuf: a: the bytes end in the middle of a field (at byte 0)"),
        (b"\x80", "not Protobuf: the bytes end in the middle of a field (at byte 0)"),
        (tag(1, 0) + b"\xff" * 10 + b"\1", "not Protobuf: a: a number has more than ten bytes (at byte 0)"),
        (b"\0\0", "not Protobuf: no field has this number or this wire type (at byte 0)"),
        (tag(1, 6), "not Protobuf: no field has this number or this wire type (at byte 0)"),
        (b"\xff" * 6, "not Protobuf: no field has this number or this wire type (at byte 0)"),
        (tag(1, 0) + b"\1" + sized(2, b"\xff"), "not Protobuf: s: a string is not UTF-8 (at byte 2)"),
        (tag(2, 2) + varint(2**63 - 1), "not Protobuf: s: the bytes end in the middle of a field (at byte 0)"),
        (tag(2, 2) + varint(2**64 - 1), "not Protobuf: s: the bytes end in the middle of a field (at byte 0)"),
        (sized(3, b"\x80"), "not Protobuf: r: the bytes end in the middle of a field (at byte 0)"),
        (tag(9, 4), "not Protobuf: a group ends that has not begun (at byte 0)"),
        (tag(9, 3) + tag(8, 4), "not Protobuf: a group ends that has not begun (at byte 0)"),
        (tag(9, 3), "not Protobuf: the bytes end in the middle of a field (at byte 0)"),
        (tag(9, 3) * 200, "not Protobuf: groups are nested too deeply (at byte 0)"),
        (
            sized(1, b"x"),
            "wrong type: a: expected int64, got another wire type: the record has another schema (at byte 0)",
        ),
        (
            tag(2, 0) + b"\1",
            "wrong type: s: expected string, got another wire type: the record has another schema (at byte 0)",
        ),
        (b"", "missing attribute: o: expected int64, got nothing (at byte 0)"),
        (tag(4, 0) + b"\1" + tag(5, 0) + MINUS,
         "wrong type: u: expected int64, got a number outside of the range of this type (at byte 2)"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_has_a_reason_and_a_place(value, why):
    types = {"a": "int64", "s": "string", "r": "list<int64>", "o": "int64", "u": "int64"}
    assert reason(PLAIN, types, value) == why


def test_a_damaged_record_has_no_effect_on_others():
    good = tag(1, 0) + b"\5" + sized(3, b"\1\2\3")
    decoded = decode(PLAIN, {"a": "int64", "r": "list<int64>"}, good, good + b"\xff", good, b"\x0d", good)
    assert decoded.good.tolist() == [0, 2, 4]
    assert decoded.tuples.to_pylist() == [{"a": 5, "r": [1, 2, 3]}] * 3


def test_a_time_that_is_none():
    text = f"{P3}message M {{ google.protobuf.Timestamp t = 1; }}"
    for content in (b"\x08" + varint(2**40), b"\x10" + MINUS, b"\x10" + varint(10**9)):
        assert reason(text, {"t": "timestamp"}, sized(1, content)).startswith("wrong type: t: expected timestamp, got")


def test_a_message_without_the_field():
    assert reason(PLAIN, {"x": "int64"}, b"") == (
        "missing attribute: x: expected int64, got nothing: the message of the record has no such field"
    )
    assert rows(PLAIN, {"x": "int64", "y": "string?"}, b"", defaults={"x": 3}) == [(3, None)]


# ---- writing ---------------------------------------------------------------------------------------------------------

ALL = """syntax = "proto3";
  message M { string s = 3; int64 i = 1; sint64 z = 2; sfixed64 x = 4; double d = 5; bool b = 6; bytes y = 7;
    google.protobuf.Timestamp t = 8; google.protobuf.Duration w = 9; repeated int64 p = 10;
    repeated int64 q = 11 [packed = false]; repeated string l = 12; optional int64 o = 13;
    google.protobuf.Int64Value v = 14; repeated google.protobuf.Timestamp ts = 2048; oneof c { string k = 15; }
    int32 unused = 16; repeated bool bs = 17; repeated google.protobuf.StringValue vs = 18; }"""
ATTRIBUTES = {
    "s": "string", "i": "int64", "z": "int64", "x": "int64", "d": "float64", "b": "boolean", "y": "string",
    "t": "timestamp", "w": "int64", "p": "list<int64>", "q": "list<int64>", "l": "list<string>", "o": "int64?",
    "v": "int64?", "ts": "list<timestamp>", "k": "string?", "bs": "list<boolean>", "vs": "list<string>",
}  # fmt: skip
ROWS = [
    ("", 0, 0, 0, 0.0, False, "", 0, 0, [], [], [], None, None, [], None, [], []),
    ("é", -1, -1, -1, -0.0, True, "x", 1_700_000_000_123_456_789, -1_500_000_000, [1, -1], [0, 2**63 - 1], ["", "a"],
     0, 0, [0, 5], "", [True, False], ["", "b"]),
    ("x" * 300, 2**63 - 1, -(2**63), 2**62, 1e300, True, "", -1, 999, [0], [], ["b"], 5, -7, [-1], "z", [False], []),
]  # fmt: skip


def batch(types, rows_):
    arrow = arrow_schema(schema(**types))
    columns = [pa.array(column, one.type) for column, one in zip(zip(*rows_, strict=True), arrow, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def test_what_is_written_is_read():
    proto, message = compiled(ALL)
    tuples = batch(ATTRIBUTES, ROWS)
    written = Writer.of(schema(**ATTRIBUTES), proto, message).write(tuples)
    assert written[0].as_py() == sized(8, b"") + sized(9, b"")  # defaults take no bytes, but a message has presence
    decoded = Reader.of(schema(**ATTRIBUTES), proto, message, {}).read(written)
    assert decoded.bad == []
    assert [tuple(row.values()) for row in as_numbers(decoded.tuples)] == ROWS


def test_nothing_is_written_for_no_rows():
    proto, message = compiled(ALL)
    assert len(Writer.of(schema(**ATTRIBUTES), proto, message).write(batch(ATTRIBUTES, ROWS).slice(0, 0))) == 0


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("int32", INT64), ("uint64", INT64), ("float", FLOAT64), ("string", INT64), ("repeated int64", INT64),
        ("int64", list_of(INT64)), ("int64", optional_of(INT64)), ("M", STRING), ("int64", TIMESTAMP),
        ("repeated int64", optional_of(list_of(INT64))), ("E", FLOAT64),
    ],
)  # fmt: skip
def test_a_field_that_would_lose_values_is_refused(kind, type_):
    proto, message = compiled(f"{P3}enum E {{ A = 0; }} message M {{ {kind} a = 1; }}")
    with pytest.raises(ProtobufError):
        check_writing(proto, message, ("a",), type_)


def test_a_generated_schema_holds_its_attributes():
    types = schema(**{name: type_ for name, type_ in ATTRIBUTES.items() if name != "w"})
    text = schema_of("a-topic-value", types)
    proto, message = compiled(text)
    assert message.name == "a_topic_value"
    for name, type_ in types:
        check_writing(proto, message, (name,), type_)


# ---- against Google's implementation ---------------------------------------------------------------------------------


def readable(proto, message):
    """The attributes of all fields that fit a type; one that is not set is null."""
    listed = []
    for one in message.fields:
        type_ = INT64 if kind_of(proto, one) == "duration" else GIVEN.get(kind_of(proto, one))
        if kind_of(proto, one) == "bytes":
            type_ = STRING
        if type_ is not None:
            listed.append((one.name, list_of(type_) if one.repeated else optional_of(type_)))
    return tuple(listed)


def same(one, other) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes() or (np.isnan(one) and np.isnan(other))
    return type(one) is type(other) and one == other


def random_case(number: int):
    random = Random(number)
    file = random_.schema(random, number)
    file.message_type[0].field.add(name="always", number=40, type=random_.TYPES.TYPE_STRING, label=1)
    kind = random_.message_class(file)
    content = base64.b64encode(file.SerializeToString()).decode()
    proto = parse(((file.name, content),))
    return random, kind, proto, proto.messages[f"r{number}.M"]


@pytest.mark.parametrize("number", range(CASES))
def test_random_messages_are_read_as_google_reads_them(number):
    random, kind, proto, message = random_case(number)
    messages = [kind() for _ in range(MESSAGES)]
    for one in messages:
        random_.fill(random, one)
    values = [one.SerializeToString() for one in messages]
    values += [a + b for a, b in zip(values, reversed(values), strict=True)]  # a merge of two messages
    attributes = readable(proto, message)
    decoded = Reader.of(attributes, proto, message, {}).read(pa.array(values, pa.binary()))
    assert decoded.bad == []
    fields = kind.DESCRIPTOR.fields_by_name
    for value, row in zip(values, as_numbers(decoded.tuples), strict=True):
        google = kind.FromString(value)
        for name, _ in attributes:
            meant = random_.expected(google, fields[name])
            assert same(row[name], meant), (name, fields[name].type, row[name], meant)


@pytest.mark.parametrize("number", range(CASES))
def test_random_tuples_are_read_by_google(number):
    random, kind, proto, message = random_case(number)
    attributes = []
    for name, type_ in readable(proto, message):
        for one in (type_, type_.present):
            try:
                check_writing(proto, message, (name,), one)
            except ProtobufError:
                continue
            attributes.append((name, one))
            break
    messages = [kind() for _ in range(MESSAGES)]
    for one in messages:
        random_.fill(random, one)
    reader = Reader.of(tuple(attributes), proto, message, {})
    decoded = reader.read(pa.array([one.SerializeToString() for one in messages], pa.binary()))
    written = Writer.of(tuple(attributes), proto, message).write(decoded.tuples)
    fields = kind.DESCRIPTOR.fields_by_name
    for row, value in zip(decoded.good.tolist(), written.to_pylist(), strict=True):
        for name, _ in attributes:
            meant = random_.expected(messages[row], fields[name])
            assert same(random_.expected(kind.FromString(value), fields[name]), meant), (name, fields[name].type)


@pytest.mark.parametrize("number", range(CASES))
def test_damaged_messages_are_read_as_google_reads_them_or_refused(number):
    random, kind, proto, message = random_case(number)
    attributes = readable(proto, message)
    values = [damaged(random, kind) for _ in range(4 * MESSAGES)]
    decoded = Reader.of(attributes, proto, message, {}).read(pa.array(values, pa.binary()))
    refused = dict(decoded.bad)
    assert len(refused) + len(decoded.good) == len(values)
    read = dict(zip(decoded.good.tolist(), as_numbers(decoded.tuples), strict=True))
    fields = kind.DESCRIPTOR.fields_by_name
    for row, value in enumerate(values):
        try:
            google = kind.FromString(value)
            meant = {name: random_.expected(google, fields[name]) for name, _ in attributes}
        except (DecodeError, random_.OutOfRangeError, UnicodeDecodeError):
            continue  # it may be read: messages without an attribute are not looked into
        if row in refused:
            assert refused[row].startswith(("wrong type", "not Protobuf: f")), (refused[row], value.hex(), google)
        else:
            assert all(same(read[row][name], meant[name]) for name in meant), (read[row], meant, value.hex())


def damaged(random, kind) -> bytes:
    one = kind()
    random_.fill(random, one)
    value = bytearray(one.SerializeToString())
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(value))
        match random.randint(0, 3):
            case 0:
                del value[place:]
            case 1:
                value[place:place] = random.randbytes(random.randint(1, 4))
            case 2:
                del value[place : place + random.randint(1, 4)]
            case _:
                value[place : place + 1] = random.choice([b"\xff", b"\x00", b"\x80", random.randbytes(1)])
    return bytes(value)


# ---- values with an inside -------------------------------------------------------------------------------------------

INSIDE = f"""{P3}
  message M {{
    message Item {{ string sku = 1; optional int64 n = 2; repeated string tags = 3; }}
    message Order {{ int64 id = 1; Item item = 2; repeated Item items = 3; map<string, Item> by = 4; bytes raw = 5; }}
    Order o = 1; map<string, int64> m = 2; repeated Order os = 3; bytes b = 4; map<int32, string> k = 5; }}"""
ITEM = "tuple<sku: string, n: int64?, tags: list<string>>"
ORDER = f"tuple<id: int64, item: {ITEM}?, items: list<{ITEM}>, by: map<string, {ITEM}>, raw: bytes>"


def item(sku, n=None, tags=()):
    return {"sku": sku, "n": n, "tags": list(tags)}


ORDERS = [
    {
        "id": 7,
        "item": item("a", 1, ["x"]),
        "items": [item("b"), item("c", 0)],
        "by": [("k", item("d"))],
        "raw": b"\xff",
    },
    {"id": 0, "item": None, "items": [], "by": [], "raw": b""},
]


def test_values_with_an_inside_are_written_and_read():
    types = {"o": f"{ORDER}?", "m": "map<string, int64>", "os": f"list<{ORDER}>", "b": "bytes"}
    rows_ = [
        (ORDERS[0], [("a", 1), ("b", 0)], ORDERS, b"\0"),
        (None, [], [], b""),
        (ORDERS[1], [("", -1)], ORDERS[1:], b"x"),
    ]
    tuples = batch(types, rows_)
    proto, message = compiled(INSIDE)
    written = Writer.of(schema(**types), proto, message).write(tuples)
    decoded = Reader.of(schema(**types), proto, message, {}).read(written)
    assert decoded.bad == []
    assert decoded.tuples.to_pylist() == tuples.to_pylist()
    sliced = Writer.of(schema(**types), proto, message).write(tuples.slice(1))
    assert sliced.to_pylist() == written.to_pylist()[1:]


def test_a_map_has_its_keys_in_order_and_the_last_entry_of_a_key():
    def entry(key, value):
        return sized(2, sized(1, key) + tag(2, 0) + varint(value))

    value = entry(b"b", 1) + entry(b"a", 2) + entry(b"b", 3) + sized(2, b"")
    assert rows(INSIDE, {"m": "map<string, int64>"}, value, b"") == [([("", 0), ("a", 2), ("b", 3)],), ([],)]


def test_members_of_a_message():
    order = sized(1, tag(1, 0) + b"\7" + sized(2, sized(1, b"a")) + sized(2, tag(2, 0) + b"\5"))
    type_ = {"o": "tuple<id: int64, item: tuple<sku: string, n: int64?>?, other: string?>"}
    merged = {"id": 7, "item": {"sku": "a", "n": 5}, "other": None}
    assert rows(INSIDE, type_, order, sized(1, b"")) == [(merged,), ({"id": 0, "item": None, "other": None},)]
    assert reason(INSIDE, {"o": "tuple<item: tuple<n: int64>>"}, sized(1, sized(2, b""))).startswith(
        "missing attribute: o"
    )
    assert reason(INSIDE, {"o": "tuple<item: tuple<sku: string>>"}, sized(1, b"")).startswith("missing attribute: o")
    assert rows(INSIDE, {"o": "tuple<item: tuple<n: int64>?>"}, sized(1, b"")) == [({"item": None},)]
    assert reason(INSIDE, {"o": "tuple<id: int64>"}, b"").startswith("missing attribute: o: expected tuple")


def test_a_message_as_a_list_element_that_lacks_a_member():
    value = sized(3, sized(2, tag(2, 0) + b"\1")) + sized(3, sized(2, b""))
    assert reason(INSIDE, {"os": "list<tuple<item: tuple<n: int64>>>"}, value).startswith("missing attribute: os")


def test_a_generated_schema_of_values_with_an_inside():
    types = schema(o=f"{ORDER}?", m="map<string, int64>", os=f"list<{ORDER}>", b="bytes", t="timestamp?")
    proto, message = compiled(schema_of("x", types))
    for name, type_ in types:
        check_writing(proto, message, (name,), type_)


@pytest.mark.parametrize("type_", ["list<list<int64>>", "list<int64?>", "map<timestamp, int64>", "map<string, int64?>"])
def test_a_type_that_protobuf_has_no_field_for(type_):
    with pytest.raises(ProtobufError, match=r"of a|as null in a"):
        _check_generated(type_)


def _check_generated(type_):
    proto, message = compiled(schema_of("x", schema(a=type_)))
    check_writing(proto, message, ("a",), parse_type(type_))


# ---- decimals and JSON -----------------------------------------------------------------------------------------------


def money(unscaled: int, scale: int) -> bytes:
    return sized(1, unscaled.to_bytes(4, "big", signed=True)) + tag(3, 0) + varint(scale)


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        ("string", sized(1, b"12.50"), "12.50"),
        ("string", sized(1, b"-0.5"), "-0.50"),
        ("int64", tag(1, 0) + b"\5", "5.00"),
        ("google.type.Decimal", sized(1, sized(1, b"1e1")), "10.00"),
        ("confluent.type.Decimal", sized(1, money(-1250, 2)), "-12.50"),
        ("optional string", b"", None),
        ("string", b"", None),
        ("confluent.type.Decimal", b"", None),
    ],
)
def test_a_decimal_is_read(kind, value, meant):
    ((read,),) = rows(f"{P3}message M {{ {kind} a = 1; }}", {"a": "decimal(2)?"}, value)
    assert (None if read is None else str(read)) == meant


@pytest.mark.parametrize(
    ("kind", "value", "got"),
    [
        ("string", sized(1, b"1.005"), '"1.005"'),
        ("string", b"", '""'),
        ("string", sized(1, b"x"), '"x"'),
        ("confluent.type.Decimal", sized(1, b"\xff"), "a damaged message"),
        ("confluent.type.Decimal", sized(1, money(1, 3)), '"1e-3"'),
        ("confluent.type.Decimal", sized(1, money(1, 2**31)), "a damaged message"),
    ],
)
def test_a_decimal_that_does_not_fit(kind, value, got):
    text = f"{P3}message M {{ {kind} a = 1; repeated {kind} b = 2; }}"
    good = sized(1, money(1, 2)) if kind.startswith("confluent") else sized(1, b"1")
    decoded = decode(text, {"a": "decimal(2)"}, good, value, good)
    assert decoded.bad == [(1, f"wrong type: a: expected decimal(2), got {got}")]
    assert decoded.good.tolist() == [0, 2]
    assert len(decoded.tuples) == 2


def test_a_wrong_decimal_in_a_list_rejects_its_record():
    text = f"{P3}message M {{ repeated string a = 1; }}"
    value = sized(1, b"1") + sized(1, b"x")
    decoded = decode(text, {"a": "list<decimal(2)>"}, b"", sized(1, b"2"), value)
    assert decoded.bad == [(2, 'wrong type: a: expected list<decimal(2)>, got "x"')]
    assert [list(map(str, row["a"])) for row in decoded.tuples.to_pylist()] == [[], ["2.00"]]


JSONS = f"""{P3} enum E {{ A = 0; B = 1; }}
  message M {{ google.protobuf.Struct s = 1; N n = 2; repeated google.protobuf.Value v = 3; }}
  message N {{ int64 i = 1; repeated sint32 r = 2; E e = 3; map<int32, N> m = 4; google.protobuf.Timestamp t = 5;
    bytes b = 6; double d = 7; google.protobuf.Int32Value w = 8; oneof o {{ string x = 9; bool y = 10; }} }}"""


def test_messages_as_json():
    one = sized(3, tag(2, 1) + b"\0\0\0\0\0\0\xf8\x3f")
    struct = sized(1, sized(1, b"a") + sized(2, one[2:])) + sized(1, sized(1, b"n") + sized(2, tag(1, 0) + b"\0"))
    inner = (
        tag(1, 0) + MINUS + sized(2, b"\1\2") + tag(3, 0) + b"\1" + sized(4, tag(1, 0) + b"\5" + sized(2, b""))
        + sized(5, b"\x08\1\x10" + varint(500_000_000)) + sized(6, b"\xff") + tag(7, 1) + b"\0\0\0\0\0\0\xf0\x7f"
        + sized(8, b"") + sized(9, b"x") + tag(10, 0) + b"\1"
    )  # fmt: skip
    types = {"s": "json?", "n": "json", "v": "list<json>"}
    ((s, n, v),) = rows(JSONS, types, sized(1, struct) + sized(2, inner) + one, name="M")
    assert s == '{"a":1.5,"n":null}'
    assert n == (
        '{"i":-1,"r":[-1,1],"e":"B","m":{"5":{}},"t":"1970-01-01T00:00:01.5Z","b":"/w==","d":"Infinity","w":0,"y":true}'
    )
    assert v == ["1.5"]


def test_a_message_that_is_no_json():
    assert (
        reason(JSONS, {"n": "json"}, sized(2, b"\x08"), name="M")
        == "wrong type: n: expected json, got a damaged message"
    )
    deep = b""
    for _ in range(200):
        deep = sized(4, sized(2, deep))
    assert reason(JSONS, {"n": "json"}, sized(2, deep), name="M").endswith("got a damaged message")


# ---- paths -----------------------------------------------------------------------------------------------------------


def members(**paths):
    return {name: Member(path) for name, path in paths.items()}


def test_attributes_at_paths_are_read_and_written():
    types = {"id": "int64", "sku": "string", "n": "int64?", "items": f"list<{ITEM}>", "m": "map<string, int64>"}
    paths = members(id=("o", "id"), sku=("o", "item", "sku"), n=("o", "item", "n"), items=("o", "items"))
    proto, message = compiled(INSIDE)
    tuples = batch(types, [(7, "a", None, [item("b", 1)], [("k", 1)]), (0, "", 0, [], [])])
    written = Writer.of(schema(**types), proto, message, paths).write(tuples)
    whole = Reader.of(schema(o=f"tuple<id: int64, item: {ITEM}>"), proto, message, {}).read(written)
    assert whole.tuples.to_pylist() == [{"o": {"id": 7, "item": item("a")}}, {"o": {"id": 0, "item": item("", 0)}}]
    decoded = Reader.of(schema(**types), proto, message, {}, paths).read(written)
    assert (decoded.tuples.to_pylist(), decoded.bad) == (tuples.to_pylist(), [])


def test_a_path_through_a_message_that_is_not_there():
    proto, message = compiled(INSIDE)
    types, paths = schema(id="int64", n="int64?"), members(id=("o", "id"), n=("o", "item", "n"))
    values = pa.array([b"", sized(1, b"")], pa.binary())
    decoded = Reader.of(types, proto, message, {}, paths).read(values)
    assert decoded.bad == [(0, "missing attribute: id: expected int64 at o.id, got nothing (at byte 0)")]
    assert decoded.tuples.to_pylist() == [{"id": 0, "n": None}]
    with_defaults = Reader.of(types, proto, message, {"id": 5, "n": 6}, paths).read(values)
    assert with_defaults.tuples.to_pylist() == [{"id": 5, "n": 6}, {"id": 0, "n": 6}]


PICKED = f"""{P3}
  message M {{
    message Quote {{ double price = 1; optional int64 size = 2; Venue venue = 3; repeated Quote more = 4; }}
    message Venue {{ string name = 1; }}
    map<string, string> tags = 1; map<string, Quote> quotes = 2; map<sint32, int64> sizes = 3; map<bool, string> b = 4;
    repeated Quote list = 5; repeated int64 n = 6; Outer o = 7;
    message Outer {{ map<string, google.protobuf.Int64Value> w = 1; }} }}"""


def entry(number, key, value):
    return sized(number, sized(1, key) + value)


def quote(price, *more):
    return tag(1, 1) + struct.pack("<d", price) + b"".join(more)


VALUES = [
    entry(1, b"env", sized(2, b"test")) + entry(1, b"price", sized(2, b"1.10")) + entry(1, b"env", sized(2, b"prod"))
    + entry(2, b"IBM", sized(2, quote(2.5, sized(3, sized(1, b"X")), sized(4, quote(7.5)), sized(4, b""))))
    + entry(2, b"SAP", b"") + sized(3, tag(1, 0) + b"\x01" + tag(2, 0) + b"\x09") + sized(4, b"\x08\x01\x12\x01y")
    + sized(5, quote(0.5)) + sized(5, quote(1.5, b"\x10\x03")) + sized(6, b"\x04\x05")
    + sized(7, entry(1, b"a", sized(2, b"\x08\x07"))),
    b"",
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "type_", "value"),
    [
        ("tags.env", "string", "prod"),
        ("tags.price", "decimal(2)", Decimal("1.10")),
        ("quotes.IBM.price", "float64", 2.5),
        ("quotes.IBM.size", "int64", None),
        ("quotes.IBM.venue.name", "string", "X"),
        ("quotes.IBM.more[0].price", "float64", 7.5),
        ("quotes.IBM.more[1].price", "float64", 0.0),
        ("quotes.IBM", "tuple<price: float64, size: int64?>", {"price": 2.5, "size": None}),
        ("quotes.SAP.price", "float64", 0.0),
        ("quotes.SAP.venue.name", "string", None),
        ('sizes["-1"]', "int64", 9),
        ('b["true"]', "string", "y"),
        ('b["false"]', "string", None),
        ("list[1].size", "int64", 3),
        ("list[2].price", "float64", None),
        ("n[1]", "int64", 5),
        ("n[2]", "int64", None),
        ("o.w.a", "int64", 7),
    ],
)
def test_a_path_through_a_map_or_a_list(path, type_, value):
    paths = members(x=member_path(path))
    optional = Reader.of(schema(x=f"{type_}?"), *compiled(PICKED), {}, paths).read(pa.array(VALUES, pa.binary()))
    assert (optional.tuples.to_pylist(), optional.bad) == ([{"x": value}, {"x": None}], [])
    check_reading(*compiled(PICKED), member_path(path), parse_type(type_))
    strict = Reader.of(schema(x=type_), *compiled(PICKED), {}, paths).read(pa.array(VALUES, pa.binary()))
    absent = f"missing attribute: x: expected {type_} at {text_of(member_path(path))}, got nothing"
    assert strict.tuples.to_pylist() == ([] if value is None else [{"x": value}])
    assert strict.bad == [(row, absent) for row in range(value is not None, 2)]


def test_attributes_of_one_map_differ_in_type_and_default():
    types = schema(
        price="decimal(2)", env="string", tags="map<string, string>", off="decimal(2)", all="list<int64>", n="int64"
    )
    paths = members(price=("tags", "price"), env=("tags", "env"), off=("tags", "off"), n=("n", 0), all=("n",))
    reader = Reader.of(types, *compiled(PICKED), {"off": Decimal("0.00"), "price": Decimal("9.00"), "n": 4}, paths)
    decoded = reader.read(pa.array([VALUES[0], entry(1, b"env", b"")], pa.binary()))
    assert decoded.bad == []
    assert [tuple(row.values()) for row in decoded.tuples.to_pylist()] == [
        (Decimal("1.10"), "prod", [("env", "prod"), ("price", "1.10")], Decimal("0.00"), [4, 5], 4),
        (Decimal("9.00"), "", [("env", "")], Decimal("0.00"), [], 4),
    ]


SHARED = """syntax = "proto2"; import "google/protobuf/wrappers.proto";
  message M {
    enum Kind { A = 1; B = 2; }
    message Pay { optional string card = 1; optional int64 cents = 2; }
    optional int64 n = 1 [default = 7]; optional Kind kind = 2 [default = B]; optional Pay pay = 3;
    repeated Pay list = 4; map<string, Pay> by = 5; repeated Kind kinds = 6;
    optional google.protobuf.Int64Value size = 7; }"""
PAY = sized(1, b"visa") + tag(2, 0) + b"\x0c"
#: ways to read the fields of SHARED: the path, the type, and the value in a record with all fields and in an empty one.
#: ...: the empty record is a dead letter
READINGS = [
    ("n", "int64", 3, 7), ("n", "int64?", 3, None), ("n", "float64?", 3.0, None),
    ("n", "decimal(2)", Decimal(3), Decimal(7)),
    ("kind", "string", "A", "B"), ("kind", "string?", "A", None), ("kind", "int64", 1, 2),
    ("pay", "json?", '{"card":"visa","cents":12}', None), ("pay", "tuple<cents: int64?>?", {"cents": 12}, None),
    ("pay", "tuple<card: string, cents: int64>?", {"card": "visa", "cents": 12}, None),
    ("pay.card", "string", "visa", ...), ("pay.cents", "int64", 12, ...), ("pay.cents", "float64?", 12.0, None),
    ("list", "list<json>", ['{"card":"visa","cents":12}'], []),
    ("list", "list<tuple<cents: int64>>", [{"cents": 12}], []),
    ("list[0].card", "string?", "visa", None), ("list[0].cents", "decimal(0)?", Decimal(12), None),
    ("by", "map<string, json>", [("k", '{"card":"visa","cents":12}')], []), ("by.k.cents", "int64?", 12, None),
    ("by", "map<string, tuple<card: string?>>", [("k", {"card": "visa"})], []), ("by.k.card", "string?", "visa", None),
    ("kinds", "list<string>", ["B"], []), ("kinds", "list<int64>", [2], []), ("kinds[0]", "string?", "B", None),
    ("size", "int64?", 5, None), ("size", "float64?", 5.0, None), ("size", "int64", 5, ...),
]  # fmt: skip


@pytest.mark.parametrize("first", range(len(READINGS)))
def test_attributes_that_read_one_field_in_different_ways_are_as_each_alone(first):
    full = (
        tag(1, 0) + b"\x03" + tag(2, 0) + b"\x01" + sized(3, PAY) + sized(4, PAY) + entry(5, b"k", sized(2, PAY))
        + tag(6, 0) + b"\x02" + sized(7, tag(1, 0) + b"\x05")
    )  # fmt: skip
    for second in [first, *range(len(READINGS))]:
        pair = {"x": READINGS[first], "y": READINGS[second]}
        types = schema(**{name: reading[1] for name, reading in pair.items()})
        paths = members(**{name: member_path(reading[0]) for name, reading in pair.items()})
        decoded = Reader.of(types, *compiled(SHARED), {}, paths).read(pa.array([full, b"", full], pa.binary()))
        in_full, in_empty = ({name: reading[at] for name, reading in pair.items()} for at in (2, 3))
        lacking = [name for name, value in in_empty.items() if value is ...]
        assert decoded.tuples.to_pylist() == ([in_full, in_full] if lacking else [in_full, in_empty, in_full])
        assert [(row, why.split(": expected")[0]) for row, why in decoded.bad] in (
            [[(1, f"missing attribute: {name}")] for name in lacking] or [[]]
        )


def test_the_default_of_one_of_two_attributes_of_a_field_is_not_that_of_the_other():
    types, paths = schema(x="int64", y="int64?", z="int64"), members(x=("pay", "cents"), y=("pay", "cents"), z=("n",))
    reader = Reader.of(types, *compiled(SHARED), {"x": 9}, paths)
    decoded = reader.read(pa.array([b"", sized(3, PAY)], pa.binary()))
    assert decoded.tuples.to_pylist() == [{"x": 9, "y": None, "z": 7}, {"x": 12, "y": 12, "z": 7}]


def test_a_wrong_value_of_an_entry_rejects_its_record_if_it_is_read():
    types, proto = schema(x="decimal(2)"), compiled(PICKED)
    decoded = Reader.of(types, *proto, {}, members(x=("tags", "env"))).read(pa.array(VALUES[:1], pa.binary()))
    assert decoded.bad == [(0, 'wrong type: x: expected decimal(2), got "prod"')]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (("o", "x"), "a field o.x"),
        (("m", 0), 'a key of m, such as m["x"] (string)'),
        (("k", "x"), 'a key of k, such as k["x"] (int64)'),
        (("b", 0), "a message b, which is bytes"),
        (("os", "id"), "os[0], as os is repeated M.Order"),
        (("os", 0, "x"), "a field os[0].x"),
        (("b", "x"), "a message b, which is bytes"),
    ],
)
def test_a_path_that_leads_nowhere(path, why):
    with pytest.raises(ProtobufError) as error:
        check_reading(*compiled(INSIDE), path, INT64)
    assert str(error.value) == why
