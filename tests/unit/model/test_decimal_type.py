"""The type decimal: its texts, its order, and what has its values (DE1, DE3, DE10, DE16, DE20)."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from sluice.columns import number_columns
from sluice.columns.arrow_types import array_of
from sluice.columns.column_forms import form
from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.types import INT64, parse_type, similar_type
from sluice.model.types.decimal_type import DecimalType
from sluice.testing import run_case


@pytest.mark.parametrize(
    ("text", "precision", "scale", "shown"),
    [
        ("decimal(2)", 18, 2, "decimal(2)"), ("decimal(0)", 18, 0, "decimal(0)"),
        ("decimal(18)", 18, 18, "decimal(18)"),
        ("decimal(38, 9)", 38, 9, "decimal(38, 9)"), ("numeric(10,2)", 10, 2, "decimal(10, 2)"),
        ("decimal( 1 , 1 )", 1, 1, "decimal(1, 1)"), ("decimal(18, 2)", 18, 2, "decimal(2)"),
    ],
)  # fmt: skip
def test_the_texts_of_a_type(text: str, precision: int, scale: int, shown: str):
    assert (parse_type(text), str(parse_type(text))) == (DecimalType(precision, scale), shown)


@pytest.mark.parametrize(
    "text", ["decimal", "decimal(19)", "decimal(39, 2)", "decimal(2, 3)", "decimal(0, 0)", "numeric"]
)
def test_texts_of_no_type(text: str):
    with pytest.raises(ValueError, match="decimal"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("DECIMAL(10,2)", "decimal(10, 2)"),
        ("decimal64", "decimal(2)"),
        ("money", "decimal(2)"),
        ("Numeric", "decimal(2)"),
    ],
)
def test_types_of_other_systems(text: str, meant: str):
    assert similar_type(text) == meant


def test_decimals_of_spl_are_named():
    file = """pipeline: p
streams: {a: {topic: a, schema: {x: decimal64}}, b: {topic: b}}
operators: [{name: m, map: a, output: {b: {}}}]"""
    with pytest.raises(PipelineError, match="SPL's decimal types have a floating point"):
        load_text(file, "p.yaml", environment={})


@pytest.mark.parametrize(
    ("other", "joined"),
    [("decimal(4)", "decimal(20, 4)"), ("decimal(1)", "decimal(19, 2)"), ("decimal(38, 9)", "decimal(38, 9)")],
)
def test_the_type_that_holds_both(other: str, joined: str):
    assert parse_type("decimal(2)").joined(parse_type(other)) == parse_type(joined)
    assert parse_type("decimal(2)").joined(INT64) == parse_type("decimal(21, 2)")
    assert parse_type("decimal(38, 20)").joined(INT64) is None


def test_bytes_compare_as_the_numbers_do():
    chance, type_ = random.Random(3), parse_type("decimal(38, 9)")
    numbers = [f"{chance.randrange(1 - 10**n, 10**n)}e-9" for n in range(1, 39) for _ in range(20)]
    column = array_of(numbers, type_)
    content = number_columns.ordered_bytes(column).reshape(-1, 16)
    order = sorted(range(len(numbers)), key=lambda row: bytes(content[row]))
    assert [Decimal(numbers[row]) for row in order] == sorted(map(Decimal, numbers))
    assert number_columns.of_ordered_bytes(content, column.type).equals(column)


def run(operator: dict[str, Any], prices: list[Any], type_: str = "decimal(2)") -> list[Any]:
    events = [{"at": float(n), "tuple": {"p": price}} for n, price in enumerate(prices)]
    records = run_case({"operator": operator | {"schema": {"p": type_}}, "input": events})
    return [record["tuple"] for record in records if "tuple" in record]


def test_a_delta_over_a_decimal():
    """0.05 is exactly 0.05: a rise by it is no flush, a rise by 0.06 is one."""
    operator = {"window": "tumbling, delta(p, 0.05)", "output": {"all": "Collect(p)"}}
    found = run(operator, ["0.10", "0.15", "0.16", "0.30"])
    assert [record["all"] for record in found] == [[Decimal("0.10"), Decimal("0.15")], [Decimal("0.16")]]


def test_a_sort_of_wide_decimals():
    values = ["-1e20", "2", "1e20", "-3", "0"]
    operator = {"kind": "sort", "window": "tumbling, count(5)", "order_by": [["p", "asc"]]}
    found = run(operator, values, "decimal(38, 9)")
    assert [record["p"] for record in found] == sorted(map(Decimal, values))


def test_a_class_of_python_gets_decimals():
    type_ = parse_type("decimal(2)")
    values = form(type_).to_user(array_of(["1.10", "-2"], type_))
    assert values == [Decimal("1.10"), Decimal("-2.00")]
    assert [type(value) for value in values] == [Decimal, Decimal]


def test_a_sum_is_one_word_less_than_the_words_of_a_wide_decimal():
    """A decimal of 18 digits is a word of its own, a wider one a code."""
    assert form(parse_type("decimal(18, 4)")).words(array_of(["-1.5"], parse_type("decimal(18, 4)"))).tolist() == [
        -15000
    ]  # type: ignore[attr-defined]
    assert np.array_equal([form(parse_type(t)).interned for t in ("decimal(18, 4)", "decimal(19, 4)")], [False, True])
