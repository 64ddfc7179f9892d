"""Scalar functions of decimals (reference/decimal.md). A result with more digits than its type is null.

An argument is a decimal, or an int64, whose scale is 0. What Arrow cannot compute exactly in 38 digits is computed of
unscaled numbers as Python's integers, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns import number_columns
from sluice.columns.column_forms import form, type_of
from sluice.engine.stream.functions.column_arguments import FLOAT64, INT64, Column, Kernel, by_name, is_scalar
from sluice.engine.stream.functions.function_errors import Error
from sluice.model.types import decimal_type
from sluice.model.types.decimal_type import MOST_DIGITS, DecimalType, half_even, number_of

#: float64 has every whole number below this, and every power of ten up to this
FLOAT_EXACT, FLOAT_POWER = 2**53, 22
Unscaled = Callable[..., int | None]


def by_unscaled(function: Unscaled, arrow: pa.DataType, *columns: Column) -> Column:
    """Applies a function of unscaled numbers to each row without nulls; the results are unscaled numbers, or None."""
    length = next((len(column) for column in columns if not is_scalar(column)), None)
    rows = [numbers(column, 1 if length is None else length) for column in columns]
    unscaled = [None if None in row else function(*row) for row in zip(*rows, strict=True)]
    result = number_columns.of_unscaled(unscaled, arrow) if pa.types.is_decimal(arrow) else pa.array(unscaled, arrow)
    return result[0] if length is None else result


def numbers(column: Column, length: int) -> Sequence[int | None]:
    if is_scalar(column):
        return number_columns.unscaled(pa.array([column.as_py()], column.type)) * length
    return number_columns.unscaled(column)


def decimal(column: Column) -> DecimalType:
    type_ = decimal_type.as_decimal(type_of(column.type))
    assert type_ is not None  # noqa: S101 - the signatures have decimals and int64
    return type_


def arrow(type_: DecimalType | None) -> pa.DataType:
    assert type_ is not None  # noqa: S101 - the signature has a result
    return form(type_).arrow


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def decimal_add(left: Column, right: Column) -> Column:
    return _total(left, right, pc.add, int.__add__)


def decimal_subtract(left: Column, right: Column) -> Column:
    return _total(left, right, pc.subtract, int.__sub__)


def _total(left: Column, right: Column, by_arrow: Kernel, exact: Unscaled) -> Column:
    left_type, right_type = decimal(left), decimal(right)
    result = arrow(decimal_type.total(left_type, right_type))
    if max(left_type.whole, right_type.whole) + result.scale < MOST_DIGITS:
        return pc.cast(by_arrow(left, right), result)
    left_factor, right_factor = 10 ** (result.scale - left_type.scale), 10 ** (result.scale - right_type.scale)
    return by_unscaled(lambda a, b: exact(a * left_factor, b * right_factor), result, left, right)


def decimal_multiply(left: Column, right: Column) -> Column:
    left_type, right_type = decimal(left), decimal(right)
    result = arrow(decimal_type.product(left_type, right_type))
    if left_type.precision + right_type.precision < MOST_DIGITS:
        return pc.cast(pc.multiply(left, right), result)
    return by_unscaled(int.__mul__, result, left, right)


def decimal_divide(left: Column, right: Column) -> Column:
    return _quotient(left, right, decimal_type.quotient(decimal(left), decimal(right)))


def decimal_quotient(left: Column, right: Column, places: Column) -> Column:
    return _quotient(left, right, DecimalType(MOST_DIGITS, places.as_py()))


def _quotient(left: Column, right: Column, type_: DecimalType) -> Column:
    shift = type_.scale + decimal(right).scale - decimal(left).scale
    left_factor, right_factor = 10 ** max(shift, 0), 10 ** max(-shift, 0)
    result = arrow(type_)
    quotients = _in_words(number_columns.quotients, result, (left, left_factor), (right, right_factor), divides=True)
    if quotients is not None:
        return quotients
    return by_unscaled(lambda a, b: half_even(a * left_factor, b * right_factor) if b else None, result, left, right)


def _in_words(
    function: Callable[..., np.ndarray], result: pa.DataType, *columns: tuple[Column, int], divides: bool = False
) -> Column | None:
    """Applies a function of int64 arrays to the unscaled numbers of columns, each times its factor; None if one of them
    does not fit int64, or if all columns are constants.

    divides   whether there is no result where the last number is 0
    """
    length = next((len(column) for column, _ in columns if not is_scalar(column)), None)
    if length is None:
        return None
    arrays = [pa.array([c.as_py()], c.type) if is_scalar(c) else c for c, _ in columns]
    words = [
        number_columns.times_factor(number_columns.words_of(array), factor)
        for array, (_, factor) in zip(arrays, columns, strict=True)
    ]
    fitting = [numbers for numbers in words if numbers is not None]
    if len(fitting) < len(words):
        return None
    missing = np.zeros(length, np.bool_)
    for array in arrays:
        missing |= array.is_null().to_numpy(zero_copy_only=False)
    *others, last = (np.broadcast_to(numbers, length) for numbers in fitting)
    if divides:
        missing |= last == 0
        last = np.where(last == 0, 1, last)
    return number_columns.of_results(function(*others, last), missing, result)


def decimal_remainder(left: Column, right: Column) -> Column:
    """The remainder with the sign of `left`."""
    left_type, right_type = decimal(left), decimal(right)
    result = arrow(decimal_type.rest(left_type, right_type))
    left_factor, right_factor = 10 ** (result.scale - left_type.scale), 10 ** (result.scale - right_type.scale)
    remainders = _in_words(np.fmod, result, (left, left_factor), (right, right_factor), divides=True)
    if remainders is not None:
        return remainders
    return by_unscaled(lambda a, b: _remainder(a * left_factor, b * right_factor) if b else None, result, left, right)


def _remainder(left: int, right: int) -> int:
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


# ---- rounding --------------------------------------------------------------------------------------------------------


def half_away(numerator: int, divisor: int) -> int:
    """The nearest whole number to the quotient; of two that are equally near the one farther from zero."""
    whole = (2 * abs(numerator) + divisor) // (2 * divisor)
    return -whole if numerator < 0 else whole


def halves_away(numbers_: np.ndarray, divisor: int) -> np.ndarray:
    """As `half_away`, for many numbers."""
    whole, rest = np.divmod(np.abs(numbers_), divisor)
    rounded: np.ndarray = np.sign(numbers_) * (whole + (rest >= divisor - rest))
    return rounded


def toward_zero(number: int, unit: int) -> int:
    return number // unit if number >= 0 else -(-number // unit)


def decimal_round(value: Column, places: Column | None = None) -> Column:
    return _rounded(value, half_away, halves_away, 0 if places is None else places.as_py())


def decimal_floor(value: Column) -> Column:
    return _rounded(value, int.__floordiv__, np.floor_divide)


def decimal_ceil(value: Column) -> Column:
    return _rounded(value, lambda number, unit: -(-number // unit), lambda numbers_, unit: -(-numbers_ // unit))


def decimal_trunc(value: Column) -> Column:
    return _rounded(value, toward_zero, lambda numbers_, unit: np.sign(numbers_) * (np.abs(numbers_) // unit))


def _rounded(
    value: Column, whole: Callable[[int, int], int], of_many: Callable[[np.ndarray, int], np.ndarray], places: int = 0
) -> Column:
    """The value as a multiple of 10 ** -places, which `whole` chooses, and `of_many` for numbers that fit int64."""
    type_ = decimal(value)
    if places >= type_.scale:
        return value
    unit, back = 10 ** (type_.scale - places), 10 ** max(-places, 0)
    result = arrow(decimal_type.rounded(type_, places))
    together = (
        _in_words(lambda n: of_many(n, unit), result, (value, 1))
        if back == 1 and unit < number_columns.LARGEST
        else None
    )
    if together is not None:
        return together
    return by_unscaled(lambda n: whole(n, unit) * back, result, value)


# ---- conversions -----------------------------------------------------------------------------------------------------


def to_decimal(value: Column, *digits: Column) -> Column:
    """The number rounded half to even (DE12). `digits` are the scale of the result, or its precision and its scale."""
    sizes = [number.as_py() for number in digits]
    type_ = DecimalType(*sizes) if len(sizes) > 1 else DecimalType(scale=sizes[0])
    if pa.types.is_string(value.type) or pa.types.is_floating(value.type):
        return _of_numbers(value, type_)
    source_type = decimal(value)
    if source_type.scale <= type_.scale and source_type.whole <= type_.whole:
        return pc.cast(value, arrow(type_))
    up, down = 10 ** max(0, type_.scale - source_type.scale), 10 ** max(0, source_type.scale - type_.scale)
    together = (
        _in_words(number_columns.quotients, arrow(type_), (value, up), (pa.scalar(down, INT64), 1))
        if (down < number_columns.LARGEST)
        else None
    )
    return by_unscaled(lambda n: half_even(n * up, down), arrow(type_), value) if together is None else together


def _of_numbers(value: Column, type_: DecimalType) -> Column:
    if is_scalar(value):
        return _of_numbers(pa.array([value.as_py()], value.type), type_)[0]
    return number_columns.of_unscaled([_nearest(number, type_) for number in value.to_pylist()], arrow(type_))


def _nearest(value: object, type_: DecimalType) -> int | None:
    number = number_of(value)
    if number is None or (number and number.adjusted() > MOST_DIGITS):
        return None
    sign, digits, exponent = number.as_tuple()
    if len(digits) > 1000 or int(exponent) < -1000:  # noqa: PLR2004 - numbers below each half unit
        number = number.quantize(decimal_type.TINY, context=decimal_type.LONG)
        sign, digits, exponent = number.as_tuple()
    shift = int(exponent) + type_.scale
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return half_even(unscaled * 10 ** max(shift, 0), 10 ** max(-shift, 0))


def decimal_to_int64(value: Column) -> Column:
    """The number without its fraction; null if int64 cannot hold it."""
    unit = 10 ** decimal(value).scale
    return by_unscaled(lambda n: _in_int64(-(-n // unit) if n < 0 else n // unit), INT64, value)


def _in_int64(number: int) -> int | None:
    return number if -(2**63) <= number < 2**63 else None


def decimal_to_float64(value: Column) -> Column:
    """The nearest float64 (DE11)."""
    if is_scalar(value):
        return pa.scalar(float(value.as_py()) if value.is_valid else None, FLOAT64)
    scale, words = decimal(value).scale, number_columns.halves(value)
    if scale <= FLOAT_POWER and (words[:, 1] == words[:, 0] >> 63).all() and (abs(words[:, 0]) <= FLOAT_EXACT).all():
        quotients = words[:, 0] / 10.0**scale  # of two numbers that are exact
        return pa.array(quotients, mask=np.asarray(value.is_null().to_numpy(zero_copy_only=False)))
    unit = 10**scale
    return pa.array([None if n is None else n / unit for n in number_columns.unscaled(value)], FLOAT64)


def decimal_to_string(value: Column) -> Column:
    if is_scalar(value):
        return number_columns.texts(pa.array([value.as_py()], value.type))[0]
    return number_columns.texts(value)


def decimal_sign(value: Column) -> Column:
    return by_unscaled(lambda n: (n > 0) - (n < 0), INT64, value)


# ---- halves, for sums ------------------------------------------------------------------------------------------------


def low_half(value: Column) -> Column:
    """The low 64 bits of the unscaled number, as a number with a sign; null for null."""
    return _present(number_columns.halves(value)[:, 0], value)


def high_half(value: Column) -> Column:
    """(unscaled number - low half) / 2 ** 64."""
    pairs = number_columns.halves(value)
    return _present(pairs[:, 1] + (pairs[:, 0] < 0), value)


def _present(numbers_: np.ndarray, value: pa.Array) -> pa.Array:
    mask = np.asarray(value.is_null().to_numpy(zero_copy_only=False)) if value.null_count else None
    return pa.array(np.ascontiguousarray(numbers_), mask=mask)


#: kernel -> why it has no value
ERRORS = {
    **dict.fromkeys(
        ("decimal_add", "decimal_subtract", "decimal_multiply", "decimal_round", "decimal_floor"), Error.DIGITS
    ),
    **dict.fromkeys(("decimal_divide", "decimal_quotient", "decimal_remainder"), Error.NO_QUOTIENT),
    "to_decimal": Error.NO_NUMBER,
}
KERNELS = by_name(
    decimal_add, decimal_subtract, decimal_multiply, decimal_divide, decimal_quotient, decimal_remainder,
    decimal_round, decimal_floor, decimal_ceil, decimal_trunc, to_decimal, decimal_to_int64, decimal_to_float64,
    decimal_to_string, decimal_sign, low_half, high_half,
)  # fmt: skip
