"""What the file says about the members of records, as the streams of a pipeline have it."""

from __future__ import annotations

import json

import orjson
import pyarrow as pa
import pytest

from sluice.model.members import Member, Spelling
from sluice.model.spec import Coding, Key
from sluice.wire.record_codec import Records
from tests.unit.config.pipeline_files import loaded

FILE = """\
pipeline: shop
streams:
  orders:
    topic: orders
    {stream}
  copies: {{topic: copies{copies}}}
operators:
  - name: copy
    map: orders
    output: {output}
kafka: {{bootstrap.servers: "localhost:9092"}}
"""


def pipeline(stream, output="[copies]", copies=""):
    return loaded(FILE.format(stream=stream, output=output, copies=copies))


def test_paths_begin_in_the_value_in_the_key_and_in_headers():
    orders = pipeline(
        "schema: {a: {from: x.y, type: int64}, b: {from: key.id, type: int64}, c: {from: header.h, type: string}, "
        "d: string}"
    ).streams["orders"]
    assert dict(orders.members) == {
        "a": Member(("x", "y")), "b": Member(("id",), part="key"), "c": Member(()),
    }  # fmt: skip
    assert orders.key == Key(("b",), Coding("json"))
    assert orders.headers == (("c", "h"),)
    assert orders.value_schema == (("a", orders.schema[0][1]), ("d", orders.schema[3][1]))


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("schema: {a: {from: key, type: int64}}", (("a",), "text")),
        ("schema: {a: {from: key.id, type: int64}}", (("a",), "json")),
        ("schema: {a: {from: key, type: int64}}\n    key: {format: json}", (("a",), "json")),
        ("schema: {a: int64, b: {from: key.b, type: int64}}\n    key: {attributes: [a], format: json}",
         (("a", "b"), "json")),
        ('schema: {a: {from: \'["key"]\', type: int64}}', None),
        ("schema: {a: {from: value.key, type: int64}}", None),
    ],
)  # fmt: skip
def test_the_key_has_the_attributes_whose_paths_begin_with_key(schema, key):
    read = pipeline(schema).streams["orders"].key
    assert (read and (read.attributes, read.coding.format)) == key


@pytest.mark.parametrize(
    ("value", "more", "expected"),
    [
        (b"[1,2]", "", {"a": [1, 2]}),
        (b'[{"x":7},{"x":8}]', ", b: {from: '[1].x', type: int64}", {"a": '[{"x":7},{"x":8}]', "b": 8}),
        (b'{"x":7}', ", b: {from: x, type: int64}", {"a": '{"x":7}', "b": 7}),
    ],
    ids=["a list", "a list and a path into it", "an object and a path into it"],
)
def test_the_whole_value_is_an_attribute(value, more, expected):
    type_ = "json" if more else "list<int64>"
    orders = pipeline(f"schema: {{a: {{from: $, type: {type_}}}{more}}}").streams["orders"]
    decoded = Records.of(orders, {}).decode(pa.array([value]), pa.nulls(1, pa.binary()), pa.nulls(1, pa.null()))
    assert (decoded.tuples.to_pylist(), decoded.bad) == ([expected], [])


def test_coerce_of_a_stream_is_that_of_each_attribute_without_its_own():
    schema = "schema: {a: int64, b: {type: int64, coerce: false}, c: {type: timestamp, unit: ms}}"
    orders = pipeline(f"{schema}\n    coerce: true")
    assert dict(orders.streams["orders"].members) == {
        "a": Member(None, Spelling(coerce=True)),
        "b": Member(),
        "c": Member(None, Spelling(coerce=True, unit="ms")),
    }


def written(file, row):
    """The value that an operator's output becomes."""
    stream = file.streams["copies"]
    fields = Records.of(file.streams["orders"], {}).decode(
        pa.array([json.dumps(row).encode()]), pa.nulls(1, pa.binary()), pa.nulls(1, pa.null())
    ).tuples  # fmt: skip
    columns = [fields.column(e.name) for _, e in file.operators[0].outputs[0].attributes]
    batch = pa.RecordBatch.from_arrays(columns, [name for name, _ in stream.schema])
    return Records.of(stream, {}).encode_values(batch)[0].as_py()


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("{copies: {customer: {id: a, name: b}, total: a}}", {"customer": {"id": 7, "name": "x"}, "total": 7}),
        ("{copies: {o: {p: {q: a}, r: b}}}", {"o": {"p": {"q": 7}, "r": "x"}}),
        ('{copies: {o: {"first-name": b, "a.b": a}}}', {"o": {"first-name": "x", "a.b": 7}}),
        ("{copies: {total: a, customer.id: a}}", {"total": 7, "customer": {"id": 7}}),
        ("{copies: {total: a, '[\"order-id\"]': b}}", {"total": 7, "order-id": "x"}),
    ],
)
def test_a_mapping_is_an_object_of_the_record(output, value):
    file = pipeline("schema: {a: int64, b: string}", output)
    assert list(orjson.loads(written(file, {"a": 7, "b": "x"})).items()) == list(value.items())


def test_an_output_declares_names_and_the_spelling_of_times():
    schema = ", schema: {a: {as: customer.id}, b: {type: string, as: '[\"order-id\"]'}, t: {type: timestamp, unit: ms}}"
    file = pipeline("schema: {a: int64, b: string, t: timestamp}", copies=schema)
    value = orjson.loads(written(file, {"a": 7, "b": "x", "t": "1970-01-01T00:00:01.5Z"}))
    assert value == {"customer": {"id": 7}, "order-id": "x", "t": 1500}
