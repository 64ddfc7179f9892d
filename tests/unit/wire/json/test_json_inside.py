"""Records of JSON with structs, maps, bytes and texts of JSON (ST1 to ST3)."""

import random

import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.column_forms import form
from sluice.model.members import Member, Pairs, Spelling
from sluice.model.types import StructType, Type, parse_type
from sluice.wire import csv_rows, plain_text
from sluice.wire.json.json_codec import decode, decode_exactly
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_write import encode

#: type -> texts that are read, with the values as events have them
READ = {
    "tuple<id: int64, name: string?>": {
        '{"id": 1, "name": "a"}': {"id": 1, "name": "a"},
        '{"name": null, "more": [1], "id": 2}': {"id": 2, "name": None},
        '{"id": 3}': {"id": 3, "name": None},
    },
    "map<string, int64>": {'{"b": 1, "a": 2, "b": 3}': {"a": 2, "b": 3}, "{}": {}},
    "map<int64, tuple<x: float64>>": {'{"7": {"x": 1}}': {"7": {"x": 1.0}}},
    "map<timestamp, boolean>": {'{"2020-01-01T00:00:00Z": true}': {"2020-01-01T00:00:00Z": True}},
    "bytes": {'"AAE="': "AAE=", '""': ""},
    "json": {'{"a": [1, 2.50]}': {"a": [1, 2.5]}, "7": 7, '"x"': "x"},
    "list<tuple<sku: string, n: int64>>": {'[{"sku": "x", "n": 1}]': [{"sku": "x", "n": 1}], "[]": []},
    "list<int64?>": {"[1, null]": [1, None]},
    "tuple<raw: json, n: map<string, json?>>": {'{"raw": [ 1 ], "n": {"a": null}}': {"raw": [1], "n": {"a": None}}},
    "tuple<price: decimal(2)>": {'{"price": 1.10}': {"price": "1.10"}},
}
WRONG = {
    "tuple<id: int64, name: string?>": ["[]", '{"name": "a"}', '{"id": "1"}', '{"id": null}', "1"],
    "map<int64, string>": ['{"a": "x"}', '{"1": 2}', "[]"],
    "bytes": ['"A"', '"A*=="', "1", "[]"],
    "list<int64>": ["[null]"],
}


@pytest.mark.parametrize("text_first", [True, False])
@pytest.mark.parametrize("type_", READ)
def test_what_is_read(type_, text_first):
    """Also by the exact decoder, to which an escaped name leads."""
    kind, other = parse_type(type_), "" if text_first else '"\\u0061": 1, '
    records = pa.array([f'{{{other}"v": {text}, "n": 1}}'.encode() for text in READ[type_]], pa.binary())
    for read in (decode, decode_exactly):
        decoded = read(records, (("n", parse_type("int64")), ("v", kind)))
        assert decoded.bad == []
        assert form(kind).to_json(decoded.tuples.column("v")) == list(READ[type_].values())


PAIRS = Pairs(("k",), (("v", "s"), ("v", "n")))


