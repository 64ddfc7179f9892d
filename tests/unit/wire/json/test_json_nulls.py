"""Null in JSON (NU2, NU3, NU5): the scanner and the exact decoder agree, and null is written or left out."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.model.members import Member
from sluice.model.spec import Coding
from sluice.model.types import parse_type
from sluice.wire.decoded_records import Decoded
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.json_format import JsonOptions
from sluice.wire.json import json_batch, json_codec

TYPES = ("int64?", "float64?", "string?", "boolean?", "timestamp?", "decimal(2)?", "int64")
SCHEMA = tuple(zip("abcdefg", map(parse_type, TYPES), strict=True))
ABSENT = dict.fromkeys("abcdef")
VALUES = st.sampled_from(
    ["null", "1", "2.5", '"x"', '"\\n"', "true", '"2020-01-01T00:00:00Z"', "nul", "[]", '"NaN"', "-0", "{}"]
)
#: h is no attribute; the last names are a and g with an escape
NAMES = st.sampled_from([*"abcdefgh", "\\u0061", "\\u0067"])
RECORDS = st.lists(st.tuples(NAMES, VALUES), max_size=8)


def decoded(text, schema=SCHEMA, **how):
    found = json_codec.decode(pa.array([text]), schema, **how)
    return found.tuples.to_pylist()[0] if not found.bad else found.bad[0][1]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'{"g":1}', ABSENT | {"g": 1}),
        (b'{"a":null,"c":null,"g":1}', ABSENT | {"g": 1}),
        (b'{"a":1,"a":null,"g":1}', ABSENT | {"g": 1}),
        (b'{"a":null,"a":7,"g":1}', ABSENT | {"a": 7, "g": 1}),
    ],
)
def test_a_missing_or_null_optional_attribute_is_null(text, values):
    assert decoded(text) == values
    assert json_batch.decode_scannable(pa.array([text]), SCHEMA)[1].all()  # not one by one


@pytest.mark.parametrize("text", [b'{"\\u0061":7,"g":1}', b'{"a":5,"\\u0061":7,"g":1}'])
def test_the_name_of_an_optional_attribute_may_have_escapes(text):
    """A scanner that did not know the name would take the attribute for one that is missing."""
    assert decoded(text) == ABSENT | {"a": 7, "g": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{}", "missing attribute: g: expected int64, got nothing"),
        (b'{"g":null}', "null attribute: g: expected int64, got null"),
        (b'{"a":"x","g":1}', 'wrong type: a: expected int64?, got "x"'),
    ],
)
def test_a_record_that_is_a_dead_letter(text, reason):
    assert decoded(text) == reason


def test_a_default_takes_the_place_of_null():
    assert decoded(b'{"b":null,"g":1}', defaults={"a": 9, "b": 0.5}) == ABSENT | {"a": 9, "b": 0.5, "g": 1}


@pytest.mark.parametrize("text", [b"{}", b'{"p":null}', b'{"p":5}', b'{"p":{}}', b'{"p":{"q":null}}'])
def test_null_at_a_path(text):
    """A step of the path may be missing, too (NU2)."""
    assert decoded(text, (("a", parse_type("int64?")),), members={"a": Member(path=("p", "q"))}) == {"a": None}


@settings(max_examples=300, derandomize=True)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from([{}, {"a": 9}]))
def test_the_scanner_and_the_exact_decoder_agree(records, defaults):
    texts = ["{" + ",".join(f'"{name}":{value}' for name, value in record) + "}" for record in records]
    values = pa.array([text.encode() for text in texts])
    found = json_codec.decode(values, SCHEMA, defaults)
    exact = json_codec.decode_exactly(values, SCHEMA, defaults)
    assert shown(found) == shown(exact)


def shown(result: Decoded) -> tuple[str, list[int], list[tuple[int, str]]]:
    """The result in a form that compares, also with NaN."""
    return repr(result.tuples.to_pylist()), result.good.tolist(), result.bad


ROWS = [{"a": 1, "b": None, "c": "x"}, {"a": None, "b": None, "c": None}, {"a": None, "b": 2.5, "c": None}]


def encoded(options):
    form = codec(Part(Coding("json", options), SCHEMA[:3]))
    return form.encode(pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(SCHEMA[:3]))).to_pylist()


def test_null_is_written_as_null():
    assert encoded(JsonOptions()) == [
        b'{"a":1,"b":null,"c":"x"}', b'{"a":null,"b":null,"c":null}', b'{"a":null,"b":2.5,"c":null}',
    ]  # fmt: skip


def test_null_is_left_out():
    assert encoded(JsonOptions(omit=True)) == [b'{"a":1,"c":"x"}', b"{}", b'{"b":2.5}']


INSIDE = (
    ("z", parse_type("tuple<a: int64?, b: tuple<c: string?, d: decimal(2)?>?, l: list<tuple<x: int64?>?>?>?")),
    ("m", parse_type("map<string, tuple<y: float64?>?>")),
    ("l", parse_type("list<int64?>")),
)


@pytest.mark.parametrize(
    ("written", "without"),
    [
        (
            b'{"z":{"a":null,"b":{"c":null,"d":1.50},"l":[{"x":null},null]},"m":{"k":{"y":null},"n":null},"l":[null]}',
            b'{"z":{"b":{"d":1.50},"l":[{},null]},"m":{"k":{},"n":null},"l":[null]}',
        ),
        (b'{"z":null,"m":{},"l":[]}', b'{"m":{},"l":[]}'),
        (b'{"z":{"a":null,"b":null,"l":null},"m":{},"l":[1]}', b'{"z":{},"m":{},"l":[1]}'),
        (b'{"z":{"a":1,"b":{"c":"x","d":null},"l":[]},"m":{"k":{"y":0.5}},"l":[]}',
         b'{"z":{"a":1,"b":{"c":"x"},"l":[]},"m":{"k":{"y":0.5}},"l":[]}'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("decimals", ["number", "string"])
def test_members_of_structs_are_left_out_and_elements_and_values_of_maps_stay(written, without, decimals):
    texts = [text if decimals == "number" else text.replace(b"1.50", b'"1.50"') for text in (written, without)]
    for omit in (False, True):
        form = codec(Part(Coding("json", JsonOptions(decimals, omit)), INSIDE))
        decoded = [form.decode(pa.array([text])).tuples for text in texts]
        assert decoded[0] == decoded[1]  # a missing member is null (ST2)
        assert form.encode(decoded[0]).to_pylist() == [texts[omit]]


def test_an_object_whose_attributes_are_all_null_is_left_out():
    members = {"a": Member(path=("o", "a")), "b": Member(path=("o", "p", "b"))}
    form = codec(Part(Coding("json", JsonOptions(omit=True)), SCHEMA[:3], members=members))
    tuples = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(SCHEMA[:3]))
    assert form.encode(tuples).to_pylist() == [b'{"o":{"a":1},"c":"x"}', b"{}", b'{"o":{"p":{"b":2.5}}}']


@pytest.mark.parametrize("omit", [False, True])
@pytest.mark.parametrize(
    ("type_", "rows"),
    [
        ("map<string, string>?", [[("a", "x")], None, [], [("b", "y"), ("c", "z")]]),
        ("map<string, int64?>?", [[("a", None)], None, [], [("b", 2), ("c", None)]]),
        ("list<json>?", [["1"], None, [], ["2", "[]"]]),
        ("list<map<string, string>>?", [[[("a", "x")]], None, [], [[], [("b", "y")]]]),
        ("list<tuple<a: int64?>>?", [[(None,)], None, [], [(1,), (None,)]]),
        ("list<string>?", [["a"], None, [], ["b", "c"]]),
    ],
)
def test_a_slice_is_written_as_its_rows_are(type_, rows, omit):
    """The rows of a part of a batch are a slice."""
    schema = (("v", parse_type(type_)),)
    form = codec(Part(Coding("json", JsonOptions(omit=omit)), schema))

    def batch(some):
        return pa.RecordBatch.from_arrays([array_of(some, schema[0][1])], schema=arrow_schema(schema))

    for first in range(len(rows)):
        for last in range(first + 1, len(rows) + 1):
            sliced = batch(rows).slice(first, last - first)
            assert form.encode(sliced).to_pylist() == form.encode(batch(rows[first:last])).to_pylist()
