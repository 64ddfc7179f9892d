"""Avro against fastavro as second opinion: what it writes is read as it reads it, and what is written it reads."""

from __future__ import annotations

import io
import json
import math
import struct
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import arrow_schema
from sluice.model.avro_schema import AvroError, attributes_of, parse, schema_of
from sluice.model.types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    STRING,
    TIMESTAMP,
    Float64Type,
    ListType,
    TimestampType,
    list_of,
    optional_of,
    parse_type,
)
from sluice.wire.avro.avro_read import Reader
from sluice.wire.avro.avro_write import Writer
from tests.unit.wire.json.test_json_batch import bits, tuples


def record(**fields):
    """A schema; a field is its type, or that and its default."""
    listed = [
        {"name": name, **({"type": f[0], "default": f[1]} if isinstance(f, tuple) else {"type": f})}
        for name, f in fields.items()
    ]
    return {"type": "record", "name": "R", "fields": listed}


def written(schema, *values):
    """As fastavro writes them."""
    outs = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
        outs.append(out.getvalue())
    return pa.array(outs, pa.binary())


def attributes(text):
    return tuple((name, parse_type(word)) for name, _, word in (part.partition(":") for part in text.split()))


def reader(schema, writer, own=None, defaults=None):
    return Reader.of(
        attributes(schema), parse(json.dumps(writer)), parse(json.dumps(own)) if own else None, defaults or {}
    )


def read(schema, writer, *values, own=None, defaults=None):
    decoded = reader(schema, writer, own, defaults).read(written(writer, *values))
    assert decoded.bad == []
    return [list(row.values()) for row in decoded.tuples.to_pylist()]


def why(schema, writer, data, **how):
    """Why this record is no tuple."""
    decoded = reader(schema, writer, **how).read(pa.array([data], pa.binary()))
    assert not decoded.tuples.num_rows
    ((row, reason),) = decoded.bad
    assert row == 0
    return reason


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}

# ---- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "avro", "value", "expected"),
    [
        ("boolean", "boolean", True, True),
        ("int64", "int", -(2**31), -(2**31)),
        ("int64", "long", 2**63 - 1, 2**63 - 1),
        ("float64", "double", 0.1, 0.1),
        ("float64", "float", 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("float64", "int", 3, 3.0),
        ("float64", "long", 2**53 + 1, float(2**53 + 1)),
        ("string", "string", "é€😀", "é€😀"),
        ("string", "bytes", "é".encode(), "é"),
        ("string", COLOUR, "GREEN", "GREEN"),
        ("string", {"type": "string", "logicalType": "uuid"}, "a", "a"),
        ("int64", {"type": "int", "logicalType": "time-millis"}, 7, 7),
        ("list<int64>", {"type": "array", "items": "long"}, [1, -1], [1, -1]),
        (
            "list<list<string>>",
            {"type": "array", "items": {"type": "array", "items": "string"}},
            [["a"], []],
            [["a"], []],
        ),
        ("list<string>", {"type": "array", "items": COLOUR}, ["RED"], ["RED"]),
        ("string", PRICE, Decimal("-0.05"), "-0.05"),
        ("string", PRICE, Decimal("1234567890123456789012345678.90"), "1234567890123456789012345678.90"),
        ("float64", PRICE, Decimal("12.30"), 12.3),
        ("int64", ["null", "long"], 5, 5),
        ("float64", ["int", "double", "null"], 1.5, 1.5),
    ],
)
def test_a_value(type_, avro, value, expected):
    assert read(f"a:{type_}", record(a=avro), {"a": value}) == [[expected]]


@pytest.mark.parametrize(
    ("avro", "number", "nanoseconds"),
    [
        (MILLIS, -1, -1_000_000),
        (MICROS, 1_357_041_600_000_001, 1_357_041_600_000_001_000),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 7, 7),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1000, 1_000_000_000),
        ({"type": "int", "logicalType": "date"}, -1, -86_400_000_000_000),
    ],
)
def test_a_time(avro, number, nanoseconds):
    plain = record(a=avro["type"])
    values = written(plain, {"a": number})
    decoded = reader("a:timestamp", record(a=avro)).read(values)
    assert decoded.tuples.column(0).cast(pa.int64()).to_pylist() == [nanoseconds]


