"""The signatures that decimals add to the tables of functions (model/functions.py), and the types of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluice.model.types import decimal_type
from sluice.model.types.decimal_type import MOST_DIGITS, WORD_DIGITS, DecimalType
from sluice.model.types.type_contract import Type


def _two(rule: str, kernel: str) -> tuple[str, ...]:
    """The signatures of an operator, of which one side is a decimal and the other one a decimal or an int64."""
    return tuple(f"{sides} -> decimal by {rule} : {kernel}" for sides in ("decimal, exact", "exact, decimal"))


#: name of a function -> the signatures for decimals
SIGNATURES: Mapping[str, tuple[str, ...]] = {
    "+": _two("total", "decimal_add"),
    "-": (*_two("total", "decimal_subtract"), "decimal -> decimal : negate"),
    "*": _two("product", "decimal_multiply"),
    "/": _two("quotient", "decimal_divide"),
    "%": _two("rest", "decimal_remainder"),
    "abs": ("decimal -> decimal : abs",),
    "floor": ("decimal -> decimal by rounded : decimal_floor",),
    "ceil": ("decimal -> decimal by rounded : decimal_ceil",),
    "round": (
        "decimal -> decimal by rounded : decimal_round",
        "decimal, int64 literal -> decimal by rounded : decimal_round",
    ),
    "divide": (
        "decimal, exact, places -> decimal by divided : decimal_quotient",
        "exact, decimal, places -> decimal by divided : decimal_quotient",
    ),
    "trunc": ("decimal -> decimal by rounded : decimal_trunc",),
    "sign": ("decimal -> int64 : decimal_sign",),
    "decimal": tuple(
        f"{word}, {digits} -> decimal by cast : to_decimal"
        for word in ("exact", "float64", "string")
        for digits in ("scale", "digits, places")
    ),
    "int64": ("decimal -> int64 : decimal_to_int64",),
    "float64": ("decimal -> float64 : decimal_to_float64",),
    "string": ("decimal -> string : decimal_to_string",),
    "boolean": ("decimal -> boolean : nonzero",),
    "low half": ("decimal -> int64 : low_half",),
    "high half": ("decimal -> int64 : high_half",),
    "change": ("decimal -> decimal",),
    "rate": (
        "float64, decimal -> float64",
        "decimal, timestamp -> float64",
        "decimal, float64 -> float64",
        "decimal, decimal -> float64",
    ),
    "Sum": ("decimal -> decimal by summed",),
    "Average": ("decimal -> decimal by mean", "decimal, places -> decimal by divided"),
    "PopulationStdDev": ("decimal -> float64",),
    "SampleStdDev": ("decimal -> float64",),
    "Median": ("decimal -> decimal by mean",),
    "Percentile": ("decimal, share -> decimal by mean",),
    "ApproxPercentile": ("decimal, share -> float64",),
}

#: word of a parameter that is a constant -> its least and its greatest value
CONSTANTS: Mapping[str, tuple[int, int]] = {
    "scale": (0, WORD_DIGITS), "digits": (1, MOST_DIGITS), "places": (0, MOST_DIGITS),
}  # fmt: skip

#: word that stands for a type -> its word in messages, which do not say that an int64 stands for a decimal, and whether
#: it may stand for the given type
VARIABLES: Mapping[str, tuple[str, Callable[[Type], bool]]] = {
    "decimal": ("decimal", lambda type_: isinstance(type_, DecimalType)),
    "exact": ("decimal", lambda type_: decimal_type.as_decimal(type_) is not None),
}
#: the words that stand for a decimal or an int64
MIXED = ("exact",)


def _cast(digits: Sequence[Any]) -> Type | None:
    """The type with this scale, or with this precision and scale; None if there is none."""
    *precision, scale = digits or (0,)
    try:
        return DecimalType(precision[0] if precision else WORD_DIGITS, scale)
    except ValueError:
        return None


def _of_decimals(
    rule: Callable[..., Type | None], count: int
) -> Callable[[Sequence[Type], Sequence[Any]], Type | None]:
    """The rule for the types of the first `count` arguments, of which an int64 counts as a decimal."""
    return lambda types, _: rule(*map(decimal_type.as_decimal, types[:count]))


def _rounded(types: Sequence[Type], digits: Sequence[Any]) -> Type | None:
    number = decimal_type.as_decimal(types[0])
    return None if number is None else decimal_type.rounded(number, *(digits or [0]))


#: rule of a result -> its type (model/functions.py)
RULES: Mapping[str, Callable[[Sequence[Type], Sequence[Any]], Type | None]] = {
    "total": _of_decimals(decimal_type.total, 2),
    "product": _of_decimals(decimal_type.product, 2),
    "quotient": _of_decimals(decimal_type.quotient, 2),
    "rest": _of_decimals(decimal_type.rest, 2),
    "divided": lambda _, digits: _cast((MOST_DIGITS, *(digits or (0,)))),
    "rounded": _rounded,
    "cast": lambda _, digits: _cast(digits),
    "summed": _of_decimals(decimal_type.summed, 1),
    "mean": _of_decimals(decimal_type.mean, 1),
}
