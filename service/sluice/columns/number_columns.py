"""Columns of exact numbers: decimals, and times, which are whole nanoseconds.

Times come from texts, by the rules of time_units.py. A decimal128 of Arrow is a signed whole number of 128 bits, its
unscaled number, in two halves of 64 bits, the low one first: it is `high * 2**64 + low`, with `low` as a number without
a sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.time_units import nanoseconds

# ---- times -----------------------------------------------------------------------------------------------------------

INSTANT = pa.timestamp("ns", "UTC")
INT64 = range(-(2**63), 2**63)
#: texts that Arrow converts as the rules say, but for a missing zone; it refuses dates that do not exist
PLAIN = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[-+]([01]\d|2[0-3]):[0-5]\d)?$"
NO_ZONE = r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?)$"


def times(texts: pa.StringArray) -> pa.TimestampArray:
    """The time of each text; null for null, for other texts, and for times beyond int64 nanoseconds.

    Arrow converts the usual forms. The other texts are converted one by one.
    """
    plain = pc.if_else(pc.match_substring_regex(texts, PLAIN), texts, pa.scalar(None, pa.string()))
    column = cast_each(pc.replace_substring_regex(plain, pattern=NO_ZONE, replacement=r"\1Z"), INSTANT)
    rest = pc.and_(plain.is_null(), texts.is_valid())
    exact = pa.array([_time(text) for text in texts.filter(rest).to_pylist()], pa.int64())
    return pc.replace_with_mask(column, rest, exact.view(INSTANT)) if len(exact) else column


def cast_each(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Casts each text, null if it does not fit. pyarrow casts all values or fails, so the texts are halved until each
    text that does not fit is alone.
    """
    try:
        return pc.cast(texts, type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
        middle = len(texts) // 2
        return pa.concat_arrays([cast_each(texts[:middle], type_), cast_each(texts[middle:], type_)])


def _time(text: str) -> int | None:
    try:
        time = nanoseconds(text)
    except ValueError:
        return None
    return time if time in INT64 else None


# ---- decimals --------------------------------------------------------------------------------------------------------

MASK = 2**64 - 1
LARGEST = 2**63 - 1
#: the digits that an int64 can have
DIGITS_OF_WORD = 19


def halves(array: pa.Array) -> np.ndarray:
    """The halves (int64) of each value, as an array with two columns. The halves of a null have no meaning."""
    if not len(array):
        return np.zeros((0, 2), np.int64)
    _, data = array.buffers()
    return np.frombuffer(data, np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]


def of_halves(pairs: np.ndarray, arrow: pa.DataType) -> pa.Array:
    """The inverse of `halves`."""
    data = pa.py_buffer(np.ascontiguousarray(pairs, np.int64))
    return pa.Array.from_buffers(arrow, len(pairs), [None, data])


def of_words(words: np.ndarray, arrow: pa.DataType) -> pa.Array:
    """The values whose unscaled numbers are these int64."""
    return of_halves(np.stack([words, words >> 63], axis=1), arrow)


def unscaled(array: pa.Array) -> list[int | None]:
    """The unscaled numbers of decimals, or the numbers of int64; None for null."""
    if pa.types.is_integer(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    pairs = halves(array)
    low, high = pairs[:, 0].tolist(), pairs[:, 1].tolist()
    numbers: list[int | None] = [(h << 64) | (l & MASK) for h, l in zip(high, low, strict=True)]  # noqa: E741
    for place in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else ():
        numbers[place] = None
    return numbers


def of_unscaled(numbers: Sequence[int | None], arrow: pa.DataType) -> pa.Array:
    """The inverse of `unscaled`. A number with more digits than the type becomes null (DE4)."""
    bound = 10**arrow.precision
    wrong = np.array([n is None or not -bound < n < bound for n in numbers], np.bool_)
    kept = [0 if bad or n is None else n for n, bad in zip(numbers, wrong.tolist(), strict=True)]
    low = np.array([n & MASK for n in kept], np.uint64).view(np.int64)
    column = of_halves(np.stack([low, np.array([n >> 64 for n in kept], np.int64)], axis=1), arrow)
    return pc.if_else(pa.array(wrong), pa.scalar(None, arrow), column) if wrong.any() else column


def words_of(array: pa.Array) -> np.ndarray | None:
    """The unscaled numbers of decimals, or the numbers of int64, as int64, 0 for null; None if one does not fit."""
    pairs = _int64_pairs(array) if pa.types.is_integer(array.type) else halves(array)
    words, high = pairs[:, 0], pairs[:, 1]
    if array.null_count:
        is_valid = array.is_valid().to_numpy(zero_copy_only=False)
        words, high = np.where(is_valid, words, 0), np.where(is_valid, high, 0)
    return words if np.array_equal(high, words >> 63) else None


def _int64_pairs(array: pa.Array) -> np.ndarray:
    words = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
    return np.stack([words, words >> 63], axis=1)


def times_factor(words: np.ndarray | None, factor: int) -> np.ndarray | None:
    """The numbers times a factor above 0; None if a product does not fit, or if there are no numbers."""
    if words is None or (len(words) and max(int(words.max()), -int(words.min())) > LARGEST // factor):
        return None
    return words * np.int64(min(factor, LARGEST))


def quotients(numerators: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """The quotients rounded half to even; divisors are not 0, and neither is the smallest int64."""
    whole, rest = np.divmod(np.where(divisors < 0, -numerators, numerators), np.abs(divisors))
    twice = rest - (np.abs(divisors) - rest)
    rounded: np.ndarray = whole + ((twice > 0) | ((twice == 0) & (whole & 1 == 1)))
    return rounded


def of_results(words: np.ndarray, missing: np.ndarray, arrow: pa.DataType) -> pa.Array:
    """The decimals with these unscaled numbers; null where one is `missing`, or has more digits than the type (DE4)."""
    if arrow.precision < DIGITS_OF_WORD:
        missing = missing | (np.abs(words) >= 10**arrow.precision)
    column = of_words(words, arrow)
    return pc.if_else(pa.array(missing), pa.scalar(None, arrow), column) if missing.any() else column


def as_bytes(number: int) -> bytes:
    """The number in two's complement, the high byte first, in as few bytes as it takes."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def texts(array: pa.Array) -> pa.StringArray:
    """The values as texts with all digits of their scale: `-12.50`. Null stays null."""
    written = pc.cast(array, pa.string())
    short = pc.fill_null(pc.match_substring(written, "E"), False)  # noqa: FBT003 - Arrow's form of tiny numbers
    if not pc.any(short).as_py():
        return written
    spelled = [format(value, "f") for value in array.filter(short).to_pylist()]
    return pc.replace_with_mask(written, short, pa.array(spelled, pa.string()))


# ---- order -----------------------------------------------------------------------------------------------------------

_SIGN = np.int64(-(2**63))
#: the bytes of a value
SIZE = 16


def ordered_bytes(array: pa.Array) -> np.ndarray:
    """16 bytes for each value, which compare as the values do (DE3): the high byte first, with the sign inverted."""
    pairs = halves(array)
    return np.ascontiguousarray(np.stack([pairs[:, 1] ^ _SIGN, pairs[:, 0]], axis=1).astype(">i8")).view(np.uint8)


def of_ordered_bytes(content: np.ndarray, arrow: pa.DataType) -> pa.Array:
    """The inverse of `ordered_bytes`."""
    pairs = np.ascontiguousarray(content).view(">i8").astype(np.int64).reshape(-1, 2)
    return of_halves(np.stack([pairs[:, 1], pairs[:, 0] ^ _SIGN], axis=1), arrow)
