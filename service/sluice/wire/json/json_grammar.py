"""The grammar of JSON (RFC 8259) as functions over bytes, compiled by numba: the fast path of the JSON decoder.

Each function reads one element that starts at `data[i]`. It returns the position after the element, or NO if no such
element ends before position `stop`. NO is not an error: the caller then decodes the whole record with the exact
decoder, which is slow and follows the RFC in all cases. These functions accept nothing that the exact decoder
refuses, and leave some rare valid texts to it: numbers with very many digits or large exponents, and nesting deeper
than DEEPEST.
"""
# ruff: noqa: PLR2004 - the numbers are those of JSON, Unicode and UTF-8

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import kernel

NO = -1
QUOTE, BACKSLASH, COMMA, COLON, POINT, MINUS, PLUS = (ord(c) for c in '"\\,:.-+')
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = (ord(c) for c in "{}[]")
ZERO, NINE, BIG_E, SMALL_E, SMALL_N, SMALL_T, SMALL_U = (ord(c) for c in "09Eentu")
SPACE, TAB, NEWLINE, RETURN = (ord(c) for c in " \t\n\r")
ESCAPED = b'"\\/bfnrt'

DEEPEST = 60
#: the limits of a number: its characters, and the digits of its exponent. Within them a float64 is finite
LONGEST_NUMBER, LONGEST_EXPONENT = 40, 2


@kernel
def mark(data: np.ndarray, i: int, stop: int) -> int:
    """The position behind the byte order mark that starts here, or `i` if there is none."""
    return i + 3 if stop - i > 3 and data[i] == 0xEF and data[i + 1] == 0xBB and data[i + 2] == 0xBF else i


@kernel
def space(data: np.ndarray, i: int, stop: int) -> int:
    while i < stop and (data[i] == SPACE or data[i] == TAB or data[i] == NEWLINE or data[i] == RETURN):
        i += 1
    return i


@kernel
def colon(data: np.ndarray, i: int, stop: int) -> int:
    """Reads a colon with the space around it. Returns the position of the value behind it, or NO."""
    i = space(data, i, stop)
    return space(data, i + 1, stop) if i < stop and data[i] == COLON else NO


