"""Attributes of JSON at paths, in every spelling: cases, and the scanner against the exact decoder."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.syntax.member_path import member_path
from sluice.model.members import Member, Spelling
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of, parse_type
from sluice.wire.json.json_batch import decode_scannable, scannable
from sluice.wire.json.json_codec import decode, decode_exactly
from sluice.wire.json.json_write import encode
from tests.unit.wire.json.test_json_batch import FITTING, SCALARS, SIMPLE, bits, mutated

MS = 1_000_000


def at(path, **spelling):
    return Member(None if path is None else member_path(path), Spelling(**spelling))


def read(record, type_, member, defaults=None):
    """The value of attribute `a` of a record, or the reason why it is a dead letter."""
    text = record if isinstance(record, bytes) else record.encode()
    decoded = decode(pa.array([text], pa.binary()), (("a", type_),), defaults or {}, {"a": member})
    if decoded.bad:
        return decoded.bad[0][1]
    column = decoded.tuples.column(0)
    return column.cast(pa.int64())[0].as_py() if type_ == TIMESTAMP else column[0].as_py()


# ---- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "record", "value"),
    [
        ("payload.after.amount", '{"payload":{"before":null,"after":{"amount":7}}}', 7),
        ('["order-id"]', '{"order-id":7,"order":{"id":8}}', 7),
        ('["a.b"]', '{"a":{"b":8},"a.b":7}', 7),
        ("a.b", '{"a":{"b":7},"a.b":8}', 7),
        ("items[0].price", '{"items":[{"price":7},{"price":8}]}', 7),
        ("items[1].price", '{"items":[{"price":8},{"price":7},{}]}', 7),
        ("rows[0][1]", '{"rows":[[8,7],[9]]}', 7),
        ("[1].x", '[3,{"x":7}]', 7),
        ('x["é"]["a b"]', '{"x":{"é":{"a b":7}}}', 7),
        ("x.y", ' { "x" : { "z" : [ { } , [ ] ] , "y" : 7 } , "w" : 1 } ', 7),
        ("x.y", '{"x":{"y":8},"x":{"y":7}}', 7),
        ("x.y", '{"x":{"y":8,"y":7}}', 7),
        ("x.y", '{"x":3,"x":{"y":7}}', 7),
        ("x.y", '{"\\u0078":{"\\u0079":7}}', 7),
    ],
)
def test_a_path_leads_to_the_value(path: str, record: str, value: int):
    assert read(record, INT64, at(path)) == value


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{}", "missing attribute: a: expected int64 at x.y[1], got nothing"),
        ('{"x":{}}', "missing attribute: a: expected int64 at x.y[1], got nothing"),
        ('{"x":null}', "missing attribute: a: expected int64 at x.y[1], got null at x"),
        ('{"x":"text"}', 'missing attribute: a: expected int64 at x.y[1], got "text" at x'),
        ('{"x":{"y":[7]}}', "missing attribute: a: expected int64 at x.y[1], got a list of 1 at x.y"),
        ('{"x":{"y":{"1":7}}}', "missing attribute: a: expected int64 at x.y[1], got nothing"),
        ('{"x":{"y":[7,8]},"x":{}}', "missing attribute: a: expected int64 at x.y[1], got nothing"),
        ('{"x":{"y":[7,8]},"x":null}', "missing attribute: a: expected int64 at x.y[1], got null at x"),
        ('{"x":{"y":[7,null]}}', "null attribute: a: expected int64 at x.y[1], got null"),
        ('{"x":{"y":[7,"8"]}}', 'wrong type: a: expected int64 at x.y[1], got "8"'),
    ],
)
def test_a_record_without_the_value_is_a_dead_letter_that_names_the_path(record: str, reason: str):
    assert read(record, INT64, at("x.y[1]")) == reason


@pytest.mark.parametrize("exponent", ["-400", "-999999999", "-4003372036854775809"])
def test_a_number_with_any_exponent_is_a_value_or_a_dead_letter(exponent: str):
    """No Decimal has an exponent of 19 digits; such a record must not end the batch."""
    record = f'{{"x":{{"y":1e{exponent}}}}}'
    assert read(record, FLOAT64, at("x.y", coerce=True)) == 0
    assert read(record, TIMESTAMP, at("x.y")) == 0
    assert "decimal(2)" in read(record, parse_type("decimal(2)"), at("x.y"))
    assert "got -9223372036854775809 " in read('{"x":{"y":-9223372036854775809}}', parse_type("decimal(2)"), at("x.y"))
    assert read(f'{{"x":{{"y":7}},"z":0e{exponent}}}', parse_type("decimal(2)"), at("x.y")) == 7


@pytest.mark.parametrize("record", ["{}", '{"x":null}', '{"x":5}', '{"x":{"y":[7]}}', '{"x":{"y":[7,null]}}'])
def test_a_default_replaces_a_value_that_is_missing_or_null(record: str):
    assert read(record, INT64, at("x.y[1]"), {"a": 5}) == 5


@pytest.mark.parametrize("record", ["{}", '{"x":null}', '{"x":5}', '{"x":{"y":[7]}}', '{"x":{"y":[7,null]}}'])
def test_an_optional_attribute_is_null_if_its_path_finds_nothing(record: str):
    assert read(record, parse_type("int64?"), at("x.y[1]")) is None


def test_the_whole_value_is_an_attribute():
    assert [read(text, list_of(INT64), Member(())) for text in ("[1,2]", "7", "")] == [
        [1, 2],
        "wrong type: a: expected list<int64>, got 7",
        "no value: expected a JSON value, got nothing",
    ]


def test_several_attributes_of_one_member_and_of_members_around_it():
    schema = (("ms", INT64), ("time", TIMESTAMP), ("day", INT64))
    members = {"ms": at("at.ts"), "time": at("at.ts", unit="ms"), "day": at("at.day")}
    values = pa.array([b'{"at":{"day":3,"ts":1500}}'], pa.binary())
    tuples, sure = decode_scannable(values, schema, members)
    assert sure.all()
    assert [column.cast(pa.int64())[0].as_py() for column in tuples.columns] == [1500, 1500 * MS, 3]


@pytest.mark.parametrize(
    "text",
    [
        b'{"payload":{"after":{"amount":1.5,"id":"x"},"before":null},"items":[{"price":2.5},7]}',
        b' { "items" : [ { "price" : 2.5 } ] , "op" : "c", "payload" : { "after" : { "id" : "" , "amount" : 1 } } } ',
    ],
)
def test_ordinary_nested_records_take_the_fast_way(text: bytes):
    schema = (("id", STRING), ("amount", FLOAT64), ("price", FLOAT64))
    members = {
        "id": at("payload.after.id"), "amount": at("payload.after.amount"), "price": at("items[0].price"),
    }  # fmt: skip
    values = pa.array([text], pa.binary())
    tuples, sure = decode_scannable(values, schema, members)
    assert sure.all()
    assert bits(tuples) == bits(decode_exactly(values, schema, members=members).tuples)


# ---- spellings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (INT64, "7", 7),
        (INT64, "7.0", 7),
        (INT64, '"7"', 7),
        (INT64, '"7.0"', 7),
        (INT64, "1e3", 1000),
        (INT64, '"9007199254740993.0"', 9007199254740993),
        (INT64, "9223372036854775807.0", 2**63 - 1),
        (INT64, '"-0"', 0),
        (FLOAT64, '"0.5"', 0.5),
        (FLOAT64, '"NaN"', "nan"),
        (FLOAT64, "7", 7.0),
        (BOOLEAN, "1", True),
        (BOOLEAN, "0", False),
        (BOOLEAN, '"true"', True),
        (BOOLEAN, '"False"', False),
        (BOOLEAN, '"1"', True),
        (BOOLEAN, "1.0", True),
        (STRING, "7", "7"),
        (STRING, "1.10", "1.10"),
        (STRING, "1e3", "1e3"),
        (STRING, "12345678901234567890123", "12345678901234567890123"),
        (STRING, "true", "true"),
        (STRING, '"x"', "x"),
        (list_of(INT64), '[7,"8",9.0]', [7, 8, 9]),
    ],
)
def test_coerce_reads_the_text_of_a_value(type_, value: str, expected: object):
    got = read(f'{{"a":{value}}}', type_, at(None, coerce=True))
    assert (str(got) if expected == "nan" else got) == expected


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (INT64, "7.5"),
        (INT64, '"7.5"'),
        (INT64, '"+7"'),
        (INT64, '" 7"'),
        (INT64, '"007"'),
        (INT64, '""'),
        (INT64, "true"),
        (INT64, "9223372036854775808"),
        (INT64, '"1e999999999"'),
        (INT64, '"1e-999999999"'),
        (FLOAT64, '"0,5"'),
        (FLOAT64, '".5"'),
        (FLOAT64, '"1e999"'),
        (BOOLEAN, "2"),
        (BOOLEAN, '"yes"'),
        (STRING, "{}"),
        (STRING, "[]"),
        (TIMESTAMP, '"soon"'),
        (TIMESTAMP, "true"),
    ],
)
def test_coerce_does_not_read_what_is_no_value_of_the_type(type_, value: str):
    assert str(read(f'{{"a":{value}}}', type_, at(None, coerce=True))).startswith(f"wrong type: a: expected {type_}")


@pytest.mark.parametrize(
    ("type_", "value"),
    [(INT64, "7.0"), (INT64, '"7"'), (FLOAT64, '"0.5"'), (BOOLEAN, "1"), (STRING, "7"), (TIMESTAMP, '"1704103200000"')],
)
def test_without_coerce_a_value_of_another_spelling_is_a_dead_letter(type_, value: str):
    assert str(read(f'{{"a":{value}}}', type_, at(None))).startswith("wrong type")


@pytest.mark.parametrize(
    ("type_", "expected"),
    [("int64?", None), ("float64?", None), ("decimal(2)?", None), ("boolean?", None), ("timestamp?", None),
     ("string?", ""), ("list<int64?>", "wrong type"), ("list<int64>?", None)],
)  # fmt: skip
def test_coerce_reads_an_empty_text_of_an_optional_attribute_as_null(type_: str, expected: object):
    got = read('{"a":""}', parse_type(type_), at(None, coerce=True))
    assert str(got).startswith(expected) if expected else got == expected
    assert str(read('{"a":""}', parse_type(type_), at(None))).startswith("" if type_ == "string?" else "wrong type")


def test_coerce_reads_an_empty_text_in_a_list_as_null():
    assert read('{"a":["7","",8]}', parse_type("list<int64?>"), at(None, coerce=True)) == [7, None, 8]


def test_coerce_reads_no_null():
    assert read('{"a":null}', STRING, at(None, coerce=True)) == "null attribute: a: expected string, got null"


# ---- times -----------------------------------------------------------------------------------------------------------

TEN = 1704103200  # 2024-01-01T10:00:00Z


@pytest.mark.parametrize(
    ("spelling", "value", "nanoseconds"),
    [
        ({"unit": "d"}, "19723", TEN * 1000 * MS - 36_000_000 * MS),
        ({"unit": "d"}, "-1", -86_400_000 * MS),
        ({"unit": "d"}, "0.5", 43_200_000 * MS),
        ({"unit": "s"}, "1704103200", TEN * 1000 * MS),
        ({"unit": "s"}, "1704103200.5", TEN * 1000 * MS + 500 * MS),
        ({"unit": "ms"}, "1704103200000", TEN * 1000 * MS),
        ({"unit": "ms"}, "1704103200000.25", TEN * 1000 * MS + 250_000),
        ({"unit": "us"}, "1704103200000001", TEN * 1000 * MS + 1000),
        ({"unit": "ns"}, "1704103200000000001", TEN * 1000 * MS + 1),
        ({"unit": "ms"}, "-1", -MS),
        ({"unit": "ms"}, '"2024-01-01T10:00:00Z"', TEN * 1000 * MS),
        ({"unit": "ms", "coerce": True}, '"1704103200000"', TEN * 1000 * MS),
        ({"coerce": True}, '"1704103200"', TEN * 1000 * MS),
        ({"coerce": True}, '"2024-01-01T10:00:00Z"', TEN * 1000 * MS),
        ({"pattern": "%d/%m/%Y %H:%M:%S"}, '"01/01/2024 10:00:00"', TEN * 1000 * MS),
        ({"pattern": "%Y-%m-%d %H:%M:%S.%f"}, '"2024-01-01 10:00:00.000001"', TEN * 1000 * MS + 1000),
        ({"pattern": "%Y-%m-%dT%H:%M%z"}, '"2024-01-01T12:00+0200"', TEN * 1000 * MS),
        ({"pattern": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"}, '"01.01.2024 11:00"', TEN * 1000 * MS),
        ({"pattern": "%d %b %Y, %I %p"}, '"01 Jan 2024, 10 AM"', TEN * 1000 * MS),
        ({"pattern": "%Y%m%d", "coerce": True}, "20240101", (TEN - 36_000) * 1000 * MS),
        # the hour that the change of the clocks repeats, and the one that it skips
        ({"pattern": "%Y-%m-%d %H:%M", "zone": "Europe/Berlin"}, '"2023-10-29 02:30"', 1698539400 * 1000 * MS),
        ({"pattern": "%Y-%m-%d %H:%M", "zone": "Europe/Berlin"}, '"2023-03-26 02:30"', 1679794200 * 1000 * MS),
    ],
)
def test_a_time_is_read_in_its_unit_or_by_its_pattern(spelling: dict, value: str, nanoseconds: int):
    assert read(f'{{"a":{value}}}', TIMESTAMP, at(None, **spelling)) == nanoseconds


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ({"unit": "ms"}, "9223372036855"),
        ({"unit": "ns"}, "9223372036854775808"),
        ({"unit": "d"}, "106752"),
        ({"unit": "s"}, "-9223372037"),
        ({"unit": "ms"}, '"1704103200000"'),
        ({"unit": "ms", "coerce": True}, '"9223372036855"'),
        ({"unit": "ms", "coerce": True}, '"1e400"'),
        ({"pattern": "%Y-%m-%d"}, '"2263-01-01"'),
        ({"pattern": "%Y-%m-%d"}, '"2024-02-30"'),
        ({"pattern": "%Y-%m-%d"}, '"2024-01-01 "'),
        ({"pattern": "%Y-%m-%d"}, "20240101"),
        ({"pattern": "%Y-%m-%dT%H%z"}, '"9999-12-31T23-0200"'),
    ],
)
def test_a_time_out_of_range_or_of_another_form_is_a_dead_letter(spelling: dict, value: str):
    reason = str(read(f'{{"a":{value}}}', TIMESTAMP, at(None, **spelling)))
    assert reason.startswith("wrong type: a: expected timestamp, got ")


@pytest.mark.parametrize(
    ("spelling", "written"),
    [
        ({"unit": "d"}, "19723"),
        ({"unit": "s"}, "1704103200"),
        ({"unit": "ms"}, "1704103200123"),
        ({"unit": "us"}, "1704103200123456"),
        ({"unit": "ns"}, "1704103200123456789"),
        ({"pattern": "%d/%m/%y %H:%M:%S.%f"}, '"01/01/24 10:00:00.123456"'),
        ({"pattern": "%Y-%m-%d %H:%M%z", "zone": ""}, '"2024-01-01 10:00+0000"'),
        ({"pattern": "%d %b %Y %I:%M %p", "zone": "America/New_York"}, '"01 Jan 2024 05:00 AM"'),
        ({}, '"2024-01-01T10:00:00.123456789Z"'),
    ],
)
def test_a_time_is_written_in_its_unit_or_by_its_pattern(spelling: dict, written: str):
    column = pa.array([TEN * 1000 * MS + 123_456_789]).view(pa.timestamp("ns", "UTC"))
    value = encode(pa.RecordBatch.from_arrays([column], ["a"]), {"a": at(None, **spelling)})
    assert value.to_pylist() == [f'{{"a":{written}}}'.encode()]


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "written"),
    [
        ({"a": "a", "b": "b", "c": "c"}, '{"a":1,"b":"x","c":0.5}'),
        ({"a": '["order-id"]', "b": "b", "c": "c"}, '{"order-id":1,"b":"x","c":0.5}'),
        ({"a": "customer.id", "b": "customer.name", "c": "total"}, '{"customer":{"id":1,"name":"x"},"total":0.5}'),
        ({"a": "o.p.q", "b": "top", "c": "o.r"}, '{"o":{"p":{"q":1},"r":0.5},"top":"x"}'),
        ({"a": '["a.b"]', "b": "a.b", "c": "c"}, '{"a.b":1,"a":{"b":"x"},"c":0.5}'),
    ],
)
def test_objects_are_written_in_the_place_of_their_first_attribute(paths: dict, written: str):
    batch = pa.RecordBatch.from_pydict({"a": [1], "b": ["x"], "c": [0.5]})
    value = encode(batch, {name: at(path) for name, path in paths.items()})
    assert value.to_pylist() == [written.encode()]


def test_a_number_that_json_does_not_have_is_a_word_in_objects_too():
    batch = pa.RecordBatch.from_pydict({"a": [float("nan"), 1.0]})
    assert encode(batch, {"a": at("x.y")}).to_pylist() == [b'{"x":{"y":"NaN"}}', b'{"x":{"y":1.0}}']


# ---- random records --------------------------------------------------------------------------------------------------

STEPS = st.one_of(st.sampled_from(["a", "b", "é", 'q"', "a.b"]), st.sampled_from([0, 1]))
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(
    lambda steps: tuple(["top", *steps] if steps[0] in (0, 1) else steps)
)
SPELLINGS = st.builds(Spelling, coerce=st.booleans(), unit=st.sampled_from(["", "", "d", "s", "ms", "us", "ns"]))


@st.composite
def plans(draw):
    """A schema whose attributes are at random paths, in random spellings."""
    paths = draw(st.lists(PATHS, min_size=1, max_size=4))
    schema = tuple((f"x{number}", draw(SCALARS)) for number in range(len(paths)))
    return schema, {name: Member(path, draw(SPELLINGS)) for (name, _), path in zip(schema, paths, strict=True)}


def spelled(node):
    """The JSON text of a tree: a dict of members, or of elements, or the text of a value."""
    if isinstance(node, str):
        return node
    if node and all(isinstance(step, int) for step in node):
        return "[" + ",".join(spelled(node.get(index, "null")) for index in range(max(node) + 1)) + "]"
    return "{" + ",".join(f"{json.dumps(str(step))}:{spelled(inner)}" for step, inner in node.items()) + "}"


@st.composite
def nested(draw, schema, members):
    """A record that mostly has its attributes, some of them in another spelling, and other members between."""
    root: dict = {}
    for name, type_ in draw(st.permutations(schema)):
        node = root
        if draw(st.integers(0, 9)) == 0:
            node[draw(st.sampled_from(["a", "b", "top", "c"]))] = draw(
                st.sampled_from(["null", "7", "[]", "{}", "[{}]"])
            )
        *way, last = members[name].path
        for step in way:
            if not isinstance(node.get(step, {}), dict):
                break
            node = node.setdefault(step, {})
        value = draw(FITTING[type(type_)]) if draw(st.integers(0, 5)) else draw(SIMPLE)
        node[last] = json.dumps(value) if value[:1] != '"' and draw(st.integers(0, 5)) == 0 else value
    text = spelled(root)
    if draw(st.integers(0, 7)) == 0 and len(text) > 2:  # two members of one name
        text = text[:-1] + "," + draw(nested(schema, members)).decode(errors="surrogatepass")[1:]
    return text.encode(errors="surrogatepass")


@st.composite
def nested_batches(draw):
    schema, members = draw(plans())
    return schema, members, draw(st.lists(nested(schema, members).flatmap(mutated), max_size=4))


@given(nested_batches())
@settings(max_examples=350)
def test_the_scanner_and_the_exact_decoder_agree_on_paths_and_spellings(batch):
    schema, members, values = batch
    values = pa.array(values, pa.binary())
    fast, exact = decode(values, schema, members=members), decode_exactly(values, schema, members=members)
    assert (fast.good.tolist(), fast.bad) == (exact.good.tolist(), exact.bad)
    assert bits(fast.tuples) == bits(exact.tuples)


def oracle(document, path):
    """The value at a path, by Python's objects alone; None if there is none."""
    for step in path:
        fits = isinstance(document, list) if isinstance(step, int) else isinstance(document, dict)
        try:
            document = document[step] if fits else None
        except (KeyError, IndexError):
            return None
    return document


@given(nested_batches())
@settings(max_examples=200)
def test_an_attribute_is_what_python_finds_at_its_path(batch):
    schema, members, values = batch
    strict = {name: Member(member.path) for name, member in members.items()}
    decoded = decode(pa.array(values, pa.binary()), schema, members=strict)
    for row, value in zip(decoded.good.tolist(), decoded.tuples.to_pylist(), strict=True):
        document = json.loads(values[row].decode())
        for name, type_ in schema:
            if type_ in (BOOLEAN, INT64, STRING):
                assert value[name] == oracle(document, strict[name].path)


def test_most_random_plans_are_for_the_scanner():
    """So that the comparison compares something."""
    assert scannable((("x", INT64), ("y", TIMESTAMP)), {"x": at("a.b[0]", coerce=True), "y": at("a.c", unit="ms")})
    assert not scannable((("x", INT64), ("y", INT64)), {"x": at("a.b"), "y": at("a[0]")})
    assert not scannable((("x", INT64), ("y", INT64)), {"x": at("a"), "y": at("a.b")})
