"""Finds the attributes in a batch of JSON objects, in compiled loops that make no Python objects.

The scanner is sure or silent. A row is sure if it is one valid JSON object in which each attribute has a plain value of
its type; of all the rest (an error, a list, a huge number, an escaped name) it says nothing, and the exact way decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel
from sluice.model.types import Kind
from sluice.wire.json import json_grammar as grammar
from sluice.wire.json.json_grammar import CLOSE_OBJECT, COMMA, MINUS, NO, OPEN_OBJECT, QUOTE, SMALL_N, SMALL_T, ZERO
from sluice.wire.json.json_numbers import integer, moment, seconds

BOOLEAN, INT64, TIMESTAMP, FLOAT64, STRING = range(5)
#: the types that the scanner knows, as numbers for its loops
CODES = {
    Kind.BOOLEAN: BOOLEAN,
    Kind.INT64: INT64,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.FLOAT64: FLOAT64,
    Kind.STRING: STRING,
}
MINUS_ZERO = 2  # its length


class Wanted(NamedTuple):
    """The attributes: number a is named `names[starts[a]:starts[a + 1]]` and of the type `codes[a]`."""

    names: np.ndarray
    starts: np.ndarray
    codes: np.ndarray


class FieldSpans(NamedTuple):
    """Of attribute a in row r its value, in `first[a, r]`; of a string or float its bytes, from there to `last[a, r]`.

    `escaped[a, r]` says whether the string holds escapes, `seen[a]` whether the row that is being read has attribute a.
    """

    first: np.ndarray
    last: np.ndarray
    escaped: np.ndarray
    seen: np.ndarray


@kernel
def scan(data: np.ndarray, starts: np.ndarray, wanted: Wanted, found: FieldSpans, sure: np.ndarray) -> None:
    """Reads each row r, which is `data[starts[r]:starts[r + 1]]`."""
    for row in range(len(sure)):
        for attribute in range(len(found.seen)):
            found.seen[attribute] = False
        complete = _object(data, starts[row], starts[row + 1], wanted, found, row) == starts[row + 1]
        for attribute in range(len(found.seen)):
            complete = complete and found.seen[attribute]
        sure[row] = complete


@kernel
def _object(data: np.ndarray, i: int, stop: int, wanted: Wanted, found: FieldSpans, row: int) -> int:  # noqa: PLR0917
    """Behind the object and the space around it, or NO."""
    i = grammar.space(data, i, stop)
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
    """The attribute of this name, looked for from the expected one on; NO if there is none."""
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
    """Notes the value if it is one of an attribute's type; behind it, or NO."""
    if not NO < i < stop:
        return NO
    if attribute == NO:
        return grammar.value(data, i, stop)
    code = wanted.codes[attribute]
    if code in (FLOAT64, STRING):
        end, found.escaped[attribute, row] = _text(data, i, stop, code)
        quote = int(code == STRING)
        found.first[attribute, row], found.last[attribute, row] = i + quote, end - quote
    else:
        end, found.first[attribute, row] = _plain(data, i, stop, code)
    return end


@kernel
def _text(data: np.ndarray, i: int, stop: int, code: int) -> tuple[int, bool]:
    """A value that is kept as its bytes: behind it, or NO; whether it holds escapes."""
    if code == STRING:
        return grammar.string(data, i, stop)
    end, _, _ = grammar.number(data, i, stop)
    # -0 is an integer, which has no sign of zero; the exact way reads it so.
    return (NO if end - i == MINUS_ZERO and data[i] == MINUS and data[i + 1] == ZERO else end), False


@kernel
def _plain(data: np.ndarray, i: int, stop: int, code: int) -> tuple[int, int]:
    """A value that fits into 64 bits: behind it, or NO; the value."""
    if code == BOOLEAN:
        end = grammar.literal(data, i, stop)
        return (NO if data[i] == SMALL_N else end), int(data[i] == SMALL_T)
    if code == TIMESTAMP and data[i] == QUOTE:
        end, _ = grammar.string(data, i, stop)
        value, sure = moment(data, i + 1, end - 1)
        return (end if sure else NO), value
    end, point, has_exponent = grammar.number(data, i, stop)
    if end == NO or has_exponent or (code == INT64 and point != NO):
        return NO, 0
    value, sure = integer(data, i, end) if code == INT64 else seconds(data, i, end, point)
    return (end if sure else NO), value