@kernel
def value(data: np.ndarray, i: int, stop: int) -> int:
    """Reads any value.

    Each open object or list has a bit in `objects`, 1 for an object; the lowest bit is the innermost one.
    """
    depth = objects = 0
    while i != NO and i < stop:
        if data[i] == OPEN_OBJECT or data[i] == OPEN_LIST:
            if depth == DEEPEST:
                return NO
            depth, objects = depth + 1, objects << 1 | (data[i] == OPEN_OBJECT)
            i = space(data, i + 1, stop)
            if i == stop or data[i] != (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
                i = _item(data, i, stop, objects)
                continue
        else:
            i = _scalar(data, i, stop)
        i, depth, objects = _closed(data, i, stop, depth, objects)
        if depth == 0 or i == NO:
            return i
        i = _item(data, space(data, i + 1, stop), stop, objects) if data[i] == COMMA else NO
    return NO


@kernel
def _item(data: np.ndarray, i: int, stop: int, objects: int) -> int:
    """The position of the value of the item that starts here: in an object it is behind the name and colon; or NO."""
    if not objects & 1:
        return i
    end, _ = string(data, i, stop)
    return colon(data, end, stop) if end != NO else NO


@kernel
def _closed(data: np.ndarray, i: int, stop: int, depth: int, objects: int) -> tuple[int, int, int]:
    """Reads the closing brackets behind a value.

    Returns the position behind them, or NO if the text ends while an object or list is open; and the new `depth` and
    `objects`.
    """
    while depth and i != NO:
        i = space(data, i, stop)
        if i == stop:
            return NO, depth, objects
        if data[i] != (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
            break
        i, depth, objects = i + 1, depth - 1, objects >> 1
    return i, depth, objects


@kernel
def _scalar(data: np.ndarray, i: int, stop: int) -> int:
    if data[i] == QUOTE:
        end, _ = string(data, i, stop)
    elif data[i] == MINUS or ZERO <= data[i] <= NINE:
        end, _, _ = number(data, i, stop)
    else:
        end = literal(data, i, stop)
    return end


@kernel
def literal(data: np.ndarray, i: int, stop: int) -> int:
    """Reads `true`, `false` or `null`."""
    for word in (b"true", b"false", b"null"):
        if stop - i >= len(word):
            same = True
            for j in range(len(word)):
                same = same and data[i + j] == word[j]
            if same:
                return i + len(word)
    return NO


# ---- strings ---------------------------------------------------------------------------------------------------------


@kernel
def string(data: np.ndarray, i: int, stop: int) -> tuple[int, bool]:
    """Reads a string with its quotes. Also returns whether it contains escapes."""
    has_escape = False
    if i == stop or data[i] != QUOTE:
        return NO, has_escape
    i += 1
    while i != NO and i < stop and data[i] != QUOTE:
        if data[i] == BACKSLASH:
            has_escape = True
            i = _escape(data, i, stop)
        elif data[i] < SPACE:
            i = NO
        elif data[i] < 0x80:
            i += 1
        else:
            i = character(data, i, stop)
    return (i + 1 if i != NO and i < stop else NO), has_escape


@kernel
def _escape(data: np.ndarray, i: int, stop: int) -> int:
    if i + 1 >= stop:
        return NO
    if data[i + 1] != SMALL_U:
        for escaped in ESCAPED:
            if data[i + 1] == escaped:
                return i + 2
        return NO
    unit = _unit(data, i, stop)
    if 0xD800 <= unit < 0xDC00:  # the first half of a pair
        return i + 12 if 0xDC00 <= _unit(data, i + 6, stop) < 0xE000 else NO
    return NO if unit == NO or 0xDC00 <= unit < 0xE000 else i + 6


@kernel
def _unit(data: np.ndarray, i: int, stop: int) -> int:
    r"""The number in `\uXXXX`, or NO."""
    if i + 6 > stop or data[i] != BACKSLASH or data[i + 1] != SMALL_U:
        return NO
    unit = 0
    for j in range(i + 2, i + 6):
        digit = _hexadecimal(data[j])
        if digit == NO:
            return NO
        unit = unit * 16 + digit
    return unit


@kernel
def _hexadecimal(byte: int) -> int:
    if ZERO <= byte <= NINE:
        return byte - ZERO
    digit = (byte | 0x20) - ord("a") + 10
    return digit if 10 <= digit < 16 else NO


@kernel
def character(data: np.ndarray, i: int, stop: int) -> int:
    """Reads a UTF-8 character of two to four bytes (RFC 3629). Refuses overlong forms, surrogates, and code points
    beyond U+10FFFF.
    """
    lead = data[i]
    low, high = 0x80, 0xBF
    if 0xC2 <= lead <= 0xDF:
        size = 2
    elif 0xE0 <= lead <= 0xEF:
        size = 3
        low, high = 0xA0 if lead == 0xE0 else low, 0x9F if lead == 0xED else high
    elif 0xF0 <= lead <= 0xF4:
        size = 4
        low, high = 0x90 if lead == 0xF0 else low, 0x8F if lead == 0xF4 else high
    else:
        return NO
    if i + size > stop or not low <= data[i + 1] <= high:
        return NO
    for j in range(i + 2, i + size):
        if not 0x80 <= data[j] <= 0xBF:
            return NO
    return i + size


@kernel
def is_text(data: np.ndarray, i: int, stop: int) -> bool:
    """Whether the bytes up to `stop` are UTF-8."""
    while i != NO and i < stop:
        i = i + 1 if data[i] < 0x80 else character(data, i, stop)
    return i == stop


# ---- numbers ---------------------------------------------------------------------------------------------------------


@kernel
def number(data: np.ndarray, i: int, stop: int) -> tuple[int, int, bool]:
    """Reads a number. Also returns the position of its decimal point, or NO, and whether it has an exponent."""
    start, point = i, NO
    i = _whole(data, i + (data[i] == MINUS), stop)
    if i != NO and i < stop and data[i] == POINT:
        point = i
        i = _some_digits(data, point + 1, stop)
    has_exponent = i != NO and i < stop and (data[i] == SMALL_E or data[i] == BIG_E)
    if has_exponent:
        i = _exponent(data, i + 1, stop)
    return (i if i - start <= LONGEST_NUMBER else NO), point, has_exponent


@kernel
def _whole(data: np.ndarray, i: int, stop: int) -> int:
    """Reads the integer part of a number: digits without a leading zero, or a single zero."""
    end = _some_digits(data, i, stop)
    return NO if end > i + 1 and data[i] == ZERO else end


@kernel
def _exponent(data: np.ndarray, i: int, stop: int) -> int:
    i += i < stop and (data[i] == PLUS or data[i] == MINUS)
    end = _some_digits(data, i, stop)
    return end if end - i <= LONGEST_EXPONENT else NO


@kernel
def _some_digits(data: np.ndarray, i: int, stop: int) -> int:
    end = digits(data, i, stop)
    return end if end > i else NO


@kernel
def digits(data: np.ndarray, i: int, stop: int) -> int:
    while i < stop and ZERO <= data[i] <= NINE:
        i += 1
    return i
