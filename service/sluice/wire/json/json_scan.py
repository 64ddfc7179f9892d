"""Finds the attributes in a batch of JSON objects, in compiled loops that make no Python objects.

The scanner accepts a row if it is certain of the result: the row is one valid JSON object in which each attribute has a
plain value of its type. It leaves every other row open (an error, a list, a huge number, an escaped name); the exact
decoder (json_codec.py) then decides about these rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel
from sluice.wire.json import json_grammar as grammar
from sluice.wire.json.json_grammar import CLOSE_OBJECT, COMMA, MINUS, NO, OPEN_OBJECT, QUOTE, SMALL_N, SMALL_T, ZERO
from sluice.wire.json.json_numbers import integer, moment, seconds
from sluice.wire.json.json_types import (
    DIGITS,
    SCANNED_BOOLEAN,
    SCANNED_DECIMAL,
    SCANNED_INT64,
    SCANNED_NUMBER,
    SCANNED_SECONDS,
    SCANNED_STRING,
    SCANNED_VALUE,
)

NINE = ord("9")
MINUS_ZERO = 2  # the length of the text -0


class Wanted(NamedTuple):
    """The attributes to find. Attribute a has the name `names[starts[a]:starts[a + 1]]` and the code `codes[a]`."""

    names: np.ndarray
    starts: np.ndarray
    codes: np.ndarray


class FieldSpans(NamedTuple):
    """The values that were found.

    first     `first[a, r]` is the value of attribute a in row r; for a string or float the position of its first byte
    last      `last[a, r]` is the position behind the last byte of a string or float
    escaped   `escaped[a, r]` is true if the string contains escapes
    seen      scratch memory: `seen[a]` is true if the current row has attribute a
    """

    first: np.ndarray
    last: np.ndarray
    escaped: np.ndarray
    seen: np.ndarray


@kernel
def scan(data: np.ndarray, starts: np.ndarray, wanted: Wanted, found: FieldSpans, sure: np.ndarray) -> None:
    """Reads each row r, which is `data[starts[r]:starts[r + 1]]`; sets `sure[r]` to whether the scanner accepts it."""
    for row in range(len(sure)):
        for attribute in range(len(found.seen)):
            found.seen[attribute] = False
        complete = _object(data, starts[row], starts[row + 1], wanted, found, row) == starts[row + 1]
        for attribute in range(len(found.seen)):
            complete = complete and found.seen[attribute]
        sure[row] = complete


@kernel
def _object(data: np.ndarray, i: int, stop: int, wanted: Wanted, found: FieldSpans, row: int) -> int:  # noqa: PLR0917
    """Reads an object. Returns the position behind it and behind the space around it, or NO."""
    i = grammar.space(data, grammar.mark(data, i, stop), stop)
    if i == stop or data[i] != OPEN_OBJECT:
        return NO
    i = grammar.space(data, i + 1, stop)
    attribute, more = NO, i < stop and data[i] != CLOSE_OBJECT
    while more:
        end, has_escape = grammar.string(data, i, stop)
        if end == NO or has_escape:
            return NO
        attribute = _attribute(data, i + 1, end - 1, wanted, attribute + 1)
        i = _value_of(data, grammar.colon(data, end, stop), stop, wanted, found, row, attribute)
        if i == NO:
            return NO
        if attribute != NO:
            found.seen[attribute] = True
        i = grammar.space(data, i, stop)
        more = i < stop and data[i] == COMMA
        if more:
            i = grammar.space(data, i + 1, stop)
    return grammar.space(data, i + 1, stop) if i < stop and data[i] == CLOSE_OBJECT else NO


@kernel
def _attribute(data: np.ndarray, start: int, stop: int, wanted: Wanted, expected: int) -> int:
    """The number of the attribute whose name is `data[start:stop]`, or NO. The search starts at `expected`."""
    count = len(wanted.codes)
    for step in range(count):
        attribute = (expected + step) % count
        at = wanted.starts[attribute]
        if wanted.starts[attribute + 1] - at == stop - start:
            i = 0
            while i < stop - start and data[start + i] == wanted.names[at + i]:
                i += 1
            if i == stop - start:
                return attribute
    return NO


@kernel
def _value_of(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, wanted: Wanted, found: FieldSpans, row: int, attribute: int
) -> int:
    """Stores the value of an attribute, or skips it if `attribute` is NO. Returns the position behind it, or NO."""
    if not NO < i < stop:
        return NO
    if attribute == NO:
        return grammar.value(data, i, stop)
    code = wanted.codes[attribute]
    if code == SCANNED_VALUE:
        end = grammar.value(data, i, stop)
        found.first[attribute, row], found.last[attribute, row] = i, end
    elif code >= SCANNED_DECIMAL:
        quote = int(data[i] == QUOTE)
        end = _decimal(data, i + quote, stop, code - SCANNED_DECIMAL)
        found.first[attribute, row], found.last[attribute, row] = i + quote, end
        if quote and end != NO:
            end = end + 1 if end < stop and data[end] == QUOTE else NO
    elif code in (SCANNED_NUMBER, SCANNED_STRING):
        end, found.escaped[attribute, row] = _text(data, i, stop, code)
        quote = int(code == SCANNED_STRING)
        found.first[attribute, row], found.last[attribute, row] = i + quote, end - quote
    else:
        end, found.first[attribute, row] = _plain(data, i, stop, code)
    return end


@kernel
def _text(data: np.ndarray, i: int, stop: int, code: int) -> tuple[int, bool]:
    """Reads a string or float. Returns the position behind it, or NO, and whether it contains escapes."""
    if code == SCANNED_STRING:
        return grammar.string(data, i, stop)
    end, _, _ = grammar.number(data, i, stop)
    # -0 is an integer in JSON, whose zero has no sign; the exact decoder reads it so.
    return (NO if end - i == MINUS_ZERO and data[i] == MINUS and data[i + 1] == ZERO else end), False


@kernel
def _decimal(data: np.ndarray, i: int, stop: int, digits: int) -> int:
    """Reads a number with at most so many digits before and behind the point. Returns the position behind it, or NO."""
    if i == stop or not (data[i] == MINUS or ZERO <= data[i] <= NINE):
        return NO
    end, point, has_exponent = grammar.number(data, i, stop)
    whole = (end if point == NO else point) - i - (data[i] == MINUS)
    behind = 0 if point == NO else end - point - 1
    fits = end != NO and not has_exponent and whole <= max(digits // DIGITS, 1) and behind <= digits % DIGITS
    return end if fits and (digits >= DIGITS or data[i + (data[i] == MINUS)] == ZERO) else NO


@kernel
def _plain(data: np.ndarray, i: int, stop: int, code: int) -> tuple[int, int]:
    """Reads a boolean, int64 or timestamp. Returns the position behind it, or NO, and the value."""
    if code == SCANNED_BOOLEAN:
        end = grammar.literal(data, i, stop)
        return (NO if data[i] == SMALL_N else end), int(data[i] == SMALL_T)
    if code == SCANNED_SECONDS and data[i] == QUOTE:
        end, _ = grammar.string(data, i, stop)
        value, sure = moment(data, i + 1, end - 1)
        return (end if sure else NO), value
    end, point, has_exponent = grammar.number(data, i, stop)
    if end == NO or has_exponent or (code == SCANNED_INT64 and point != NO):
        return NO, 0
    value, sure = integer(data, i, end) if code == SCANNED_INT64 else seconds(data, i, end, point)
    return (end if sure else NO), value
