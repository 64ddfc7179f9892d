"""Decimals of Avro as attributes of the type decimal (DE19)."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of
from sluice.model import avro_schema
from sluice.model.avro_schema import AvroError
from sluice.model.types import Type, list_of, parse_type
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer


def decimal(precision: int, scale: int, size: int | None = None) -> dict[str, Any]:
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    return {"type": "bytes"} | logical if size is None else {"type": "fixed", "name": "F", "size": size} | logical


def record(type_: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]})


def encoded(schema: str, values: list[Any]) -> pa.BinaryArray:
    found = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, json.loads(schema), {"a": value})
        found.append(out.getvalue())
    return pa.array(found, pa.binary())


def read(schema: str, values: pa.BinaryArray, type_: Type, **defaults: Any) -> Any:
    avro = avro_schema.parse(schema)
    decoded = Reader.of((("a", type_),), avro, None, defaults).read(values)
    return decoded.tuples.column(0).to_pylist(), decoded.bad


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (decimal(18, 2), "decimal(2)"), (decimal(38, 9), "decimal(38, 9)"), (decimal(18, 2, 9), "decimal(2)"),
        (decimal(38, 9, 16), "decimal(38, 9)"), (decimal(38, 9, 20), "decimal(30, 4)"), (decimal(30, 4), "decimal(2)"),
        (["null", decimal(18, 2)], "decimal(2)"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_written_is_read(node: Any, text: str):
    """By this codec and by fastavro."""
    chance, type_, schema = random.Random(text), parse_type(text), record(node)
    numbers = [f"{chance.randrange(1 - 10**n, 10**n)}e-{type_.scale}" for n in range(1, type_.precision + 1)]
    column = array_of([*numbers, "0", f"-{10**type_.precision - 1}e-{type_.scale}"], type_)
    written = Writer.of((("a", type_),), schema).write(pa.RecordBatch.from_arrays([column], ["a"]))
    theirs = [fastavro.schemaless_reader(io.BytesIO(value), json.loads(schema))["a"] for value in written.to_pylist()]
    assert theirs == column.to_pylist()
    avro = avro_schema.parse(schema)
    branch = next(branch for branch in avro.branches(avro.fields[0].node) if branch.scaled)
    wide = parse_type(f"decimal({branch.precision}, {branch.scale})")
    assert read(schema, written, wide) == (column.to_pylist(), [])


def test_texts_and_lists():
    cents = parse_type("decimal(2)")
    assert read(record("string"), encoded(record("string"), ["1.5", "x", "1.005", "-2"]), cents) == (
        [Decimal("1.50"), Decimal("-2.00")],
        [(row, "wrong type: a: expected decimal(2), got a number outside of the range of this type") for row in (1, 2)],
    )
    lists = record({"type": "array", "items": decimal(18, 2)})
    values = [[Decimal("1.10"), Decimal("-0.05")], []]
    assert read(lists, encoded(lists, values), list_of(cents)) == (values, [])


VARIABLE = {"type": "record", "name": "io.debezium.data.VariableScaleDecimal", "fields": [
    {"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]}  # fmt: skip


def variable(unscaled: int, scale: int) -> dict[str, Any]:
    return {"scale": scale, "value": unscaled.to_bytes(4, "big", signed=True)}


def test_a_number_without_a_fixed_scale():
    numbers = [variable(150, 2), variable(-15, 1), variable(2, -3), variable(1, 3), variable(10, 3), variable(1, 10**6)]
    values = encoded(record(VARIABLE), numbers)
    assert read(record(VARIABLE), values, parse_type("decimal(2)")) == (
        [Decimal("1.50"), Decimal("-1.50"), Decimal("2000.00"), Decimal("0.01")],
        [(row, "wrong type: a: expected decimal(2), got a number outside of the range of this type") for row in (3, 5)],
    )
    either = record(["null", VARIABLE])
    assert read(either, encoded(either, [None, variable(150, 2)]), parse_type("decimal(2)?"))[0] == [
        None, Decimal("1.50"),
    ]  # fmt: skip
    struct = parse_type("tuple<scale: int64, value: bytes>")
    assert read(record(VARIABLE), encoded(record(VARIABLE), [variable(7, 2)]), struct)[0] == [
        {"scale": 2, "value": b"\0\0\0\x07"}
    ]
    lists = record({"type": "array", "items": VARIABLE})
    assert read(lists, encoded(lists, [[variable(7, 1), variable(25, 2)]]), parse_type("list<decimal(2)>"))[0] == [
        [Decimal("0.70"), Decimal("0.25")]
    ]


def test_a_default_of_the_file():
    schema = record(["null", decimal(18, 2)])
    values = encoded(schema, [None, Decimal("1.10")])
    assert read(schema, values, parse_type("decimal(2)"), a="0.05")[0] == [Decimal("0.05"), Decimal("1.10")]


@pytest.mark.parametrize(
    ("node", "text"),
    [(decimal(18, 4), "decimal(2)"), (decimal(30, 2), "decimal(2)"), ("double", "decimal(2)"), ("bytes", "decimal(2)")],
    ids=str,
)
def test_what_is_refused(node: Any, text: str):
    avro = avro_schema.parse(record(node))
    with pytest.raises(AvroError, match=r"decimal\(2\), which"):
        avro_schema.check_reading(avro, avro, "a", parse_type(text), has_default=False)
    if node != decimal(18, 4) and node != decimal(30, 2):
        with pytest.raises(AvroError, match="without loss"):
            avro_schema.check_writing(avro, "a", parse_type(text))


def test_the_attribute_of_a_field():
    avro = avro_schema.parse(record(decimal(12, 4)))
    assert avro_schema.attributes_of(avro) == (("a", parse_type("decimal(12, 4)")),)