def test_fields_that_no_attribute_has_are_passed_over():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    writer = record(
        a={"type": "map", "values": {"type": "array", "items": "string"}}, b=node, c=COLOUR,
        d={"type": "fixed", "name": "F", "size": 3}, e=["null", "double", "bytes"],
        f={"type": "array", "items": "null"}, g="boolean", h="float", i="int", n="long",
    )  # fmt: skip
    value = {
        "a": {"x": ["1", "22"], "y": []}, "b": {"next": {"next": None}}, "c": "RED", "d": b"abc", "e": b"xyz",
        "f": [None] * 5, "g": True, "h": 1.5, "i": -3, "n": 42,
    }  # fmt: skip
    assert read("n:int64", writer, value, value) == [[42], [42]]


def test_blocks_may_come_with_their_size():
    data = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two items in two bytes, one item, none
    decoded = reader("a:list<int64>", record(a={"type": "array", "items": "long"})).read(pa.array([data], pa.binary()))
    assert decoded.tuples.to_pylist() == [{"a": [1, 2, 3]}]


def test_the_attributes_of_a_schema():
    schema = record(
        a="int", b=["null", "double"], c=MILLIS, d={"type": "array", "items": ["null", COLOUR]}, e="boolean"
    )
    assert attributes_of(parse(json.dumps(schema))) == (
        ("a", INT64), ("b", optional_of(FLOAT64)), ("c", TIMESTAMP), ("d", list_of(optional_of(STRING))),
        ("e", BOOLEAN),
    )  # fmt: skip


@pytest.mark.parametrize("type_", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 50}])
def test_a_field_that_is_no_attribute_of_itself(type_):
    with pytest.raises(AvroError, match="the field a"):
        attributes_of(parse(json.dumps(record(a=type_))))


# ---- evolution -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "attribute", "expected"),
    [
        (record(n="long"), "n:int64", 7),
        (record(n="long", m=("int", 3)), "m:int64", 3),
        (record(n="long", m=(["null", "long"], None)), "n:int64", 7),
        (record(n="double"), "n:float64", 7.0),
        (record(n=["null", "double"]), "n:float64", 7.0),
        (record(n="long", t=(MILLIS, 5)), "t:int64", 5),
        (record(n="long", s=("string", "é")), "s:string", "é"),
        (record(n="long", l=({"type": "array", "items": "string"}, ["a", "b"])), "l:list<string>", ["a", "b"]),
        (record(n="long", l=({"type": "array", "items": "long"}, [])), "l:list<int64>", []),
        ({**record(), "fields": [{"name": "number", "aliases": ["n"], "type": "long"}]}, "number:int64", 7),
    ],
)
def test_a_reader_with_another_schema(own, attribute, expected):
    assert read(attribute, record(gone="string", n="int"), {"gone": "x", "n": 7}, own=own) == [[expected]]


def test_an_enum_with_a_symbol_that_the_reader_does_not_know():
    writer, own = record(a=COLOUR), record(a={**COLOUR, "symbols": ["GREEN"], "default": "GREEN"})
    assert read("a:string", writer, {"a": "RED"}, own=own) == [["GREEN"]]
    (data,) = written(writer, {"a": "RED"}).to_pylist()
    assert why("a:string", writer, data, own=record(a={**COLOUR, "symbols": ["GREEN"]})).startswith("wrong type: a")


def test_a_float_that_was_an_int_is_rounded_as_a_float():
    assert read("a:float64", record(a="int"), {"a": 16_777_217}, own=record(a="float")) == [[16_777_216.0]]


# ---- null, defaults, faults ------------------------------------------------------------------------------------------


def test_null_is_the_default_of_the_file_or_a_dead_letter():
    schema = record(a=["null", "long"], b="long")
    assert read("a:int64 b:int64", schema, {"a": None, "b": 1}, {"a": 2, "b": 3}, defaults={"a": -1}) == [
        [-1, 1],
        [2, 3],
    ]
    assert why("a:int64 b:int64", schema, b"\x00\x02") == "null attribute: a: expected int64, got null"


def test_a_field_that_is_not_there():
    assert read("a:string", record(b="long"), {"b": 1}, defaults={"a": "none"}) == [["none"]]
    assert why("a:string", record(b="long"), b"\x02").startswith("missing attribute: a: expected string")


