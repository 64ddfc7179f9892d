"""Maps that records of Avro and Protobuf have as lists of keys and values (PA17)."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest

from sluice.model.members import Member, Pairs, Spelling
from sluice.model.spec import Coding
from sluice.model.types import parse_type
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.pair_lists import PairsError, as_lists
from sluice.wire.formats.protobuf_format import ProtobufOptions

AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "n", "type": "long"},
        {"name": "attrs", "type": ["null", {"type": "array", "items": {"type": "record", "name": "Entry", "fields": [
            {"name": "key", "type": "string"},
            {"name": "value", "type": ["null", {"type": "record", "name": "Any", "fields": [
                {"name": "text", "type": ["null", "string"]}, {"name": "other", "type": ["null", "string"]},
            ]}]},
        ]}}]},
    ],
}  # fmt: skip
PROTO = """
syntax = "proto3";
message R { int64 n = 1; repeated Entry attrs = 2; }
message Entry { string key = 1; Any value = 2; }
message Any { oneof kind { string text = 1; string other = 2; int64 number = 3; } }
"""
PAIRS = Pairs(("key",), (("value", "text"), ("value", "other")))
#: the entries of a record, and the maps that are read: of values that are there, and of optional ones
CASES = [
    ([], {}, {}),
    ([("env", {"text": "prod"})], {"env": "prod"}, {"env": "prod"}),
    ([("b", {"other": "x"}), ("a", {"text": "y"})], {"a": "y", "b": "x"}, {"a": "y", "b": "x"}),
    ([("a", {"text": "1"}), ("a", {"text": "2"})], {"a": "2"}, {"a": "2"}),
    ([("a", {}), ("b", {"text": "x"})], {"b": "x"}, {"a": None, "b": "x"}),
    ([("a", None)], {}, {"a": None}),
]  # fmt: skip


def avro(entries):
    out = io.BytesIO()
    items = entries and [
        {"key": key, "value": value if value is None else {"text": None, "other": None} | value}
        for key, value in entries
    ]
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"n": 1, "attrs": items})
    return out.getvalue()


def field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def protobuf(entries):
    numbers = {"text": 1, "other": 2}

    def message(value):
        return b"".join(field(numbers[name], text.encode()) for name, text in value.items())

    items = [field(1, key.encode()) + (b"" if value is None else field(2, message(value))) for key, value in entries]
    return b"\x08\x01" + b"".join(field(2, item) for item in items)


CODINGS = {
    "avro": (Coding("avro", AvroOptions(avro_schema=json.dumps(AVRO))), avro),
    "protobuf": (Coding("protobuf", ProtobufOptions("R", (("r.proto", PROTO),))), protobuf),
}


def part(format_, type_, defaults=None):
    schema = (("n", parse_type("int64")), ("attrs", parse_type(type_)))
    members = {"attrs": Member(spelling=Spelling(pairs=PAIRS))}
    return Part(CODINGS[format_][0], schema, defaults or {}, "s", members=members)


@pytest.mark.parametrize("type_", ["map<string, string>", "map<string, string?>"])
@pytest.mark.parametrize("format_", CODINGS)
def test_a_map_is_read_from_a_list_of_pairs(format_, type_):
    records = pa.array([CODINGS[format_][1](entries) for entries, _, _ in CASES], pa.binary())
    decoded = codec(part(format_, type_)).decode(records)
    expected = [nulls if "?" in type_ else present for _, present, nulls in CASES]
    assert decoded.bad == []
    assert list(map(dict, decoded.tuples.column("attrs").to_pylist())) == expected
    assert decoded.tuples.column("n").to_pylist() == [1] * len(CASES)


@pytest.mark.parametrize(
    ("type_", "defaults", "expected"),
    [
        ("map<string, string>?", {}, [[("a", "x")], None]),
        ("map<string, string>", {"attrs": (("d", "e"),)}, [[("a", "x")], [("d", "e")]]),
    ],
)
def test_a_list_that_is_null(type_, defaults, expected):
    records = pa.array([avro([("a", {"text": "x"})]), avro(None)], pa.binary())
    decoded = codec(part("avro", type_, defaults)).decode(records)
    assert (decoded.tuples.column("attrs").to_pylist(), decoded.bad) == (expected, [])


def test_the_reason_of_a_dead_letter_names_the_type_of_the_map():
    decoded = codec(part("avro", "map<string, string>")).decode(pa.array([avro(None)], pa.binary()))
    assert decoded.bad == [(0, "null attribute: attrs: expected map<string, string>, got null")]


@pytest.mark.parametrize("paths", [(("value",), ("value", "text")), (("value", 0),), (("key",),), ((),)])
def test_the_paths_are_those_of_a_struct(paths):
    given = part("avro", "map<string, string>")
    members = {"attrs": Member(spelling=Spelling(pairs=Pairs(("key",), paths)))}
    with pytest.raises(PairsError, match="paths of names that do not lead through each other"):
        as_lists(Part(given.coding, given.schema, members=members))
