"""Unions of several types as structs of their branches, and values as JSON; fastavro is the other hand (AV1 to AV6)."""

from __future__ import annotations

import base64
import io
import json
import math

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.json_columns import column, json_values
from sluice.model.avro_schema import AvroError, attributes_of, check_reading, check_writing, parse
from sluice.model.types import parse_type
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer

CREATED = {"type": "record", "name": "shop.Created", "fields": [{"name": "id", "type": "long"}]}
DELETED = {
    "type": "record", "name": "shop.Deleted", "fields": [
        {"name": "id", "type": "long"}, {"name": "why", "type": ["null", "string"]},
    ],
}  # fmt: skip
SIDE = {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}
HASH = {"type": "fixed", "name": "Hash", "size": 2}
NODE = {
    "type": "record", "name": "Node", "fields": [
        {"name": "v", "type": "long"}, {"name": "next", "type": ["null", "Node"]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip


def record(**fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type_} for name, type_ in fields.items()]}


def written(schema, *values):
    parsed, data = fastavro.parse_schema(json.loads(json.dumps(schema))), []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        data.append(out.getvalue())
    return pa.array(data, pa.binary())


def decode(schema, values, *, own=None, **types):
    """The attributes of each record as JSON, and the reasons of bad ones."""
    kinds = tuple((name, parse_type(text)) for name, text in types.items())
    reader = Reader.of(kinds, parse(json.dumps(schema)), parse(json.dumps(own)) if own else None, {})
    decoded = reader.read(values)
    columns = [json_values(decoded.tuples.column(at), kind) for at, (_, kind) in enumerate(kinds)]
    return [dict(zip(types, row, strict=True)) for row in zip(*columns, strict=True)], dict(decoded.bad)


def encode(schema, *values, **types):
    """What fastavro reads of tuples with these values, and the reasons of those that are not written."""
    kinds = tuple((name, parse_type(text)) for name, text in types.items())
    columns = [column([value[name] for value in values], kind) for name, kind in kinds]
    tuples = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(kinds))
    avro = parse(json.dumps(schema))
    for name, kind in kinds:
        check_writing(avro, name, kind)
    writer = Writer.of(kinds, json.dumps(schema))
    refused = writer.refused(tuples)
    kept = tuples.filter(pa.array([row not in refused for row in range(len(values))]))
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    return [
        fastavro.schemaless_reader(io.BytesIO(data), parsed, None) for data in writer.write(kept).to_pylist()
    ], refused


# ---- a union as a struct ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "attribute"),
    [
        (["null", "double"], "float64?"),
        (["double", "null"], "float64?"),
        (["int", "string"], "tuple<int: int64?, string: string?>"),
        (["null", CREATED, DELETED],
         "tuple<Created: tuple<id: int64>?, Deleted: tuple<id: int64, why: string?>?>?"),
        ([SIDE, HASH, {"type": "array", "items": "int"}], "tuple<Side: string?, Hash: bytes?, array: list<int64>?>"),
        ([{**CREATED, "name": "a.E"}, {**CREATED, "name": "b.E"}],
         "tuple<a_E: tuple<id: int64>?, b_E: tuple<id: int64>?>"),
        ({"type": "array", "items": ["null", "int", "string"]}, "list<tuple<int: int64?, string: string?>?>"),
        (NODE, "tuple<v: int64, next: json?, tags: map<string, string>>"),
    ],
)  # fmt: skip
def test_the_attribute_of_a_field(type_, attribute):
    ((_, kind),) = attributes_of(parse(json.dumps(record(a=type_))))
    assert str(kind) == attribute


EVENTS = "tuple<Created: tuple<id: int64>?, Deleted: tuple<id: int64, why: string?>?>?"


def test_the_member_of_the_branch_is_there_and_the_others_are_null():
    schema = record(a=["null", CREATED, DELETED])
    values = written(
        schema, {"a": ("shop.Created", {"id": 1})}, {"a": ("shop.Deleted", {"id": 2, "why": "x"})}, {"a": None}
    )
    assert decode(schema, values, a=EVENTS) == (
        [
            {"a": {"Created": {"id": 1}, "Deleted": None}},
            {"a": {"Created": None, "Deleted": {"id": 2, "why": "x"}}},
            {"a": None},
        ],
        {},
    )


def test_a_branch_without_a_member_leaves_all_members_null():
    schema = record(a=[CREATED, DELETED, "string"])
    values = written(schema, {"a": "x"}, {"a": ("shop.Deleted", {"id": 2, "why": None})})
    assert decode(schema, values, a="tuple<Created: tuple<id: int64>?>") == ([{"a": {"Created": None}}] * 2, {})


