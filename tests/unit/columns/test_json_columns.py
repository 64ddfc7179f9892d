"""Values of JSON documents as attributes, and back: the same rules as those for the values of records."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sluice.columns.json_columns import column, fits, json_values, nanoseconds, python_values, shown_values
from sluice.json_texts import text_with_digits, with_digits
from sluice.model.types import parse_type
from sluice.wire.json.json_codec import decode
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import NotOfTypeError

VALUES: list[Any] = [
    True, 0, 1, -5, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 0.0, 1.0, 1.5, -0.1, 1e300, "", "a", "NaN", "Infinity",
    "-Infinity", "nan", "2013-01-01", "2013-01-01T05:15", "2013-01-01 05:15:00", "2013-01-01T05:15:00.000000001Z",
    "2013-01-01T05:15:00+01:00", "2013-01-01T05:15:00-0100", "2013-01-01T05", "2013-13-01", "1500-01-01T00:00:00Z",
    "2013-01-01T05:15:00.1234567891Z", "2013-01-01T25:00", [], [1], ["a"], [1.5, "NaN"], [[1]], None, {},
]  # fmt: skip


TYPES = ["boolean", "int64", "float64", "string", "timestamp", "list<int64>", "list<float64>"]


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_accepts_what_a_record_may_hold(value: Any, type_: str):
    try:
        read = json_form(parse_type(type_)).read(value)
    except NotOfTypeError:
        assert not fits(value, parse_type(type_))
    else:
        array = column([value], parse_type(type_))
        assert repr(array.view("int64").to_pylist() if type_ == "timestamp" else array.to_pylist()) == repr([read])


def test_a_column_may_mix_forms():
    times = column(["1970-01-01", "1970-01-01T01:00:00+01:00", 1, 0.5, "1970-01-01T00:00:00Z"], parse_type("timestamp"))
    assert times.view(pa.int64()).to_pylist() == [0, 0, 10**9, 5 * 10**8, 0]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [True, False]),
        ("int64", [0, -(2**63)]),
        ("float64", [1.0, "NaN", "Infinity", "-Infinity"]),
        ("string", ["", "é"]),
        ("timestamp", ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.9Z", "2013-01-01T05:15:10.000000001Z"]),
        ("list<float64>", [[], [1.0, "NaN"], [2.0]]),
        ("list<list<int64>>", [[[1], []], []]),
    ],
)
def test_comes_back_as_it_was(type_: str, values: list[Any]):
    assert json_values(column(values, parse_type(type_)), parse_type(type_)) == values
    assert json_values(column(values, parse_type(type_)).slice(1), parse_type(type_)) == values[1:]


def test_in_python_what_is_not_finite_is_a_float():
    found = python_values(column([["NaN", 1.0]], parse_type("list<float64>")), parse_type("list<float64>"))
    assert math.isnan(found[0][0])
    assert found[0][1] == 1.0


@pytest.mark.parametrize(("seconds", "tenths"), [(1, 10), (0.1, 1), (1.1, 11), (1e-10, 0), (-2.5, -25)])
def test_seconds_are_exact_decimals(seconds: float, tenths: int):
    assert nanoseconds(seconds) == tenths * 10**8


DIGITS = '{"big": 12345678901234567890, "huge": 123456789012345678901234567890, "price": 1.10, "x": [2.5, -0.0]}'


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("json", DIGITS),
        ("json?", DIGITS),
        ("list<json>", f"[{DIGITS}, 1.10]"),
        ("map<string, json>", f'{{"a": {DIGITS}, "b": 1.10}}'),
        ("tuple<a: json, b: int64>", f'{{"a": {DIGITS}, "b": 1}}'),
    ],
)
def test_numbers_of_a_json_are_shown_with_their_digits(type_: str, text: str):
    kind = parse_type(type_)
    array = decode(pa.array([f'{{"v": {text}}}'.encode()], pa.binary()), (("v", kind),)).tuples.column(0)
    (value,) = shown_values(array, kind)
    assert text_with_digits(value) == text
    assert text_with_digits(with_digits(text_with_digits(value))) == text


def test_a_value_that_a_float64_has_as_it_is_written_is_a_float():
    assert with_digits('[1.5, 1, "1.10"]') == [1.5, 1, "1.10"]
    assert [type(value) for value in with_digits("[1.5, 1e5, 1.10]")] == [float, Decimal, Decimal]
