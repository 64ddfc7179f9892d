"""The type decimal, and the types that arithmetic of decimals gives (reference/decimal.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal

from sluice.model.types.type_contract import Distance, Type, Value

#: the most digits of a decimal
MOST_DIGITS = 38
#: the digits of a decimal whose precision is not given; each value fits 64 bits
WORD_DIGITS = 18
#: the digits of an int64
INT64_DIGITS = 19
#: the least scale of a quotient and of a mean (DE7, DE14)
LEAST_SCALE = 6

#: a number below half a unit of each scale, and a context with room for the digits above it
TINY, LONG = Decimal("1e-100"), Context(prec=1000)

BOUNDS = (
    f"decimal(scale) with a scale from 0 to {WORD_DIGITS}, or decimal(digits, scale) with up to {MOST_DIGITS} digits"
)
_TEXT = re.compile(r"(?:decimal|numeric)\s*\(\s*(?:(?P<precision>\d{1,9})\s*,\s*)?(?P<scale>\d{1,9})\s*\)")
#: a number in decimal notation, as JSON has it
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class DecimalType(Type):
    """Numbers of at most `precision` digits, of which `scale` are behind the point.

    A value of the model is its text, such as `-12.50`.
    """

    word = "decimal"
    aliases = ("numeric",)
    notation = "decimal(2)"
    foreign = ("decimal32", "decimal64", "decimal128", "bigdecimal", "money", "bignumeric")
    instead = {  # noqa: RUF012 - a ClassVar of the base class
        **dict.fromkeys(
            ("decimal32", "decimal64", "decimal128"),
            "SPL's decimal types have a floating point: choose the digits behind it, as in decimal(2) or "
            "decimal(38, 9)",
        ),
        **dict.fromkeys(("number", "bigdecimal", "money"), "numbers with exact digits are decimal(2), decimal(38, 9)"),
    }
    functions_instead = dict.fromkeys(
        ("numeric", "number", "bigdecimal", "todecimal"), "decimal(x, scale), such as decimal(x, 2)"
    )
    empty = "0"
    samples = ("1", "2")
    numeric = True
    sortable = True
    exact = True
    keeps_digits = True

    precision: int = WORD_DIGITS
    scale: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MOST_DIGITS or not 0 <= self.scale <= self.precision:
            raise ValueError(BOUNDS)

    def __str__(self) -> str:
        return f"decimal({'' if self.precision == WORD_DIGITS else f'{self.precision}, '}{self.scale})"

    @property
    def digits(self) -> tuple[int, ...]:
        return (self.precision, self.scale)

    @property
    def whole(self) -> int:
        """The digits before the point."""
        return self.precision - self.scale

    @property
    def in_word(self) -> bool:
        """Whether the unscaled number (the value times 10 ** scale) always fits 64 bits."""
        return self.precision <= WORD_DIGITS

    @property
    def distance(self) -> Distance | None:  # type: ignore[override]
        """A delta window compares decimals that fit a word; its size has the scale of the attribute (DE16)."""
        exact = f"a size with at most {self.scale} digits behind the point, as the attribute is {self.described}"
        return Distance(str(self), 10**self.scale, exact) if self.in_word else None

    @classmethod
    def pattern(cls) -> str:
        return r"(decimal|numeric)\s*\(\s*([0-9]+\s*,\s*)?[0-9]+\s*\)"

    @classmethod
    def similar(cls, text: str) -> str | None:
        parts = _TEXT.fullmatch(text)
        if parts is None or not int(parts["scale"]) <= int(parts["precision"] or WORD_DIGITS) <= MOST_DIGITS:
            return None
        return str(cls(int(parts["precision"] or WORD_DIGITS), int(parts["scale"])))

    @classmethod
    def of_digits(cls, text: str) -> Type | None:
        """`1.10` has the type decimal(3, 2) (DE9)."""
        number = number_of(text)
        if number is None or not -MOST_DIGITS <= number.as_tuple().exponent <= MOST_DIGITS:  # type: ignore[operator]
            return None
        _, digits, exponent = number.as_tuple()
        scale = max(0, -int(exponent))
        return of_digits(max(len(digits) + max(0, int(exponent)), scale), scale)

    def of_number(self, value: Value) -> Value:
        return str(value)

    def from_file(self, value: object) -> Value:
        number = self.value_of(value)
        if number is None:
            raise ValueError(value)
        return format(number, "f")

    @classmethod
    def read(cls, text: str, inner: Callable[[str], Type]) -> Type | None:  # noqa: ARG003 - it has no inner type
        """A scale alone, or the digits and the scale (DE1)."""
        if text in (cls.word, *cls.aliases):
            raise ValueError(BOUNDS)
        if (parts := _TEXT.fullmatch(text)) is None:
            return None
        return cls(int(parts["precision"] or WORD_DIGITS), int(parts["scale"]))

    def joined(self, other: Type) -> Type | None:
        """The least type that has all digits of both (DE10)."""
        number = as_decimal(other)
        if number is None:
            return None
        scale = max(self.scale, number.scale)
        return of_digits(max(self.whole, number.whole) + scale, scale)

    def unscaled(self, number: Decimal) -> int | None:
        """The number times 10 ** scale; None if it has more digits than the type, also behind the point (DE17).

        Zeros at the end do not count.
        """
        if not number.is_finite():
            return None
        sign, digits, exponent = number.as_tuple()
        kept = "".join(map(str, digits)).rstrip("0")
        shift = int(exponent) + len(digits) - len(kept) + self.scale
        if not kept.lstrip("0"):
            return 0
        if shift < 0 or len(kept.lstrip("0")) + shift > self.precision:
            return None
        unscaled: int = int(kept) * 10**shift
        return -unscaled if sign else unscaled

    def value_of(self, value: object) -> Decimal | None:
        """The decimal that a number, or the text of a number, stands for; None if there is none without rounding.

        A float counts as the shortest decimal number that is read as this float.
        """
        number = number_of(value)
        unscaled = None if number is None else self.unscaled(number)
        return None if unscaled is None else scaled(unscaled, self.scale)


def number_of(value: object) -> Decimal | None:
    """The number that a value is or whose text it is; None if it is none, or not finite (DE2)."""
    if type(value) is str:
        return Decimal(value) if _NUMBER.fullmatch(value) else None
    if type(value) is float:
        return number_of(repr(value))
    return Decimal(value) if type(value) in (int, Decimal) else None  # type: ignore[arg-type]


def scaled(unscaled: int, scale: int) -> Decimal:
    """The decimal with this unscaled number."""
    return Decimal(f"{unscaled}e-{scale}")


def half_even(numerator: int, divisor: int) -> int:
    """The nearest whole number to the quotient; of two that are equally near the even one. The divisor is not 0."""
    quotient, rest = divmod(numerator, divisor)
    twice, whole = abs(2 * rest), abs(divisor)
    return quotient + (twice > whole or (twice == whole and quotient % 2 == 1))


# ---- types of results ------------------------------------------------------------------------------------------------


def as_decimal(type_: Type) -> DecimalType | None:
    """The least decimal type that has all values of the type: an int64 has 19 digits (DE5); None if there is none."""
    if isinstance(type_, DecimalType):
        return type_
    return DecimalType(INT64_DIGITS, 0) if type_.word == "int64" else None


def of_digits(precision: int, scale: int) -> DecimalType | None:
    """The type, None if it would have more than MOST_DIGITS digits."""
    return DecimalType(max(precision, 1), scale) if precision <= MOST_DIGITS else None


def capped(precision: int, scale: int) -> DecimalType | None:
    """The type with at most MOST_DIGITS digits; None if not even the digits behind the point fit."""
    return DecimalType(max(1, min(precision, MOST_DIGITS)), scale) if scale <= MOST_DIGITS else None


def total(left: DecimalType, right: DecimalType) -> DecimalType | None:
    """The type of a sum or difference (DE6)."""
    scale = max(left.scale, right.scale)
    return capped(max(left.whole, right.whole) + scale + 1, scale)


def product(left: DecimalType, right: DecimalType) -> DecimalType | None:
    return capped(left.precision + right.precision, left.scale + right.scale)


def quotient(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of a quotient (DE7)."""
    return DecimalType(MOST_DIGITS, max(LEAST_SCALE, left.scale, right.scale))


def rest(left: DecimalType, right: DecimalType) -> DecimalType | None:
    """The type of a remainder: it is nearer to zero than both sides."""
    scale = max(left.scale, right.scale)
    return capped(min(left.whole, right.whole) + scale, scale)


def rounded(type_: DecimalType, places: int = 0) -> DecimalType:
    """The type of a value rounded to so many digits behind the point. Rounding may add a digit before it (DE8)."""
    if places >= type_.scale:
        return type_
    scale = max(places, 0)
    return DecimalType(min(MOST_DIGITS, type_.whole + scale + 1), scale)


def mean(type_: DecimalType) -> DecimalType:
    return DecimalType(MOST_DIGITS, max(LEAST_SCALE, type_.scale))


def summed(type_: DecimalType) -> DecimalType:
    return DecimalType(MOST_DIGITS, type_.scale)
