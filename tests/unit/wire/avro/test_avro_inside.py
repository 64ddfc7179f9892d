"""Avro's records, maps, bytes and fixed as structs, maps and bytes (ST5)."""

import base64
import io
import json

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.column_forms import form
from sluice.config.load import load_text
from sluice.model.avro_schema import AvroError, attributes_of, check_reading, parse, schema_of
from sluice.model.types import parse_type
from sluice.replayer.player import replay
from sluice.wire.avro.avro_program import Compiler, Fault
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_scan import STACK, Buffers, Scratch, scan
from sluice.wire.avro.avro_write import Writer
from tests.unit.columns.test_composite_forms import VALUES

#: the types whose maps have keys that are strings
IN_AVRO = [type_ for type_ in VALUES if "map<int64" not in type_ and "map<timestamp" not in type_]


@pytest.mark.parametrize("type_", [*IN_AVRO, "bytes", "json", "tuple<a: int64>?"])
def test_values_come_back_from_a_generated_schema(type_):
    kind = parse_type(type_)
    values = VALUES.get(type_) or [kind.present.samples[0], *kind.samples]
    schema = (("v", kind), ("n", parse_type("int64")))
    tuples = pa.RecordBatch.from_arrays(
        [array_of(values, kind), pa.array(range(len(values)), pa.int64())], schema=arrow_schema(schema)
    )
    text = schema_of("r", schema)
    decoded = Reader.of(schema, parse(text), None, {}).read(Writer.of(schema, text).write(tuples))
    assert (decoded.tuples.column(0).to_pylist(), decoded.bad) == (tuples.column(0).to_pylist(), [])


ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "skipped", "type": {"type": "map", "values": "double"}},
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "old", "type": "string"}, {"name": "id", "type": "int"},
            {"name": "name", "type": ["null", "string"]},
        ]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "tags", "type": {"type": "map", "values": "string"}},
        ]}}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
    ],
}  # fmt: skip
RECORD = {
    "skipped": {"a": 1.0},
    "customer": {"old": "x", "id": 7, "name": None},
    "lines": [{"sku": "a", "tags": {"z": "1", "b": "2"}}, {"sku": "b", "tags": {}}],
    "hash": b"\x00\x01",
}


def written(record: dict) -> pa.BinaryArray:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(ORDER))), record)
    return pa.array([stream.getvalue()], pa.binary())


def test_attributes_of_a_schema():
    assert [(name, str(type_)) for name, type_ in attributes_of(parse(json.dumps(ORDER)))] == [
        ("skipped", "map<string, float64>"),
        ("customer", "tuple<old: string, id: int64, name: string?>"),
        ("lines", "list<tuple<sku: string, tags: map<string, string>>>"),
        ("hash", "bytes"),
    ]


def test_records_of_another_writer():
    schema = tuple(
        (name, parse_type(text))
        for name, text in {
            "customer": "tuple<name: string?, id: int64, since: int64?>",
            "lines": "list<tuple<tags: map<string, string>, sku: string>>",
            "hash": "bytes",
        }.items()
    )
    decoded = Reader.of(schema, parse(json.dumps(ORDER)), None, {}).read(written(RECORD))
    assert decoded.bad == []
    assert [
        form(type_).to_json(column)[0] for (_, type_), column in zip(schema, decoded.tuples.columns, strict=True)
    ] == [
        {"name": None, "id": 7, "since": None},
        [{"tags": {"b": "2", "z": "1"}, "sku": "a"}, {"tags": {}, "sku": "b"}],
        "AAE=",
    ]


@pytest.mark.parametrize(
    ("name", "type_", "expected"),
    [
        ("customer", "tuple<id: int64, email: string>", "a field email"),
        ("customer", "tuple<id: string>", "string, which int does not give"),
        ("skipped", "map<int64, float64>", "the keys of Avro's maps are strings"),
        ("lines", "list<string>", "string, which record does not give"),
    ],
)
def test_what_a_schema_does_not_give(name, type_, expected):
    avro = parse(json.dumps(ORDER))
    with pytest.raises(AvroError, match=expected):
        check_reading(avro, avro, name, parse_type(type_), has_default=False)


def test_a_text_that_is_no_json_is_a_string_of_it():
    schema = (("v", parse_type("json")),)
    texts = (("v", parse_type("string")),)
    tuples = pa.record_batch({"v": ['{"a": 1}', "free text"]})
    values = Writer.of(texts, schema_of("r", texts)).write(tuples)
    decoded = Reader.of(schema, parse(schema_of("r", texts)), None, {}).read(values)
    assert decoded.tuples.column(0).to_pylist() == ['{"a": 1}', '"free text"']


def test_the_first_reading_of_a_batch_writes_only_where_it_has_room():
    """It counts the items of lists, whose buffers have no room yet; what is kept by its place has an end, too."""
    items = {"type": "array", "items": {"type": "map", "values": "long"}}
    avro = parse(json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": items}]}))
    program = Compiler(avro, None, (("x", parse_type("list<json>")),), {}, {}).program()
    record = np.array([4, 2, 2, ord("a"), 2, 0, 2, 2, ord("b"), 4, 0, 0], np.uint8)
    room = np.where(np.isin(np.arange(program.buffers), program.items), 0, 1)
    words, ends = np.full((2, 8), -7)
    to = Buffers(words, words.view(np.float64), ends, np.cumsum(room) - room, room, np.zeros(program.buffers, np.int64))
    bits = np.zeros(1, np.int32)
    scratch = Scratch(np.zeros(program.buffers, np.int64), np.zeros(STACK, np.int64), bits, bits.view(np.float32))
    faults = np.zeros((2, 1), np.int64)
    scan(record, np.array([0, len(record)]), 0, program.code, program.constants, np.frombuffer(b"", np.uint8), to,
         scratch, faults)  # fmt: skip
    assert faults.tolist() == [[Fault.NONE], [-1]]
    assert to.filled[list(program.items)].tolist() == [2]
    assert (ends[1:] == -7).all()


@pytest.mark.parametrize(
    ("schema", "type_", "value"),
    [
        ("string", "string", "a"), ("long", "int64", -7), ("int", "int64", 7), ("double", "float64", 1.5),
        ("float", "float64", 0.5), ("boolean", "boolean", True), ("bytes", "bytes", b"\0\1"),
        (["null", "long"], "int64?", 7), (["null", "long"], "int64?", None),
        ({"type": "fixed", "name": "Id", "size": 8}, "bytes", b"\0\0\0\0\0\0\0\7"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_schema_in_the_file_that_is_no_record_is_one_attribute(schema, type_, value, part):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    setting = f"format: avro, avro_schema: {json.dumps(schema) if not isinstance(schema, str) else schema}"
    key = f"schema: {{a: '{type_}', x: int64}}, key: {{attributes: [a], {setting}}}"
    text = f"""
pipeline: p
streams: {{in: {{topic: t, {key if part == "key" else f"schema: {{b: '{type_}'}}, {setting}"}}}, out: {{topic: o}}}}
operators: [{{name: m, map: in, output: {{out: {{c: {"a" if part == "key" else "b"}}}}}}}]
"""
    record = {"value": {"x": 1}, part: {"base64": base64.b64encode(stream.getvalue()).decode()}}
    (found,) = replay(load_text(text, "p.yaml", environment=None), [{"at": 0, "record": record}])
    assert found["tuple"] == {"c": base64.b64encode(value).decode() if isinstance(value, bytes) else value}