def test_records_of_a_union_are_still_read_by_the_fields_that_they_share():
    schema = record(a=[CREATED, DELETED])
    values = written(schema, {"a": ("shop.Created", {"id": 1})}, {"a": ("shop.Deleted", {"id": 2, "why": "x"})})
    assert decode(schema, values, a="tuple<id: int64>")[0] == [{"a": {"id": 1}}, {"a": {"id": 2}}]


def test_null_is_a_dead_letter_for_a_struct_that_is_not_optional():
    schema = record(a=["null", "int", "string"])
    rows, bad = decode(schema, written(schema, {"a": None}, {"a": "x"}), a="tuple<int: int64?, string: string?>")
    assert rows == [{"a": {"int": None, "string": "x"}}]
    assert bad[0].startswith("null attribute: a")


def test_a_topic_whose_union_grows():
    """A branch alone, then two, then three: each record is read by the schema with which it was written."""
    schemas = [record(a=CREATED), record(a=[CREATED, "string"]), record(a=["null", "string", DELETED, CREATED])]
    values = [{"a": {"id": 1}}, {"a": "x"}, {"a": ("shop.Deleted", {"id": 3, "why": None})}]
    kind = "tuple<Created: tuple<id: int64>?, Deleted: tuple<id: int64, why: string?>?, string: string?>?"
    read = [
        decode(schema, written(schema, value), a=kind)[0][0]["a"] for schema, value in zip(schemas, values, strict=True)
    ]
    assert read == [
        {"Created": {"id": 1}, "Deleted": None, "string": None},
        {"Created": None, "Deleted": None, "string": "x"},
        {"Created": None, "Deleted": {"id": 3, "why": None}, "string": None},
    ]


def test_a_readers_union_is_resolved_as_fastavro_resolves_it():
    moved = {**DELETED, "name": "shop.Removed", "aliases": ["Deleted"]}
    own = record(a=[moved, "double", CREATED, "null", {**SIDE, "symbols": ["NONE", "BUY"], "default": "NONE"}])
    writer = record(a=["null", CREATED, DELETED, "int", SIDE])
    values = [
        {"a": ("shop.Created", {"id": 1})}, {"a": ("shop.Deleted", {"id": 2, "why": "x"})}, {"a": 7}, {"a": None},
        {"a": "SELL"},
    ]  # fmt: skip
    data = written(writer, *values)
    theirs = [
        fastavro.schemaless_reader(io.BytesIO(one), fastavro.parse_schema(json.loads(json.dumps(writer))),
                                   fastavro.parse_schema(json.loads(json.dumps(own))), return_record_name=True)["a"]
        for one in data.to_pylist()
    ]  # fmt: skip
    kind = (
        "tuple<Removed: tuple<id: int64, why: string?>?, double: float64?, Created: tuple<id: int64>?, Side: string?>?"
    )
    rows, bad = decode(writer, data, own=own, a=f"{kind}?")
    assert not bad
    for row, value in zip(rows, theirs, strict=True):
        there = {name: one for name, one in (row["a"] or {}).items() if one is not None}
        match value:
            case (name, fields):
                assert there == {name.rpartition(".")[2]: fields}
            case None:
                assert row["a"] is None
            case _:
                assert list(there.values()) == [value]


def test_a_branch_that_the_readers_union_lacks_is_a_dead_letter():
    rows, bad = decode(
        record(a=["int", "string"]), written(record(a=["int", "string"]), {"a": 1}, {"a": "x"}),
        own=record(a=["long", "boolean"]), a="tuple<long: int64?, boolean: boolean?>",
    )  # fmt: skip
    assert rows == [{"a": {"long": 1, "boolean": None}}]
    assert bad[1].startswith("wrong type: a")


def test_the_default_of_a_field_that_is_a_union():
    own = record(n="int", a=["string", CREATED, "int"])
    own["fields"][1]["default"] = "none"
    rows, _ = decode(
        record(n="int"), written(record(n="int"), {"n": 1}), own=own, a="tuple<string: string?, int: int64?>"
    )
    assert rows == [{"a": {"string": "none", "int": None}}]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("tuple<Created: tuple<id: int64>?, Changed: int64?>", "a branch Changed, of Created, string"),
        ("tuple<Created: tuple<id: string>?>", "string, which long does not give"),
        ("tuple<Created: int64?>", "which record does not give"),
        ("tuple<Created: tuple<id: int64>>", "a field Created"),
    ],
)
def test_what_check_refuses(kind, fault):
    avro = parse(json.dumps(record(a=[CREATED, "string"])))
    with pytest.raises(AvroError, match=fault):
        check_reading(avro, avro, "a", parse_type(kind), has_default=False)


