"""Attributes of Avro at paths: through records, unions with null and arrays; nested records of outputs."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.syntax.member_path import member_path
from sluice.model.avro_schema import AvroError, check_reading, check_writing, missing, parse, schema_of
from sluice.model.members import Member
from sluice.model.types import FLOAT64, INT64, STRING, parse_type
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer
from tests.unit.wire.avro.test_avro import written


def record(title, /, **fields):
    listed = [{"name": key, "type": kind} if not isinstance(kind, tuple) else
              {"name": key, "type": kind[0], "default": kind[1]} for key, kind in fields.items()]  # fmt: skip
    return {"type": "record", "name": title, "fields": listed}


def members(paths):
    return {name: Member(member_path(path)) for name, path in paths.items()}


ROW = record("Row", id="long", name=["null", "string"], tags={"type": "array", "items": "string"})
EVENT = record(
    "Event", op="string", before=["null", ROW], after=["null", "Row"],
    items={"type": "array", "items": record("Item", price="double", size=["null", "int"])},
    tags=({"type": "map", "values": ["null", "string"]}, {}), quotes=({"type": "map", "values": "Item"}, {}),
)  # fmt: skip


def event(**given):
    row = {"id": 7, "name": "Ann", "tags": ["x", "y"]}
    return {"op": "c", "before": None, "after": row, "items": [{"price": 1.5, "size": 3}],
            "tags": {"zone": "a", "env": "prod", "": "none", "off": None}, "quotes": {"IBM": {"price": 2.5, "size": 4}},
            **given}  # fmt: skip


def read(path, type_, value, *, writer=EVENT, own=None, defaults=None):
    """The value of attribute `a`, or the reason why the record is a dead letter."""
    schema = (("a", parse_type(type_)),)
    reader = Reader.of(schema, parse(json.dumps(writer)), parse(json.dumps(own)) if own else None, defaults or {},
                       members({"a": path}))  # fmt: skip
    decoded = reader.read(written(writer, value))
    return decoded.bad[0][1] if decoded.bad else decoded.tuples.column(0)[0].as_py()


@pytest.mark.parametrize(
    ("path", "type_", "value", "expected"),
    [
        ("op", "string", event(), "c"),
        ("after.id", "int64", event(), 7),
        ("after.name", "string", event(), "Ann"),
        ("after.tags", "list<string>", event(), ["x", "y"]),
        ("after.tags[1]", "string", event(), "y"),
        ("items[0].price", "float64", event(), 1.5),
        ("items[2].size", "int64", event(items=[{"price": 0.0, "size": number} for number in range(5)]), 2),
        ("tags.env", "string", event(), "prod"),
        ('tags[""]', "string", event(), "none"),
        ("quotes.IBM.price", "float64", event(), 2.5),
        ("tags.env", "string?", event(tags={"e": "x", "envy": "y"}), None),
    ],
)
def test_a_path_leads_to_the_value(path: str, type_: str, value: dict, expected: object):
    assert read(path, type_, value) == expected


ABSENT = "missing attribute: a: expected {}, got nothing: a part on the way is absent or another type"


@pytest.mark.parametrize(
    ("path", "type_", "value", "reason"),
    [
        ("before.id", "int64", event(), ABSENT.format("int64 at before.id")),
        ("items[1].price", "float64", event(), ABSENT.format("float64 at items[1].price")),
        ("tags.en", "string", event(), ABSENT.format("string at tags.en")),
        ("quotes.SAP.price", "float64", event(), ABSENT.format("float64 at quotes.SAP.price")),
        ("tags.off", "string", event(), "null attribute: a: expected string at tags.off, got null"),
        ("items[0].price", "float64", event(items=[]), ABSENT.format("float64 at items[0].price")),
        ("after.name", "string", event(after={"id": 1, "name": None, "tags": []}),
         "null attribute: a: expected string at after.name, got null"),
    ],
)  # fmt: skip
def test_a_record_without_the_value_is_a_dead_letter_that_names_the_path(path, type_, value, reason):
    assert read(path, type_, value) == reason


def test_a_default_replaces_a_value_that_is_missing_or_null():
    assert read("before.id", "int64", event(), defaults={"a": 5}) == 5
    assert read("items[3].size", "int64", event(), defaults={"a": 5}) == 5
    assert read("tags.off", "string", event(), defaults={"a": "on"}) == "on"
    assert read("tags.none", "string", event(), defaults={"a": "on"}) == "on"
    assert read("items[0].size", "int64", event(items=[{"price": 0.0, "size": None}]), defaults={"a": 5}) == 5


def test_an_optional_attribute_is_null_if_its_path_finds_nothing():
    assert [read(path, "int64?", event()) for path in ("before.id", "after.id", "items[3].size")] == [None, 7, None]


def test_an_array_in_several_blocks_is_one_list():
    """Writers may end a block of an array anywhere, with its size in bytes in front or without."""
    schema, writer = (("a", INT64), ("b", INT64)), {"type": "array", "items": "long"}
    reader = Reader.of(schema, parse(json.dumps(record("R", x=writer))), None, {}, members({"a": "x[1]", "b": "x[3]"}))
    blocks = b"\x04\x02\x04" + b"\x03\x04\x06\x08" + b"\x02\x0a" + b"\x00"  # [1, 2], then [3, 4] of two bytes, then [5]
    assert reader.read(pa.array([blocks], pa.binary())).tuples.to_pylist() == [{"a": 2, "b": 4}]


def test_several_attributes_of_one_value_and_of_values_in_it():
    schema = (("one", INT64), ("tags", parse_type("list<string>")), ("first", STRING), ("two", INT64))
    paths = {"one": "after.id", "tags": "after.tags", "first": "after.tags[0]", "two": "after.id"}
    reader = Reader.of(schema, parse(json.dumps(EVENT)), None, {}, members(paths))
    rows = reader.read(written(EVENT, event(), event(), event(after=None))).tuples.to_pylist()
    assert rows == [{"one": 7, "tags": ["x", "y"], "first": "x", "two": 7}] * 2


def test_the_last_entry_of_a_key_counts_in_whatever_block_it_stands():
    entries = b"\x02\x02a\x02" + b"\x03\x0c\x02b\x04\x02a\x06" + b"\x00"  # {a: 1}, then {b: 2, a: 3} of 6 bytes
    schema, writer = (("a", INT64), ("b", INT64)), record("R", x={"type": "map", "values": "long"})
    reader = Reader.of(schema, parse(json.dumps(writer)), None, {}, members({"a": "x.a", "b": "x.b"}))
    assert reader.read(pa.array([entries], pa.binary())).tuples.to_pylist() == [{"a": 3, "b": 2}]


def test_a_schema_that_is_newer_than_the_records():
    old, new = record("R", x=record("X", a="int")), record("R", x=record("X", a="long", b=("string", "new")))
    assert read("x.a", "int64", {"x": {"a": 7}}, writer=old, own=new) == 7
    assert read("x.b", "string", {"x": {"a": 7}}, writer=old, own=new) == "new"
    whole = record("R", y=(record("Y", b=("long", 8)), {"b": 9}))
    assert read("y.b", "int64", {}, writer=record("R"), own=whole) == 9
    counts = record("R", y=({"type": "map", "values": "long"}, {"b": 9}))
    assert read("y.b", "int64", {}, writer=record("R"), own=counts) == 9
    assert (
        read("y.b", "int64", {"y": {"b": 7}}, writer=record("R", y={"type": "map", "values": "int"}), own=counts) == 7
    )


@pytest.mark.parametrize(
    ("path", "type_", "fault"),
    [
        ("after.nam", STRING, "a field nam"),
        ("op.x", STRING, "a record or a map at op, where string is"),
        ("after[0]", STRING, "an array at after, where null or record is"),
        ("items.price", FLOAT64, "a record or a map at items, where array is"),
        ("after.id", STRING, "string, which long does not give"),
        ("tags.env", INT64, "int64, which null or string does not give"),
        ("quotes.IBM.prize", FLOAT64, "a field prize"),
    ],
)
def test_check_compares_a_path_with_the_schema(path, type_, fault):
    avro = parse(json.dumps(EVENT))
    with pytest.raises(AvroError, match=f"^{fault}"):
        check_reading(avro, avro, "a", type_, has_default=False, path=member_path(path))


def test_objects_are_written_as_records():
    schema = (("id", INT64), ("name", STRING), ("total", FLOAT64))
    paths = members({"id": "customer.id", "name": "customer.name"})
    text = schema_of("orders-value", schema, paths)
    batch = pa.RecordBatch.from_pydict({"id": [7, 8], "name": ["Ann", "Ben"], "total": [0.5, 1.0]})
    values = Writer.of(schema, text, paths).write(batch).to_pylist()
    parsed = fastavro.parse_schema(json.loads(text))
    assert [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values] == [
        {"customer": {"id": 7, "name": "Ann"}, "total": 0.5},
        {"customer": {"id": 8, "name": "Ben"}, "total": 1.0},
    ]


def test_a_record_in_a_union_is_written_with_the_defaults_of_other_fields():
    given = record("R", total="double", customer=["null", record("C", id="long", kind=("string", "plain"))])
    schema, paths = (("id", INT64), ("total", FLOAT64)), members({"id": "customer.id"})
    avro = parse(json.dumps(given))
    for name, type_ in schema:
        check_writing(avro, name, type_, paths[name].path if name in paths else None)
    assert missing(avro, [("customer", "id")]) == ["total"]
    assert missing(avro, [("total",), ("customer", "kind")]) == ["customer.id"]
    values = Writer.of(schema, json.dumps(given), paths).write(pa.RecordBatch.from_pydict({"id": [7], "total": [0.5]}))
    assert fastavro.schemaless_reader(io.BytesIO(values[0].as_py()), fastavro.parse_schema(given), None) == {
        "total": 0.5,
        "customer": {"id": 7, "kind": "plain"},
    }


# ---- random records --------------------------------------------------------------------------------------------------

SHAPES = st.recursive(
    st.sampled_from(["long", "string"]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        inner.map(lambda item: [item]),
        inner.map(lambda shape: ("null", shape)),
        inner.map(lambda shape: ("map", shape)),
    ),
    max_leaves=6,
)


def avro_of(shape, names):
    match shape:
        case dict():
            return record(f"R{next(names)}", **{name: avro_of(inner, names) for name, inner in shape.items()})
        case list():
            return {"type": "array", "items": avro_of(shape[0], names)}
        case ("map", inner):
            return {"type": "map", "values": avro_of(inner, names)}
        case (_, ("null", _) as inner):
            return avro_of(inner, names)
        case (_, inner):
            return ["null", avro_of(inner, names)]
    return shape


def values_of(shape):
    match shape:
        case dict():
            return st.fixed_dictionaries({name: values_of(inner) for name, inner in shape.items()})
        case list():
            return st.lists(values_of(shape[0]), max_size=3)
        case ("map", inner):
            return st.dictionaries(st.sampled_from("abc"), values_of(inner), max_size=3)
        case (_, inner):
            return st.none() | values_of(inner)
    return st.integers(-9, 9) if shape == "long" else st.text("xy", max_size=2)


def leaves(shape, path=()):
    match shape:
        case dict():
            for name, inner in shape.items():
                yield from leaves(inner, (*path, name))
        case list():
            for index in range(3):
                yield from leaves(shape[0], (*path, index))
        case ("map", inner):
            for key in "ab":
                yield from leaves(inner, (*path, key))
        case (_, inner):
            yield from leaves(inner, path)
        case leaf:
            yield path, leaf


def at(value, path):
    for step in path:
        try:
            value = value[step]
        except (TypeError, LookupError):
            return None
    return value


@given(st.dictionaries(st.sampled_from("abc"), SHAPES, min_size=1, max_size=3), st.data())
@settings(max_examples=150, deadline=None)
def test_each_attribute_is_what_python_finds_at_its_path(shape, data):
    given = avro_of(shape, iter(range(1000)))
    found = data.draw(st.lists(st.sampled_from(list(leaves(shape))), min_size=1, max_size=4))
    schema = tuple((f"x{n}", INT64 if leaf == "long" else STRING) for n, (_, leaf) in enumerate(found))
    wanted = {f"x{n}": Member(path) for n, (path, _) in enumerate(found)}
    rows = data.draw(st.lists(values_of(shape), max_size=3))
    defaults = {name: -1 if type_ == INT64 else "none" for name, type_ in schema}
    reader = Reader.of(schema, parse(json.dumps(given)), None, defaults, wanted)
    expected = [
        {name: defaults[name] if (value := at(row, wanted[name].path)) is None else value for name in wanted}
        for row in rows
    ]
    decoded = reader.read(written(given, *rows))
    assert (decoded.bad, decoded.tuples.to_pylist()) == ([], expected)