@pytest.mark.parametrize(
    ("schema", "writer", "data", "reason"),
    [
        ("a:int64", "long", b"", "not Avro: its bytes end in the middle of a value"),
        ("a:int64", "long", b"\x80", "not Avro: its bytes end in the middle of a value"),
        ("a:int64", "long", b"\x02\x02", "not Avro: bytes are left after its last field"),
        ("a:int64", "long", b"\xff" * 9 + b"\x02", "not Avro: an int or long has more bits"),
        ("a:int64", "int", b"\xff\xff\xff\xff\x1f", "not Avro: an int or long has more bits"),
        ("a:boolean", "boolean", b"\x02", "not Avro: an int or long has more bits than its type, or a boolean"),
        ("a:float64", "double", b"\x00" * 7, "not Avro: its bytes end"),
        ("a:float64", "float", b"\x00" * 3, "not Avro: its bytes end"),
        ("a:string", "string", b"\x01", "not Avro: the length of a string, list or map is below zero"),
        ("a:string", "string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "not Avro: its bytes end"),
        ("a:string", "string", b"\x02\xff", "not Avro: a string is not UTF-8"),
        ("a:string", "string", b"\x06\xed\xa0\x80", "not Avro: a string is not UTF-8"),
        ("a:string", COLOUR, b"\x04", "not Avro: the schema has no branch"),
        ("a:string", COLOUR, b"\x01", "not Avro: the schema has no branch"),
        ("a:int64", ["null", "long"], b"\x04\x02", "not Avro: the schema has no branch"),
        ("a:list<int64>", {"type": "array", "items": "long"}, b"\x02\x02", "not Avro: its bytes end"),
        ("a:list<int64>", {"type": "array", "items": "long"}, b"\xff" * 9 + b"\x01\x00", "not Avro: the length of"),
        ("a:list<int64>", {"type": "array", "items": ["null", "long"]}, b"\x02\x00\x00", "null attribute: a"),
        ("a:timestamp", MILLIS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "wrong type: a: expected timestamp"),
        ("a:string", PRICE, b"\x22" + b"\x01" * 17, "wrong type: a"),
    ],
)  # fmt: skip
def test_a_record_that_is_none(schema, writer, data, reason):
    assert why(schema, record(a=writer), data).startswith(reason)


def test_an_array_of_nothing_may_claim_any_length():
    schema = record(a={"type": "array", "items": "null"}, n="long")
    data = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x02"
    assert reader("n:int64", schema).read(pa.array([data], pa.binary())).tuples.to_pylist() == [{"n": 1}]


def test_deep_nesting_ends_as_a_dead_letter():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert why("n:int64", record(a=node, n="long"), b"\x02" * 1_000_000) == "not Avro: its values are nested too deeply"


def test_a_bad_record_leaves_its_neighbours_as_they_are():
    schema = record(a={"type": "array", "items": "string"}, b="double")
    one = written(schema, {"a": ["x", "y"], "b": 1.5})[0].as_py()
    decoded = reader("a:list<string> b:float64", schema).read(pa.array([one, one[:-1], one, b"", one], pa.binary()))
    assert decoded.good.tolist() == [0, 2, 4]
    assert [row for row, _ in decoded.bad] == [1, 3]
    assert decoded.tuples.to_pylist() == [{"a": ["x", "y"], "b": 1.5}] * 3


# ---- what it is next to fastavro -------------------------------------------------------------------------------------

LEAVES = st.sampled_from(["boolean", "int", "long", "float", "double", "string", "bytes", MILLIS, MICROS])


@st.composite
def avro_types(draw, leaves=LEAVES):
    kind = draw(st.sampled_from(["leaf", "leaf", "leaf", "nullable", "array", "map", "union"]))
    leaf = draw(leaves)
    match kind:
        case "nullable":
            return draw(st.sampled_from([["null", leaf], [leaf, "null"]]))
        case "array":
            return {"type": "array", "items": leaf}
        case "map":
            return {"type": "map", "values": leaf}
        case "union":
            return ["null", "string", {"type": "array", "items": leaf}]
        case _:
            return leaf


#: as it is on the wire: logical types apart
def values_of(avro):
    match avro:
        case list():
            return st.one_of(*map(values_of, avro))
        case {"type": "array", "items": items}:
            return st.lists(values_of(items), max_size=4)
        case {"type": "map", "values": values}:
            return st.dictionaries(st.text(max_size=3), values_of(values), max_size=3)
        case {"type": inner}:
            return values_of(inner)
    return {
        "null": st.none(), "boolean": st.booleans(), "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1), "float": st.floats(width=32), "double": st.floats(),
        "string": st.text(max_size=6), "bytes": st.binary(max_size=6),
    }[avro]  # fmt: skip


def bare(avro):
    """Without logical types: fastavro makes dates of them."""
    match avro:
        case list():
            return [bare(branch) for branch in avro]
        case {"type": "array", "items": items}:
            return {"type": "array", "items": bare(items)}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": bare(values)}
        case {"type": inner}:
            return inner
    return avro


def expected(type_, value):
    """The attribute that fastavro's value is; raises where there is none."""
    if value is None:
        raise ValueError
    match type_:
        case ListType():
            return [expected(type_.element, item) for item in value]
        case TimestampType():
            assert -(2**63) <= value < 2**63
            return value
        case Float64Type():
            return repr(float(value))
    return value


@st.composite
def written_records(draw):
    types = draw(st.lists(avro_types(), min_size=1, max_size=5))
    schema = record(**{f"f{number}": type_ for number, type_ in enumerate(types)})
    plain = record(**{f"f{number}": bare(type_) for number, type_ in enumerate(types)})
    rows = [{f"f{n}": draw(values_of(type_)) for n, type_ in enumerate(types)} for _ in range(draw(st.integers(0, 4)))]
    return schema, plain, rows


WORDS = {
    "boolean": "boolean", "int": "int64", "long": "int64", "float": "float64", "double": "float64", "string": "string",
}  # fmt: skip


def word_for(avro):
    """The type of an attribute, if it has one that fastavro has too."""
    match avro:
        case str():
            return WORDS.get(avro)
        case ["null", str(word)] | [str(word), "null"]:
            return WORDS.get(word)
        case {"type": "array", "items": str(word)} if word in WORDS:
            return f"list<{WORDS[word]}>"
    return None


@given(written_records(), st.data())
@settings(max_examples=300)
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(drawn, data):
    schema, plain, rows = drawn
    chosen = [
        f"{one['name']}:{word}"
        for one in schema["fields"]
        if (word := word_for(one["type"])) and data.draw(st.booleans())
    ]
    attributes_ = attributes(" ".join(chosen))
    values = written(plain, *rows)
    parsed = fastavro.parse_schema(plain)
    again = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values.to_pylist()]
    decoded = reader(" ".join(chosen), schema).read(values)
    good, tuples_ = [], []
    for number, row in enumerate(again):
        try:
            tuples_.append([expected(type_, row[name]) for name, type_ in attributes_])
            good.append(number)
        except ValueError:
            continue
    assert decoded.good.tolist() == good
    shown = [list(row.values()) for row in decoded.tuples.to_pylist()]
    assert [list(map(as_repr, row)) for row in shown] == tuples_