# ---- random unions ---------------------------------------------------------------------------------------------------

BRANCHES = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "double": ("double", st.floats(allow_nan=False)),
    "string": ("string", st.text(max_size=5)),
    "bytes": ("bytes", st.binary(max_size=5)),
    "Side": (SIDE, st.sampled_from(["BUY", "SELL"])),
    "Created": (CREATED, st.fixed_dictionaries({"id": st.integers(-9, 9)})),
    "Deleted": (DELETED, st.fixed_dictionaries({"id": st.integers(0, 9), "why": st.none() | st.text(max_size=3)})),
    "array": ({"type": "array", "items": ["null", "long"]}, st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "map": ({"type": "map", "values": "long"}, st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=3)),
}


@st.composite
def unions(draw):
    """A union of branches in any order, and values of it with the names of their branches."""
    names = draw(st.lists(st.sampled_from(sorted(BRANCHES)), min_size=2, max_size=6, unique=True))
    picked = draw(st.lists(st.sampled_from(names), min_size=1, max_size=8))
    return [BRANCHES[name][0] for name in names], [(name, draw(BRANCHES[name][1])) for name in picked]


def _bytes_of(schema, names, name, value):
    """fastavro guesses the branch of most values, so the number of the branch is put in front by hand."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", names.index(name))
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def _short(schema):
    name = schema if isinstance(schema, str) else schema.get("name", schema["type"])
    return name.rpartition(".")[2]


#: what JSON has for infinite numbers
INFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(unions())
def test_random_unions_are_read_and_written_as_fastavro_writes_them(drawn):
    schemas, values = drawn
    names = list(map(_short, schemas))
    schema = record(a=schemas)
    data = [_bytes_of(schemas[names.index(name)], names, name, value) for name, value in values]
    ((_, kind),) = attributes_of(parse(json.dumps(schema)))
    rows, bad = decode(schema, pa.array(data, pa.binary()), a=str(kind))
    assert not bad
    single = len([name for name in names if name != "null"]) == 1
    for row, (name, value) in zip(rows, values, strict=True):
        meant = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        meant = INFINITE.get(value, value) if isinstance(value, float) else meant
        there = row["a"] if single or row["a"] is None else row["a"][name]
        assert there == (None if name == "null" else meant)
        assert single or row["a"] is None or [n for n, one in row["a"].items() if one is not None] == [name]
    kinds = (("a", kind),)
    avro = Reader.of(kinds, parse(json.dumps(schema)), None, {}).read(pa.array(data, pa.binary())).tuples
    writer = Writer.of(kinds, json.dumps(schema))
    assert writer.refused(avro) == {}
    if all(name != "map" or len(value) < 2 for name, value in values):  # the entries of maps are sorted
        assert writer.write(avro).to_pylist() == data


# ---- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("union", [["null", CREATED, DELETED], [CREATED, "null", DELETED], [CREATED, DELETED, "null"]])
def test_a_struct_of_branches_is_written_as_the_member_that_is_there(union):
    """A struct without a member is null, whichever branch of the union null is."""
    schema = record(a=union)
    values = [
        {"a": {"Created": {"id": 1}, "Deleted": None}}, {"a": {"Created": None, "Deleted": {"id": 2, "why": None}}},
        {"a": None}, {"a": {"Created": None, "Deleted": None}},
        {"a": {"Created": {"id": 1}, "Deleted": {"id": 2, "why": None}}},
    ]  # fmt: skip
    read, refused = encode(schema, *values, a=EVENTS)
    assert read == [{"a": {"id": 1}}, {"a": {"id": 2, "why": None}}, {"a": None}, {"a": None}]
    assert list(refused) == [4]
    branches = " or ".join("null" if branch == "null" else "record" for branch in union)
    assert refused[4].startswith(f'wrong type: a: expected a value of {branches} of the schema, got {{"Cre')


def test_no_member_is_refused_where_the_union_has_no_null():
    values = [{"a": {"long": None, "string": "x"}}, {"a": {"long": None, "string": None}}]
    read, refused = encode(record(a=["long", "string"]), *values, a="tuple<long: int64?, string: string?>")
    assert (read, list(refused)) == ([{"a": "x"}], [1])


def test_enums_and_fixed_are_written_if_they_have_the_value():
    schema = record(s=SIDE, h=HASH, l={"type": "array", "items": "Side"}, o=["null", "Side"])
    values = [
        {"s": "BUY", "h": "AAE=", "l": ["SELL", "BUY"], "o": None}, {"s": "X", "h": "AAE=", "l": [], "o": None},
        {"s": "BUY", "h": "AA==", "l": [], "o": "SELL"}, {"s": "BUY", "h": "AAE=", "l": ["BUY", "Y"], "o": "BUY"},
        {"s": "SELL", "h": "/wA=", "l": [], "o": "SELL"}, {"s": "SELL", "h": "/wA=", "l": [], "o": "Z"},
    ]  # fmt: skip
    read, refused = encode(schema, *values, s="string", h="bytes", l="list<string>", o="string?")
    assert read == [
        {"s": "BUY", "h": b"\0\1", "l": ["SELL", "BUY"], "o": None},
        {"s": "SELL", "h": b"\xff\0", "l": [], "o": "SELL"},
    ]  # fmt: skip
    assert refused == {
        1: 'wrong type: s: expected a value of enum of the schema, got "X"',
        2: 'wrong type: h: expected a value of fixed of the schema, got "AA=="',
        3: 'wrong type: l: expected a value of array of the schema, got ["BUY","Y"]',
        5: 'wrong type: o: expected a value of null or enum of the schema, got "Z"',
    }


def test_a_string_is_written_as_a_string_if_the_union_has_both():
    assert encode(record(a=[SIDE, "string"]), {"a": "BUY"}, a="string")[0] == [{"a": "BUY"}]
    avro = parse(json.dumps(record(a=["long", SIDE])))
    with pytest.raises(AvroError, match="a branch string, of long, Side"):
        check_writing(avro, "a", parse_type("tuple<long: int64?, string: string?>"))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_a_record_inside_of_itself_is_json():
    schema = record(tree=["null", NODE], n="int")
    tree = {"v": 1, "next": {"v": 2, "next": None, "tags": {}}, "tags": {"a": "b"}}
    rows, bad = decode(schema, written(schema, {"tree": tree, "n": 5}, {"tree": None, "n": 6}), tree="json?", n="int64")
    assert not bad
    assert [(json.loads(json.dumps(row["tree"])), row["n"]) for row in rows] == [(tree, 5), (None, 6)]


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("string", "x", '"x"'), ("string", '{"a": 1}', '{"a": 1}'), ("double", math.inf, '"Infinity"'),
        ("long", 7, "7"), (SIDE, "SELL", '"SELL"'), (HASH, b"\0\1", '"AAE="'), ("boolean", True, "true"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, None, None),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, '"1970-01-01T00:00:01.5Z"'),
        ({"type": "int", "logicalType": "date"}, 1, '"1970-01-02"'),
        (["null", "int", "string"], 3, "3"), (["null", "int", "string"], "x", '"x"'),
        ({"type": "map", "values": ["null", "double"]}, {"a": 0.5, "b": None}, '{"a":0.5,"b":null}'),
        ({"type": "array", "items": "null"}, [None, None], "[null,null]"),
    ],
)  # fmt: skip
def test_any_value_is_read_as_json(type_, value, text):
    schema = record(a=type_, z="int")
    if text is None:
        data = pa.array([b"\x02\xfb" + b"\x0e"], pa.binary())  # -5 with two digits behind the point
        text = "-0.05"
    else:
        data = written(schema, {"a": value, "z": 7})
    reader = Reader.of((("a", parse_type("json")), ("z", parse_type("int64"))), parse(json.dumps(schema)), None, {})
    decoded = reader.read(data)
    assert (decoded.tuples.to_pylist(), decoded.bad) == ([{"a": text, "z": 7}], [])


def test_json_that_is_nested_too_deeply_is_a_dead_letter():
    schema = record(tree=NODE)
    tree = {"v": 0, "next": None, "tags": {}}
    for v in range(60):
        tree = {"v": v, "next": tree, "tags": {}}
    rows, bad = decode(
        schema, written(schema, {"tree": tree}, {"tree": {"v": 1, "next": None, "tags": {}}}), tree="json"
    )
    assert [row["tree"]["v"] for row in rows] == [1]
    assert bad == {0: "wrong type: tree: expected json, got a value nested too deeply or a time without date"}


def test_an_array_of_values_without_bytes_is_bounded():
    schema = record(a={"type": "array", "items": "null"})
    rows, bad = decode(schema, pa.array([b"\x80\x80\x80\x80\x10\x00"], pa.binary()), a="json")
    assert (rows, list(bad)) == ([], [0])
