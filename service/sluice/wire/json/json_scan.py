"""Finds the attributes in a batch of JSON objects, in compiled loops that make no Python objects.

The scanner accepts a row if it is certain of the result: the row is one valid JSON object in which each attribute has a
plain value of its type. It leaves every other row open (an error, a list, a huge number, an escaped name); the exact
decoder (json_codec.py) then decides about these rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel
from sluice.time_units import SECOND
from sluice.wire.json import json_grammar as grammar
from sluice.wire.json.json_contract import (
    DIGITS,
    SCANNED_BOOLEAN,
    SCANNED_EXACT,
    SCANNED_INT64,
    SCANNED_NUMBER,
    SCANNED_SECONDS,
    SCANNED_STRING,
    SCANNED_VALUE,
)
from sluice.wire.json.json_grammar import COMMA, MINUS, NO, OPEN_LIST, OPEN_OBJECT, QUOTE, SMALL_N, SMALL_T, ZERO
from sluice.wire.json.json_numbers import integer, moment, seconds, units

NINE = ord("9")
MINUS_ZERO = 2  # the length of the text -0
FINITE = 300  # digits of a number without an exponent that float64 holds in any case
TO_CLOSE = 2  # from the character that opens an object or a list to the one that closes it


class Wanted(NamedTuple):
    """The attributes to find, as a tree of their paths: node 0 is the object of the record, and each other node is an
    object or a list in it that has attributes. The children of node n are first[n] to first[n + 1].

    names      child c has the name `names[starts[c]:starts[c + 1]]`
    indices    the index of child c in its list, NO if it is a member of an object
    nodes      the node of child c, NO if it has an attribute
    attribute  the first attribute of child c, NO if it has a node
    first      see above
    opens      the bracket that opens node n
    codes      the code of attribute a: what it reads
    ticks      the nanoseconds of the unit of attribute a, if its values are times
    coerced    whether values of attribute a in another spelling are read, too (PA10)
    twins      the next attribute of the same child, or NO
    optional   the number of attribute a among those that may be null, or NO
    """

    names: np.ndarray
    starts: np.ndarray
    indices: np.ndarray
    nodes: np.ndarray
    attribute: np.ndarray
    first: np.ndarray
    opens: np.ndarray
    codes: np.ndarray
    ticks: np.ndarray
    coerced: np.ndarray
    twins: np.ndarray
    optional: np.ndarray


class FieldSpans(NamedTuple):
    """The values that were found.

    first     `first[a, r]` is the value of attribute a in row r; for a string or float the position of its first byte
    last      `last[a, r]` is the position behind the last byte of a string or float
    escaped   `escaped[a, r]` is true if the string contains escapes
    seen      scratch memory: `seen[a]` is true if the current row has attribute a
    entered   scratch memory: `entered[n]` is true if the current row has node n
    stack     scratch memory: the child that was found last in each open node, the outermost node first; then the node
    present   `present[o, r]` is true if the optional attribute with the number o is not null in row r
    """

    first: np.ndarray
    last: np.ndarray
    escaped: np.ndarray
    seen: np.ndarray
    entered: np.ndarray
    stack: np.ndarray
    present: np.ndarray


@kernel
def scan(data: np.ndarray, starts: np.ndarray, wanted: Wanted, spans: FieldSpans, sure: np.ndarray) -> None:
    """Reads each row r, which is `data[starts[r]:starts[r + 1]]`; sets `sure[r]` to whether the scanner accepts it."""
    for row in range(len(sure)):
        for attribute in range(len(spans.seen)):
            spans.seen[attribute] = False
            if wanted.optional[attribute] != NO:
                _be_null(wanted, spans, row, attribute)
        for node in range(len(spans.entered)):
            spans.entered[node] = False
        complete = _record(data, starts[row], starts[row + 1], wanted, spans, row) == starts[row + 1]
        for attribute in range(len(spans.seen)):
            complete = complete and (spans.seen[attribute] or wanted.optional[attribute] != NO)
        sure[row] = complete


@kernel
def _record(  # noqa: C901, PLR0917 - one loop over the open objects, as kernels do not call themselves
    data: np.ndarray, i: int, stop: int, wanted: Wanted, spans: FieldSpans, row: int
) -> int:
    """Reads the object of a record. Returns the position behind it and behind the space around it, or NO.

    Values without attributes are skipped as a whole.
    """
    i = grammar.space(data, grammar.mark(data, i, stop), stop)
    if i == stop or data[i] != OPEN_OBJECT:
        return NO
    i = grammar.space(data, i + 1, stop)
    node, depth, at, fresh = 0, 0, NO, True
    while i < stop:
        if not fresh or data[i] != wanted.opens[node] + TO_CLOSE:
            i, child, at = _child(data, i, stop, wanted, node, at)
            inner = wanted.nodes[child] if child != NO else NO
            # of a name that stands twice the last counts, so what was found in the first would be wrong
            if not NO < i < stop or (inner != NO and spans.entered[inner]):
                return NO
            if inner != NO and data[i] == wanted.opens[inner]:
                spans.entered[inner] = True
                spans.stack[0, depth], spans.stack[1, depth] = node, at
                node, depth, at, fresh = inner, depth + 1, NO, True
                i = grammar.space(data, i + 1, stop)
                continue
            if inner != NO or child == NO:
                i = grammar.value(data, i, stop)
            else:
                i = _values(data, i, stop, wanted, spans, row, wanted.attribute[child])
            if i == NO:
                return NO
            i = grammar.space(data, i, stop)
        while i < stop and data[i] == wanted.opens[node] + TO_CLOSE:
            i = grammar.space(data, i + 1, stop)
            if depth == 0:
                return i
            depth -= 1
            node, at = spans.stack[0, depth], spans.stack[1, depth]
        if i == stop or data[i] != COMMA:
            return NO
        i, fresh = grammar.space(data, i + 1, stop), False
    return NO


@kernel
def _child(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, wanted: Wanted, node: int, at: int
) -> tuple[int, int, int]:
    """Reads the name of the member, or counts the element, that starts here.

    Returns the position of its value, or NO; its child, or NO; and the next `at`: the child that was found last in an
    object, or the index of the element in a list.
    """
    if wanted.opens[node] == OPEN_LIST:
        return i, _element(wanted, node, at + 1), at + 1
    end, has_escape = grammar.string(data, i, stop)
    if end == NO or has_escape:
        return NO, NO, NO
    child = _member(data, i + 1, end - 1, wanted, node, at + 1)
    return grammar.colon(data, end, stop), child, child


@kernel
def _element(wanted: Wanted, node: int, index: int) -> int:
    for child in range(wanted.first[node], wanted.first[node + 1]):
        if wanted.indices[child] == index:
            return child
    return NO


@kernel
def _member(  # noqa: PLR0917
    data: np.ndarray, start: int, stop: int, wanted: Wanted, node: int, expected: int
) -> int:
    """The child of the node whose name is `data[start:stop]`, or NO. The search starts at `expected`."""
    low, high = wanted.first[node], wanted.first[node + 1]
    child = expected if low <= expected < high else low
    for _ in range(high - low):
        at = wanted.starts[child]
        if wanted.starts[child + 1] - at == stop - start:
            i = 0
            while i < stop - start and data[start + i] == wanted.names[at + i]:
                i += 1
            if i == stop - start:
                return child
        child = child + 1 if child + 1 < high else low
    return NO


@kernel
def _values(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, wanted: Wanted, spans: FieldSpans, row: int, attribute: int
) -> int:
    """Stores the value that starts here for the attribute and its twins. Returns the position behind it, or NO."""
    end = NO
    while attribute != NO:
        end = _value_of(data, i, stop, wanted, spans, row, attribute)
        if end == NO:
            return NO
        spans.seen[attribute] = True
        attribute = wanted.twins[attribute]
    return end


@kernel
def _value_of(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, wanted: Wanted, spans: FieldSpans, row: int, attribute: int
) -> int:
    """Stores the value of an attribute. Returns the position behind it, or NO."""
    number = wanted.optional[attribute]
    if number != NO:
        if data[i] == SMALL_N:
            _be_null(wanted, spans, row, attribute)
            return grammar.literal(data, i, stop)
        spans.present[number, row] = True
    code = wanted.codes[attribute]
    if wanted.coerced[attribute]:
        end = _coerced(data, i, stop, wanted, spans, row, attribute)
        if end != NO:
            return end
    if code == SCANNED_VALUE:
        end = grammar.value(data, i, stop)
        spans.first[attribute, row], spans.last[attribute, row] = i, end
    elif code >= SCANNED_EXACT:
        quote = int(data[i] == QUOTE)
        end = _exact(data, i + quote, stop, code - SCANNED_EXACT)
        spans.first[attribute, row], spans.last[attribute, row] = i + quote, end
        if quote and end != NO:
            end = end + 1 if end < stop and data[end] == QUOTE else NO
    elif code in (SCANNED_NUMBER, SCANNED_STRING):
        end, spans.escaped[attribute, row] = _text(data, i, stop, code)
        quote = int(code == SCANNED_STRING)
        spans.first[attribute, row], spans.last[attribute, row] = i + quote, end - quote
    else:
        end, spans.first[attribute, row] = _plain(data, i, stop, code, wanted.ticks[attribute])
    return end


@kernel
def _coerced(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, wanted: Wanted, spans: FieldSpans, row: int, attribute: int
) -> int:
    """Stores a value in another spelling (PA10): a number in quotes, a number or a boolean as a string, 0 or 1 as a
    boolean, an empty text as null. Returns the position behind it, or NO for other values.
    """
    code, first = wanted.codes[attribute], data[i]
    if first == QUOTE and code in (SCANNED_INT64, SCANNED_SECONDS, SCANNED_NUMBER) and stop - i > 1:
        if data[i + 1] == QUOTE and wanted.optional[attribute] != NO:
            _be_null(wanted, spans, row, attribute)
            return i + 2
        return _in_quotes(data, i + 1, stop, code, wanted.ticks[attribute], spans, row, attribute)
    if code == SCANNED_STRING and first not in (QUOTE, SMALL_N):
        end = grammar.literal(data, i, stop)
        end = grammar.number(data, i, stop)[0] if end == NO else end
        spans.first[attribute, row], spans.last[attribute, row], spans.escaped[attribute, row] = i, end, False
        return end
    if code == SCANNED_BOOLEAN and ZERO <= first <= ZERO + 1:
        spans.first[attribute, row] = first - ZERO
        return i + 1 if grammar.number(data, i, stop)[0] == i + 1 else NO
    return NO


@kernel
def _in_quotes(  # noqa: PLR0917
    data: np.ndarray, i: int, stop: int, code: int, tick: int, spans: FieldSpans, row: int, attribute: int
) -> int:
    """Stores a number whose digits begin here, behind a quote. Returns the position behind the second quote, or NO."""
    end, point, has_exponent = grammar.number(data, i, stop)
    if end in (NO, stop) or data[end] != QUOTE or has_exponent or (code == SCANNED_INT64 and point != NO):
        return NO
    if code == SCANNED_NUMBER:
        spans.first[attribute, row], spans.last[attribute, row], spans.escaped[attribute, row] = i, end, False
        minus_zero = end - i == MINUS_ZERO and data[i] == MINUS and data[i + 1] == ZERO
        return NO if minus_zero or end - i > FINITE else end + 1
    value, sure = _whole_number(data, i, end, point, code, tick)
    spans.first[attribute, row] = value
    return end + 1 if sure else NO


@kernel
def _whole_number(  # noqa: PLR0917
    data: np.ndarray, i: int, end: int, point: int, code: int, tick: int
) -> tuple[int, bool]:
    """The int64, or the nanoseconds of the time, that these digits are, and whether this is certain."""
    if code == SCANNED_INT64:
        return integer(data, i, end)
    return seconds(data, i, end, point) if tick == SECOND else units(data, i, end, point, tick)


@kernel
def _be_null(wanted: Wanted, spans: FieldSpans, row: int, attribute: int) -> None:
    spans.present[wanted.optional[attribute], row] = False
    spans.first[attribute, row] = spans.last[attribute, row] = 0
    spans.escaped[attribute, row] = False


@kernel
def _text(data: np.ndarray, i: int, stop: int, code: int) -> tuple[int, bool]:
    """Reads a string or float. Returns the position behind it, or NO, and whether it contains escapes."""
    if code == SCANNED_STRING:
        return grammar.string(data, i, stop)
    end, _, _ = grammar.number(data, i, stop)
    # -0 is an integer in JSON, whose zero has no sign; the exact decoder reads it so.
    return (NO if end - i == MINUS_ZERO and data[i] == MINUS and data[i + 1] == ZERO else end), False


@kernel
def _exact(data: np.ndarray, i: int, stop: int, digits: int) -> int:
    """Reads a number with at most so many digits before and behind the point. Returns the position behind it, or NO."""
    if i == stop or not (data[i] == MINUS or ZERO <= data[i] <= NINE):
        return NO
    end, point, has_exponent = grammar.number(data, i, stop)
    whole = (end if point == NO else point) - i - (data[i] == MINUS)
    behind = 0 if point == NO else end - point - 1
    fits = end != NO and not has_exponent and whole <= max(digits // DIGITS, 1) and behind <= digits % DIGITS
    return end if fits and (digits >= DIGITS or data[i + (data[i] == MINUS)] == ZERO) else NO


@kernel
def _plain(data: np.ndarray, i: int, stop: int, code: int, tick: int) -> tuple[int, int]:
    """Reads a boolean, int64 or timestamp, whose unit has `tick` nanoseconds. Returns the position behind it, or NO,
    and the value.
    """
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
    value, sure = _whole_number(data, i, end, point, code, tick)
    return (end if sure else NO), value


@kernel
def items(
    data: np.ndarray, first: np.ndarray, last: np.ndarray, counts: np.ndarray, spans: tuple[np.ndarray, np.ndarray]
) -> int:
    """Finds the items of the valid values with these spans. Sets the number of items of each list, NO for another
    value, and stores the spans of the items as far as there is room. Returns the number of all items.
    """
    total = 0
    for row in range(len(counts)):
        i, stop = first[row], last[row]
        counts[row] = NO
        if i == stop or data[i] != OPEN_LIST:
            continue
        counts[row] = 0
        i = grammar.space(data, i + 1, stop)
        while data[i] != OPEN_LIST + TO_CLOSE:
            end = grammar.value(data, i, stop)
            if total < len(spans[0]):
                spans[0][total], spans[1][total] = i, end
            total, counts[row] = total + 1, counts[row] + 1
            i = grammar.space(data, end, stop)
            i = grammar.space(data, i + 1, stop) if data[i] == COMMA else i
    return total