#: what a reader may make of a type of the writer (resolution of the specification): itself, or a wider one
WIDER = {
    "int": ["int", "long", "float", "double"], "long": ["long", "float", "double"], "float": ["float", "double"],
    "double": ["double"], "boolean": ["boolean"], "string": ["string"],
}  # fmt: skip
DEFAULTS = {"int": 7, "long": -(2**40), "float": 0.5, "double": -1e300, "boolean": True, "string": "é"}


@st.composite
def resolved(draw):
    """A writer's schema, a reader's schema of the same record with other fields, and rows of the writer."""
    types = draw(st.lists(st.sampled_from(sorted(WIDER)), min_size=1, max_size=5))
    lists = [draw(st.booleans()) for _ in types]
    writers = [{"type": "array", "items": type_} if array else type_ for type_, array in zip(types, lists, strict=True)]
    writer = record(**{f"f{number}": type_ for number, type_ in enumerate(writers)})
    fields = []
    for number, (type_, array) in enumerate(zip(types, lists, strict=True)):
        if draw(st.integers(0, 3)):  # else the reader does not have the field
            wider = draw(st.sampled_from(WIDER[type_]))
            wanted = {"type": "array", "items": wider} if array else wider
            renamed = draw(st.booleans())
            names = {"name": f"g{number}", "aliases": [f"f{number}"]} if renamed else {"name": f"f{number}"}
            fields.append(names | {"type": wanted})
    for type_ in draw(st.lists(st.sampled_from(sorted(DEFAULTS)), max_size=2)):
        fields.append({"name": f"d{len(fields)}", "type": type_, "default": DEFAULTS[type_]})
    rows = [
        {f"f{n}": draw(values_of(type_)) for n, type_ in enumerate(writers)} for _ in range(draw(st.integers(0, 3)))
    ]
    return writer, {"type": "record", "name": "R", "fields": draw(st.permutations(fields))}, rows


