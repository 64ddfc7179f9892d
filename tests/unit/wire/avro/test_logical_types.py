"""Logical types that are invalid or unknown are ignored, as Avro's specification says, wherever a schema is parsed."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient

from sluice.columns.json_columns import json_values
from sluice.model.avro_schema import AvroError, attributes_of, check_writing, parse
from sluice.model.types import INT64, TIMESTAMP
from sluice.wire.schema_registry import Registry
from tests.unit.wire.avro.test_avro import read, reader, written


def decimal(*, base="bytes", **properties):
    return {"type": base, "logicalType": "decimal", **properties}


def fixed(size, logical, **properties):
    return {"type": "fixed", "name": "F", "size": size, "logicalType": logical, **properties}


INVALID = {
    "no precision": decimal(),
    "precision 0": decimal(precision=0),
    "precision 0, scale 0": decimal(precision=0, scale=0),
    "negative precision": decimal(precision=-4),
    "precision as a text": decimal(precision="4"),
    "precision with a fraction": decimal(precision=4.0),
    "precision true": decimal(precision=True),
    "precision null": decimal(precision=None),
    "scale above precision": decimal(precision=4, scale=5),
    "scale of Oracle's NUMBER": decimal(precision=0, scale=-127),
    "scale 127": decimal(precision=64, scale=127),
    "negative scale": decimal(precision=4, scale=-2),
    "scale as a text": decimal(precision=4, scale="2"),
    "scale null": decimal(precision=4, scale=None),
    "precision too large for its fixed": fixed(2, "decimal", precision=5),
    "decimal of an empty fixed": fixed(0, "decimal", precision=1),
    "decimal on string": decimal(base="string", precision=4),
    "decimal on long": decimal(base="long", precision=4, scale=9),
    "timestamp-millis on string": {"type": "string", "logicalType": "timestamp-millis"},
    "timestamp-micros on int": {"type": "int", "logicalType": "timestamp-micros"},
    "timestamp-nanos on double": {"type": "double", "logicalType": "timestamp-nanos"},
    "local-timestamp-millis on bytes": {"type": "bytes", "logicalType": "local-timestamp-millis"},
    "date on long": {"type": "long", "logicalType": "date"},
    "date on string": {"type": "string", "logicalType": "date"},
    "time-millis on long": {"type": "long", "logicalType": "time-millis"},
    "uuid on int": {"type": "int", "logicalType": "uuid"},
    "uuid on a fixed of 15 bytes": fixed(15, "uuid"),
    "duration on a fixed of 11 bytes": fixed(11, "duration"),
    "duration on bytes": {"type": "bytes", "logicalType": "duration"},
    "unknown": {"type": "long", "logicalType": "io.debezium.time.Timestamp"},
    "no text": {"type": "long", "logicalType": ["timestamp-millis"]},
    "null": {"type": "bytes", "logicalType": None},
    "on an array": {"type": "array", "items": "long", "logicalType": "decimal", "precision": "4"},
    "on a map": {"type": "map", "values": "long", "logicalType": "decimal", "scale": -1},
    "on an enum": {"type": "enum", "name": "E", "symbols": ["A"], "logicalType": "decimal", "precision": -1},
    "on a record": {"type": "record", "name": "I", "fields": [], "logicalType": "decimal", "precision": -1},
}
#: how a field has the type
PLACES = {
    "field": lambda type_: type_,
    "union": lambda type_: ["null", type_],
    "array": lambda type_: {"type": "array", "items": type_},
    "map": lambda type_: {"type": "map", "values": type_},
    "record": lambda type_: {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": type_}]},
}


def schema(type_):
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": type_}]
    return {"type": "record", "name": "R", "fields": fields}


def bare(type_):
    return {name: value for name, value in type_.items() if name not in ("logicalType", "precision", "scale")}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("type_", INVALID.values(), ids=INVALID)
def test_a_schema_with_an_invalid_logical_type_is_the_schema_without_it(type_, place):
    assert parse(json.dumps(schema(place(type_)))) == parse(json.dumps(schema(place(bare(type_)))))


@pytest.mark.parametrize("type_", INVALID.values(), ids=INVALID)
def test_a_schema_of_the_registry_with_an_invalid_logical_type_is_the_schema_without_it(type_, monkeypatch):
    registry = Registry((("url", "http://localhost:1"),))
    registered = Registered(json.dumps(schema(type_)), "AVRO")
    monkeypatch.setattr(SchemaRegistryClient, "get_schema", lambda _, number: registered if number == 7 else None)
    assert registry.schema(7) == parse(json.dumps(schema(bare(type_))))


def test_a_reference_of_the_registry_may_have_an_invalid_logical_type():
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": decimal(precision=4, scale=5)}]}
    assert parse(json.dumps(schema("I")), (json.dumps(inner),)).fields[1].name == "b"


@pytest.mark.parametrize(
    ("attribute", "type_", "value"),
    [
        ("int64", {"type": "long", "logicalType": "date"}, 19_000),
        ("string", {"type": "string", "logicalType": "timestamp-millis"}, "noon"),
        ("string", decimal(precision=4, scale=5), "raw"),
        ("float64", {"type": "double", "logicalType": "decimal", "precision": "4"}, 0.5),
    ],
)
def test_a_field_whose_logical_type_is_invalid_is_read_as_its_type(attribute, type_, value):
    data = written(schema(bare(type_)), {"a": 1, "b": value.encode() if type_["type"] == "bytes" else value})
    decoded = reader(f"b:{attribute}", schema(type_)).read(data)
    assert decoded.tuples.to_pylist() == [{"b": value}]


def test_the_largest_precision_that_fits_a_fixed_is_a_decimal():
    for size, precision in ((1, 2), (2, 4), (4, 9), (8, 18), (16, 38)):
        names = parse(json.dumps(schema(fixed(size, "decimal", precision=precision)))).names
        assert names["F"].scaled
        assert not parse(json.dumps(schema(fixed(size, "decimal", precision=precision + 1)))).names["F"].scaled


def test_a_default_that_looks_like_a_logical_type_stays_as_it_is():
    fields = [{"name": "logicalType", "type": "string"}, {"name": "b", "type": "long"}]
    row = {"type": "record", "name": "I", "fields": fields}
    writer, own = schema("long"), schema("long")
    own["fields"].append({"name": "c", "type": {"type": "array", "items": "string"}, "default": ["logicalType"]})
    own["fields"].append({"name": "d", "type": row, "default": {"logicalType": "decimal", "b": 1}})
    assert parse(json.dumps(own)).fields[3].default == {"logicalType": "decimal", "b": 1}
    assert read("c:list<string>", writer, {"a": 1, "b": 2}, own=own) == [[["logicalType"]]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "decimal"}]}', "the unknown type decimal"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "Record field 'a' is missing 'type'"),
        ('{"type": "record", "name": "R", "fields": ["a"]}', "Record field must be a dict, not str: a"),
        ('{"type": "fixed", "name": "F", "size": "4", "logicalType": "decimal"}', "a size of F"),
        ('{"type": "record", "fields": []}', '"name" is a required field'),
        ('{"logicalType": "decimal"}', "'type'"),
    ],
)
def test_a_schema_that_is_wrong_is_an_error_all_the_same(text, message):
    with pytest.raises(AvroError, match=message):
        parse(text)


CONNECT = [
    ("long", "org.apache.kafka.connect.data.Timestamp", 10**6), ("long", "io.debezium.time.Timestamp", 10**6),
    ("long", "io.debezium.time.MicroTimestamp", 1000), ("long", "io.debezium.time.NanoTimestamp", 1),
    ("int", "io.debezium.time.Date", 86_400 * 10**9), ("int", "org.apache.kafka.connect.data.Date", 86_400 * 10**9),
]  # fmt: skip


@pytest.mark.parametrize(("base", "name", "unit"), CONNECT)
def test_a_time_of_connect_is_a_time_in_its_unit(base: str, name: str, unit: int):
    connect = {"type": base, "connect.version": 1, "connect.name": name}
    data = written(schema(base), {"a": 1, "b": 19_000})
    assert reader("b:timestamp", schema(connect)).read(data).tuples.column(0).cast("int64").to_pylist() == [
        19_000 * unit
    ]
    assert reader("b:int64", schema(connect)).read(data).tuples.to_pylist() == [{"b": 19_000}]
    assert attributes_of(parse(json.dumps(schema(connect))))[1] == ("b", TIMESTAMP)


@pytest.mark.parametrize(
    "name", ["io.debezium.time.MicroTime", "io.debezium.time.Year", "io.debezium.time.Date", 7, []]
)
def test_another_name_of_connect_is_no_time(name: object):
    assert parse(json.dumps(schema({"type": "long", "connect.name": name}))) == parse(json.dumps(schema("long")))


def test_a_whole_number_and_a_time_are_written_to_a_time_of_connect():
    connect = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
    for type_ in (INT64, TIMESTAMP):
        check_writing(parse(json.dumps(schema(connect))), "b", type_)
    with pytest.raises(AvroError, match="without loss"):
        check_writing(parse(json.dumps(schema("long"))), "b", TIMESTAMP)


def test_a_time_is_read_from_a_text_and_from_a_number():
    times = [{"a": 1, "b": "2024-01-31T10:00:00.5+02:00"}, {"a": 2, "b": "noon"}, {"a": 3, "b": "2024-01-31"}]
    decoded = reader("b:timestamp", schema("string")).read(written(schema("string"), *times))
    assert json_values(decoded.tuples.column(0), TIMESTAMP) == ["2024-01-31T08:00:00.5Z", "2024-01-31T00:00:00Z"]
    assert decoded.bad == [
        (1, "wrong type: b: expected timestamp, got a text that is no ISO 8601 time from 1678 to 2261")
    ]
    either = schema([{"type": "long", "logicalType": "timestamp-millis"}, "string"])
    values = written(either, {"a": 1, "b": 1500}, {"a": 2, "b": "1970-01-01T00:00:02Z"})
    decoded = reader("b:timestamp", either).read(values)
    assert json_values(decoded.tuples.column(0), TIMESTAMP) == ["1970-01-01T00:00:01.5Z", "1970-01-01T00:00:02Z"]


def test_the_default_of_a_text_is_a_time():
    later = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "1970-01-01T00:00:02Z"}]}  # fmt: skip
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    decoded = reader("b:timestamp", first, later).read(written(first, {"a": 1}))
    assert json_values(decoded.tuples.column(0), TIMESTAMP) == ["1970-01-01T00:00:02Z"]