@pytest.mark.parametrize(
    ("type_", "coerce", "text", "expected"),
    [
        ("map<string, string>", False, '[{"k": "b", "v": {"s": "x"}}, {"k": "a", "v": {"n": 7}}]', None),
        ("map<string, string>", True, '[{"k": "b", "v": {"s": "x"}}, {"k": "a", "v": {"n": 1.10}}]',
         {"a": "1.10", "b": "x"}),
        ("map<string, string>", False, '[{"k": "a", "v": {"s": "x"}}, {"k": "a", "v": {"s": "y"}}]', {"a": "y"}),
        ("map<string, string>", False, '[{"k": "a", "v": {"b": true}}, {"k": "c"}, {"k": "d", "v": null}]', {}),
        ("map<string, string?>", False, '[{"k": "a", "v": {"s": null}}, {"k": "c"}]', {"a": None, "c": None}),
        ("map<int64, string>", False, '[{"k": "7", "v": {"s": "x"}}, {"k": 8, "v": {"s": "y"}}]', {"7": "x", "8": "y"}),
        ("map<string, json>", False, '[{"k": "a", "v": {"s": {"x": 1.10}}}]', {"a": {"x": 1.1}}),
        ("map<string, decimal(2)>", False, '[{"k": "a", "v": {"s": "1.10", "n": 5}}]', {"a": "1.10"}),
        ("list<map<string, string>>", False, '[[{"k": "a", "v": {"s": "x"}}], []]', [{"a": "x"}, {}]),
        ("map<string, string>", False, "[]", {}),
        ("map<string, string>", False, '[{"v": {"s": "x"}}]', None),
        ("map<string, string>", False, "[7]", None),
        ("map<string, string>", False, '{"a": "x"}', None),
        ("map<string, int64>", False, '[{"k": "a", "v": {"s": "x"}}]', None),
    ],
)  # fmt: skip
def test_a_map_from_a_list_of_pairs(type_, coerce, text, expected):
    kind, members = parse_type(type_), {"v": Member(spelling=Spelling(coerce, pairs=PAIRS))}
    for read in (decode, decode_exactly):
        decoded = read(pa.array([f'{{"v": {text}}}'.encode()], pa.binary()), (("v", kind),), members=members)
        assert [why.partition(":")[0] for _, why in decoded.bad] == ([] if expected is not None else ["wrong type"])
        assert form(kind).to_json(decoded.tuples.column("v")) == ([] if expected is None else [expected])


@pytest.mark.parametrize(("type_", "text"), [(type_, text) for type_, texts in WRONG.items() for text in texts])
def test_what_is_not_read(type_, text):
    records = pa.array([f'{{"v": {text}}}'.encode()], pa.binary())
    ((_, reason),) = decode(records, (("v", parse_type(type_)),)).bad
    assert reason.startswith(f"wrong type: v: expected {type_}, got ")


@pytest.mark.parametrize(
    ("type_", "text", "where"),
    [
        ("list<tuple<sku: string, price: decimal(2)>>", '[{"sku": "a", "price": 1}, {"sku": "b", "price": 1.005}]',
         f"v[1].price: expected decimal(2), got 1.005{json_form(parse_type('decimal(2)')).remark(1.005)}"),
        ("list<tuple<sku: string, n: int64>>?", '[{"n": 1}]', "v[0].sku: expected string, got nothing"),
        ("map<string, list<int64>>", '{"a b": [1, "2"]}', 'v["a b"][1]: expected int64, got "2"'),
        ("tuple<a: tuple<b: tuple<c: boolean>?>>", '{"a": {"b": {"c": 0}}}', "v.a.b.c: expected boolean, got 0"),
        ("tuple<a: int64>", f'{{"a": {"[" * 900}{"]" * 900}}}', "v.a: expected int64, got a deeply nested value"),
    ],
)  # fmt: skip
def test_the_reason_names_the_place_of_a_wrong_value_inside(type_, text, where):
    ((_, reason),) = decode(pa.array([f'{{"v": {text}}}'.encode()], pa.binary()), (("v", parse_type(type_)),)).bad
    assert reason.partition("; at ")[2] == where


@pytest.mark.parametrize("type_", READ)
def test_what_is_written_is_read_again(type_):
    kind = parse_type(type_)
    records = pa.array([f'{{"v": {text}}}'.encode() for text in READ[type_]], pa.binary())
    tuples = decode(records, (("v", kind),)).tuples
    assert decode(encode(tuples), (("v", kind),)).tuples.equals(tuples)
    row = csv_rows.decode(csv_rows.encode(tuples.slice(0, 1), ","), (("v", kind),), ",", {})  # an empty field is null
    assert row.tuples.equals(tuples.slice(0, 1))
    assert plain_text.read(plain_text.written(tuples.column(0)), kind)[0].equals(tuples.column(0))