@given(resolved())
@settings(max_examples=300)
def test_a_record_of_another_schema_is_read_as_fastavro_resolves_it(drawn):
    writer, own, rows = drawn
    words = [f"{one['name']}:{word_for(one['type'])}" for one in own["fields"]]
    values = written(writer, *rows)
    schemas = fastavro.parse_schema(writer), fastavro.parse_schema(own)
    again = [fastavro.schemaless_reader(io.BytesIO(value), *schemas) for value in values.to_pylist()]
    decoded = reader(" ".join(words), writer, own).read(values)
    assert decoded.bad == []
    attributes_ = attributes(" ".join(words))
    shown = [[row[name] for name, _ in attributes_] for row in decoded.tuples.to_pylist()]
    fields = {one["name"]: one["type"] for one in own["fields"]}
    wanted = [[expected(type_, as_float(fields[name], row[name])) for name, type_ in attributes_] for row in again]
    assert [list(map(as_repr, row)) for row in shown] == wanted


def as_float(avro, value):
    """A value of a reader's float has 32 bits, whatever the writer's type was; fastavro leaves an integer as it is."""
    if avro == "float":
        return struct.unpack("f", struct.pack("f", value))[0]
    return [as_float("float", item) for item in value] if avro == {"type": "array", "items": "float"} else value


def as_repr(value):
    """NaN is itself so."""
    if isinstance(value, list):
        return [as_repr(item) for item in value]
    return repr(value) if isinstance(value, float) else value


@given(tuples(names=st.sampled_from(["a", "b", "ab", "price"])))
@settings(max_examples=200)
def test_what_is_written_reads_back_and_fastavro_reads_it(given_tuples):
    schema, batch = given_tuples
    text = schema_of("R", schema).replace("timestamp-micros", "timestamp-nanos")
    values = Writer.of(schema, text).write(batch)
    back = Reader.of(schema, parse(text), None, {}).read(values)
    assert back.bad == []
    assert bits(back.tuples) == bits(batch)
    for value in values.to_pylist():
        rest = io.BytesIO(value)
        fastavro.schemaless_reader(rest, fastavro.parse_schema(json.loads(text)), None)
        assert not rest.read()


def test_fields_of_other_schemas_are_written_with_their_branch_and_default():
    text = json.dumps(
        record(
            a=["null", "long"], b=(["null", "string"], None), c=({"type": "map", "values": COLOUR}, {"x": "GREEN"}),
            d=({"type": "array", "items": "double"}, [0.5]), e=(record(x="int") | {"name": "Inner"}, {"x": 3}),
            f=("bytes", "\u00ff"), t=MILLIS,
        )
    )  # fmt: skip
    schema = (("t", TIMESTAMP), ("a", INT64))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([-1], pa.timestamp("ns", "UTC")), pa.array([7])], schema=arrow_schema(schema)
    )
    (value,) = Writer.of(schema, text).write(batch).to_pylist()
    plain = json.loads(text)
    plain["fields"][-1]["type"] = "long"
    assert fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(plain), None) == {
        "a": 7, "b": None, "c": {"x": "GREEN"}, "d": [0.5], "e": {"x": 3}, "f": b"\xff", "t": -1,
    }  # fmt: skip


def test_a_schema_that_is_no_record_is_one_attribute():
    text = json.dumps("string")
    schema = (("key", STRING),)
    batch = pa.RecordBatch.from_arrays([pa.array(["é"])], schema=arrow_schema(schema))
    values = Writer.of(schema, text).write(batch)
    assert values.to_pylist() == [b"\x04" + "é".encode()]
    assert Reader.of(schema, parse(text), parse(text), {}).read(values).tuples.to_pylist() == [{"key": "é"}]


def test_not_a_number_is_kept():
    ((value,),) = read("a:float64", record(a="double"), {"a": math.nan})
    assert math.isnan(value)
