"""Arithmetic, rounding and casts of decimals, against fractions (DE6 to DE13)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, trunc
from typing import Any

import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of
from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import checked
from sluice.engine.stream.functions.function_errors import REASONS, Error
from sluice.model.types import INT64, Type, parse_type
from sluice.model.types.decimal_type import DecimalType

TYPES = [
    parse_type(text)
    for text in (
        "decimal(2)", "decimal(0)", "decimal(18)", "decimal(1, 1)", "decimal(9, 4)", "decimal(19, 2)", "decimal(38, 0)",
        "decimal(38, 9)", "decimal(38, 38)", "decimal(30, 15)",
    )
]  # fmt: skip
ROWS = 40


def half_even(number: Fraction, scale: int) -> Fraction:
    return Fraction(round(number * 10**scale), 10**scale)


def half_up(number: Fraction, scale: int) -> Fraction:
    return Fraction(floor(abs(number) * 10**scale + Fraction(1, 2)), 10**scale) * (1 if number >= 0 else -1)


def numbers(chance: random.Random, type_: Type) -> Iterator[str]:
    """Numbers at the borders of the precision, small ones, ties of a rounding, and others."""
    if type_ == INT64:
        yield from map(str, [2**63 - 1, -(2**63), 0, 1, -1])
        yield from (str(chance.randrange(-(10 ** chance.randrange(1, 19)), 10**18)) for _ in range(ROWS - 5))
        return
    assert isinstance(type_, DecimalType)
    most = 10**type_.precision - 1
    for unscaled in [most, -most, 0, 1, -1, 5 * 10 ** max(0, type_.scale - 1) % (most + 1)]:
        yield f"{unscaled}e-{type_.scale}"
    for _ in range(ROWS - 6):
        size = 10 ** chance.randrange(1, type_.precision + 1)
        yield f"{chance.randrange(1 - size, size)}e-{type_.scale}"


def values(expression: str, columns: Mapping[str, tuple[Type, list[Any]]]) -> tuple[Type, list[Any], list[int]]:
    """The type, the values and the errors of an expression over columns."""
    typed = parse(expression, Scope("in", {name: type_ for name, (type_, _) in columns.items()}))
    arrays = [array_of(given, type_) for type_, given in columns.values()]
    found = checked(typed, pa.record_batch(arrays, names=list(columns)))
    errors = [0] * len(found.values) if found.errors is None else found.errors.tolist()
    return typed.type, found.values.to_pylist(), errors


Oracle = Callable[[Fraction, Fraction], Fraction | bool | None]
BINARY: Mapping[str, Oracle] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a % b": lambda a, b: a - b * trunc(a / b) if b else None,
    "divide(a, b, 4)": lambda a, b: half_even(a / b, 4) if b else None,
    "a < b": lambda a, b: a < b,
    "a >= b": lambda a, b: a >= b,
    "a == b": lambda a, b: a == b,
    "min(a, b)": min,
    "max(a, b)": max,
}


def fits(number: Fraction, type_: Type) -> bool:
    assert isinstance(type_, DecimalType)
    return abs(number) * 10**type_.scale < 10**type_.precision


@pytest.mark.parametrize("right", [*TYPES, INT64], ids=str)
@pytest.mark.parametrize("left", TYPES, ids=str)
def test_two_numbers(left: Type, right: Type):
    """DE6 to DE9: a result is exact, or is an error if its type does not have it."""
    chance = random.Random(f"{left} {right}")
    compare_two(left, right, list(numbers(chance, left)), list(numbers(chance, right)))


FEW = [parse_type(text) for text in ("decimal(2)", "decimal(0)", "decimal(9, 4)", "decimal(19, 2)", "decimal(38, 9)")]


def few_digits(chance: random.Random, type_: Type) -> list[str]:
    """Numbers of which all results fit 64 bits, so that a column is computed together; ties of a rounding are many."""
    places = type_.digits[1] if isinstance(type_, DecimalType) else 0
    return [f"{chance.choice([chance.randrange(-999, 1000), 5, -15, 25, 50, 0])}e-{places}" for _ in range(ROWS)]


@pytest.mark.parametrize("right", [*FEW, INT64], ids=str)
@pytest.mark.parametrize("left", FEW, ids=str)
def test_two_numbers_of_few_digits(left: Type, right: Type):
    chance = random.Random(f"few {left} {right}")
    compare_two(left, right, few_digits(chance, left), few_digits(chance, right))


@pytest.mark.parametrize("type_", FEW, ids=str)
def test_one_number_of_few_digits(type_: DecimalType):
    compare_one(type_, few_digits(random.Random(f"few {type_}"), type_))


def compare_two(left: Type, right: Type, a: list[str], b: list[str]) -> None:
    columns = {"a": (left, a), "b": (right, [int(Decimal(n)) for n in b] if right == INT64 else b)}
    for expression, oracle in [*BINARY.items(), ("a / b", None)]:
        try:
            type_, found, errors = values(expression, columns)
        except ExpressionError:
            continue
        for x, y, value, error in zip(map(Fraction, a), map(Fraction, b), found, errors, strict=True):
            if oracle is None:
                assert isinstance(type_, DecimalType)
                expected: Any = half_even(x / y, type_.scale) if y else None
            else:
                expected = oracle(x, y)
            if expected is None or (isinstance(type_, DecimalType) and not fits(expected, type_)):
                assert (value is None, bool(error)) == (True, True), (expression, x, y)
            else:
                assert (value, error) == (expected, 0) or (Fraction(value), error) == (expected, 0), (expression, x, y)


UNARY: Mapping[str, Callable[[Fraction], Any]] = {
    "-a": lambda a: -a,
    "abs(a)": abs,
    "floor(a)": floor,
    "ceil(a)": ceil,
    "trunc(a)": trunc,
    "round(a)": lambda a: half_up(a, 0),
    "round(a, 1)": lambda a: half_up(a, 1),
    "round(a, -2)": lambda a: half_up(a / 100, 0) * 100,
    "sign(a)": lambda a: (a > 0) - (a < 0),
    "decimal(a, 3)": lambda a: half_even(a, 3),
    "decimal(a, 38, 1)": lambda a: half_even(a, 1),
    "decimal(string(a), 38, 2)": lambda a: half_even(a, 2),
    "float64(a)": lambda a: a.numerator / a.denominator,
    "int64(a)": lambda a: trunc(a) if -(2**63) <= trunc(a) < 2**63 else None,
    "a * 1.10 - 0.5": lambda a: a * Fraction(11, 10) - Fraction(1, 2),
    "a > 0 ? a : 0.1": lambda a: a if a > 0 else Fraction(1, 10),
}


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_one_number(type_: DecimalType):
    """DE10 to DE13."""
    compare_one(type_, list(numbers(random.Random(str(type_)), type_)))


def compare_one(type_: DecimalType, a: list[str]) -> None:
    for expression, oracle in UNARY.items():
        try:
            result, found, errors = values(expression, {"a": (type_, a)})
        except ExpressionError:
            assert type_.scale > 36 or "?" in expression, expression  # a product or a branch needs more digits
            continue
        for number, value, error in zip(map(Fraction, a), found, errors, strict=True):
            expected = oracle(number)
            wide = isinstance(result, DecimalType) and expected is not None and not fits(Fraction(expected), result)
            if expected is None or wide:
                assert (value is None, bool(error)) == (True, True), (expression, number)
            else:
                assert (Fraction(value), error) == (expected, 0), (expression, number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.005", "1.00"), ("1.015", "1.02"), ("-1.005", "-1.00"), ("2.5e1", "25.00"), ("1e-400", "0.00"),
        ("9999999999999999.99", "9999999999999999.99"), ("9999999999999999.995", None), ("1e400", None), ("x", None),
        ("", None), (" 1", None), ("1_0", None), ("NaN", None), ("Infinity", None), ("0x1", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_text_as_decimal(text: str, expected: str | None):
    """DE12: rounded half to even; what is no number, or has too many digits, is an error."""
    _, (found,), (error,) = values("decimal(s, 2)", {"s": (parse_type("string"), [text])})
    assert found == (None if expected is None else Decimal(expected))
    assert (error == Error.NO_NUMBER) == (expected is None)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(2.675, "2.68"), (0.1, "0.10"), (1e15, "1000000000000000.00"), (1e16, None), (float("nan"), None),
     (float("-inf"), None), (-0.0, "0.00"), (5e-324, "0.00")],
)  # fmt: skip
def test_a_float64_is_its_shortest_decimal(number: float, expected: str | None):
    """DE12."""
    _, (found,), _ = values("decimal(f, 2)", {"f": (parse_type("float64"), [number])})
    assert found == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("expression", "type_", "value"),
    [
        ("p + 1.10", "decimal(19, 2)", "2.35"), ("p * 2", "decimal(19, 2)", "2.50"),
        ("p * (1 - 0.05)", "decimal(22, 4)", "1.1875"), ("p * -0.5", "decimal(19, 3)", "-0.625"),
        ("p * 1e-3", "decimal(21, 5)", "0.00125"), ("p / 3", "decimal(38, 6)", "0.416667"),
        ("1 / p", "decimal(38, 6)", "0.800000"), ("divide(p, 0.3, 2)", "decimal(38, 2)", "4.17"),
        ("min(p, 0.005)", "decimal(19, 3)", "0.005"), ("orElse(decimal(s, 2), 0)", "decimal(2)", "0.00"),
    ],
)  # fmt: skip
def test_a_constant_beside_a_decimal_is_exact(expression: str, type_: str, value: str):
    """DE10: it has the digits that the file has."""
    columns = {"p": (parse_type("decimal(2)"), ["1.25"]), "s": (parse_type("string"), ["?"])}
    assert values(expression, columns) == (parse_type(type_), [Decimal(value)], [0])


@pytest.mark.parametrize(
    ("expression", "hint"),
    [("p > f", "float64(p) > f"), ("p + f", "float64(p) + f"), ("sqrt(p)", "sqrt(float64(p))"),
     ("pow(p, 2.0)", "pow(float64(p), 2.0)"), ("f * p", "f * float64(p)")],
)  # fmt: skip
def test_a_float64_needs_a_cast(expression: str, hint: str):
    """DE11: the message has the cast."""
    with pytest.raises(ExpressionError) as raised:
        parse(expression, Scope("in", {"p": parse_type("decimal(2)"), "f": parse_type("float64")}))
    assert [fault.hint for fault in raised.value.faults] == [hint]


def test_the_reasons():
    assert REASONS[Error.NO_QUOTIENT].startswith("is a division by zero")
    _, _, errors = values("p / 0", {"p": (parse_type("decimal(2)"), ["1"])})
    assert errors == [Error.NO_QUOTIENT]