def test_a_subtree_is_written_as_it_was():
    schema = (("id", parse_type("int64")), ("doc", parse_type("json")), ("all", parse_type("list<json>")))
    record = b'{"id":1,"doc":{"b": [1.50, "\\u00e9"],  "a":1e2},"all":[ 1.0,{"x": {}}]}'
    assert encode(decode(pa.array([record], pa.binary()), schema).tuples).to_pylist() == [
        b'{"id":1,"doc":{"b": [1.50, "\\u00e9"],  "a":1e2},"all":[1.0,{"x": {}}]}'
    ]


def test_special_numbers_and_times_inside_are_written_as_those_of_attributes():
    kind = parse_type("tuple<x: float64, t: timestamp?, m: map<int64, float64>>")
    column = array_of([(float("nan"), None, ((1, float("inf")),)), (-0.0, 500_000_000, ())], kind)
    written = encode(pa.RecordBatch.from_arrays([column], schema=arrow_schema((("v", kind),))))
    assert written.to_pylist() == [
        b'{"v":{"x":"NaN","t":null,"m":{"1":"Infinity"}}}',
        b'{"v":{"x":-0.0,"t":"1970-01-01T00:00:00.5Z","m":{}}}',
    ]


# ---- random values: those that are read together are those that are read one by one ----------------------------------

INSIDE = (("x", Spelling(coerce=True)), ("t", Spelling(unit="ms")), ("d", Spelling(pattern="%d.%m.%Y")))
RANDOM = {
    "tuple<a: int64, s: string?, x: float64?, j: json?, l: list<int64>>": Spelling(),
    "tuple<x: float64, t: timestamp?, d: timestamp?, p: decimal(2)?>?": Spelling(inside=INSIDE),
    "list<tuple<x: float64?, t: timestamp, m: map<string, int64>?>>": Spelling(inside=INSIDE),
    "list<list<tuple<a: int64?>?>>?": Spelling(coerce=True),
    "tuple<a: int64, o: tuple<b: boolean?, l: list<tuple<s: string>>>?>": Spelling(),
}
SCALARS = [
    "1", "-7", "1.5", '"2.25"', "null", "true", '"x"', '""', "1700000000000", '"31.01.2024"', '"7"', "0.05", "1e3",
    '"2024-01-31T10:00:00Z"', "{}", "[]", '"a\\u0062"', "99999999999999999999",
]  # fmt: skip
FITTING = {
    "int64": ["1", "-7"], "string": ['"x"', '"a\\u0062"'], "float64": ["1.5", "2"], "json": ['{"a": [1]}'],
    "timestamp": ["1700000000000"], "decimal(2)": ["0.05", '"7"'], "boolean": ["true"],
}  # fmt: skip


def text_of(chance: random.Random, type_: Type) -> str:
    """Mostly a text of the type, else another value."""
    if chance.random() < 0.06:
        return chance.choice(SCALARS)
    if type_.optional:
        return "null" if chance.random() < 0.3 else text_of(chance, type_.present)
    if isinstance(type_, StructType):
        names = [name for name, inner in type_.members if not inner.optional or chance.random() < 0.8]
        chance.shuffle(names)
        parts = dict(type_.members)
        return "{ " + ", ".join(f'"{name}": {text_of(chance, parts[name])}' for name in names) + "}"
    if type_.element is not None:
        return "[" + ", ".join(text_of(chance, type_.element) for _ in range(chance.randrange(3))) + " ]"
    if type_.parts:
        return '{"k": ' + text_of(chance, type_.parts[1]) + "}"
    return chance.choice(FITTING[str(type_)])


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("type_", RANDOM)
def test_values_that_are_read_together_are_those_that_are_read_one_by_one(type_: str, number: int):
    chance, kind = random.Random(f"{type_} {number}"), parse_type(type_)
    records = pa.array([f'{{"v": {text_of(chance, kind)}}}'.encode() for _ in range(30)], pa.binary())
    members = {"v": Member(spelling=RANDOM[type_])}
    fast, exact = (read(records, (("v", kind),), members=members) for read in (decode, decode_exactly))
    assert fast.bad == exact.bad
    assert fast.tuples.equals(exact.tuples)
    assert len(fast.good) > 0
