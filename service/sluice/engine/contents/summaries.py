"""Summaries of tuples: the accumulators of aggregation functions. A summary has a few 64-bit words.

All aggregates have the same interface: `lift` makes the summary of one tuple, `combine` makes one summary of two
neighbouring sequences of tuples (it is associative; the left sequence is older), and aggregates/function_table.py makes
the result of a summary. Windows of all kinds use only these operations.

code              words of a summary                     of
SUM_INT           sum                                    int64; wraps as SPL's does (7.3)
SUM_REAL          sum, its rounding error                float64 (compensated: order and cancellation do not show;
                                                         sums beyond its range: `_large_sum`)
SUM_WIDE          high and low half of a 128-bit sum     int64, for Average (A20)
MOMENTS           number, mean, sum of (value - mean)^2  float64, for the deviations (A21)
OLDEST, YOUNGEST  value                                  First; Last and Any
LEAST, GREATEST   value [, companion]                    int64, timestamp, boolean; ties to the older (7.3)
... _REAL         value [, companion]                    float64; NaN only where there is no number (A16)
... _TEXT         value [, companion]                    strings, by their bytes
LAST + one of     value [, companion]                    the same; ties to the younger (FN9)
  these six

The companion of an extreme is the word of another column (ArgMin) or, with TIMES, the number of tuples that have the
extreme value (MinCount).

Sequence numbers make `combine` work for sequences that are not neighbours or not in order of arrival:
`layout(summaries, arrival=column)` names the column of `rows` with the tuples' sequence numbers. All picks (OLDEST to
GREATEST_TEXT) then have the sequence number of their tuple as last word, and `combine` compares these numbers instead
of taking the left side for the older one. It is then commutative, except for the last digits of SUM_REAL and MOMENTS.

A summary with a guard summarises only the tuples whose word in the column `guard` is 1, not 0: those in which a value
is present, or for which a condition holds. In front of its words is one more, `word - 1`: the number of these tuples. A
summary of none of them is the identity of `combine`, and its other words mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sluice.columns.float_bits import as_real, as_word
from sluice.columns.interner import InternedText, less
from sluice.columns.kernel import inlined

(
    SUM_INT, SUM_REAL, SUM_WIDE, MOMENTS, OLDEST, YOUNGEST,
    LEAST, GREATEST, LEAST_REAL, GREATEST_REAL, LEAST_TEXT, GREATEST_TEXT,
) = range(12)  # fmt: skip

#: added to the code of an extreme: of several tuples with the extreme value the youngest one is picked
LAST = 6
#: the divisor of sums that are beyond the range of float64
LARGE = 2.0**64
#: the bits of a NaN, those of its payload, and how many bits of a float64 the payload lacks
QUIET_NAN, PAYLOAD, CUT = 0x7FF8 << 48, 2**51 - 1, 13
#: the number of words of a summary (default 1), without companion and sequence number
WIDTH = {SUM_REAL: 2, SUM_WIDE: 2, MOMENTS: 3}
#: no column: as companion, arrival or guard
NONE = -1
#: as companion: the number of tuples that have the extreme value
TIMES = -2

#: the layout of an operator's summaries, one record per summary: its code, its words [word, end) in a row of summaries,
#: and the columns of the value, of the companion, of the sequence number and of the guard
LAYOUT = np.dtype([
    ("code", np.int64), ("word", np.int64), ("end", np.int64),
    ("value", np.int64), ("companion", np.int64), ("arrival", np.int64),
    ("guard", np.int64),
])  # fmt: skip
Layout = np.ndarray


class Summary(NamedTuple):
    """A summary of the column `value`. `companion` is a column, NONE or TIMES; `guard` is a column or NONE."""

    code: int
    value: int
    companion: int = NONE
    guard: int = NONE


class SummaryField(NamedTuple):
    """One record of a layout, as plain values that a loop keeps in registers."""

    code: int
    word: int
    end: int
    value: int
    companion: int
    arrival: int
    guard: int


#: the words of one summary; unused ones are 0: value, companion and sequence number, or the words of a sum; then the
#: number of tuples behind a guard
Words = tuple[int, int, int, int]


def layout(summaries: list[Summary], arrival: int = NONE, first: int = 0) -> tuple[Layout, int]:
    """The layout of the summaries, whose words start at number `first`, and the number of the word behind the last."""
    fields, width = np.zeros(len(summaries), LAYOUT), first
    for a, (code, value, companion, guard) in enumerate(summaries):
        sequence = arrival if code >= OLDEST else NONE
        word = width + (guard != NONE)
        end = word + WIDTH.get(code, 1) + (companion != NONE) + (sequence != NONE)
        fields[a] = (code, word, end, value, companion, sequence, guard)
        width = end
    return fields, width


@inlined
def summary(fields: Layout, a: int, code: int) -> SummaryField:
    """Record `a` of a layout, which has no guard. `code` must be its code; a constant lets the compiler drop the other
    codes' branches.
    """
    return SummaryField(
        code, fields[a].word, fields[a].end, fields[a].value, fields[a].companion, fields[a].arrival, NONE
    )


@inlined
def guarded(fields: Layout, a: int, code: int) -> SummaryField:
    """Like `summary`, for a record that may have a guard."""
    return SummaryField(
        code, fields[a].word, fields[a].end, fields[a].value, fields[a].companion, fields[a].arrival, fields[a].guard
    )


@inlined
def present(fields: Layout, a: int, code: int) -> SummaryField:
    """Like `summary`, for a record with a guard that has neither companion nor sequence number."""
    return SummaryField(code, fields[a].word, fields[a].end, fields[a].value, NONE, NONE, fields[a].guard)


@inlined
def alone(fields: Layout, a: int, code: int) -> SummaryField:
    """Like `summary`, for a record that has neither companion nor sequence number."""
    return SummaryField(code, fields[a].word, fields[a].end, fields[a].value, NONE, NONE, NONE)


@inlined
def with_each(fields: Layout, do: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
    """Calls `do(field, *arguments)` for each summary of the layout.

    The most frequent codes are passed as constants. The compiler then specializes `do` for them, so that the loops in
    `do` have no branches on the code.
    """
    for a in range(len(fields)):
        code, plain = fields[a].code, fields[a].companion == NONE and fields[a].arrival == NONE
        if fields[a].guard != NONE and code == SUM_REAL:
            do(present(fields, a, SUM_REAL), *arguments)
        elif fields[a].guard != NONE and code == GREATEST_REAL and plain:
            do(present(fields, a, GREATEST_REAL), *arguments)
        elif fields[a].guard != NONE and code == LEAST_REAL and plain:
            do(present(fields, a, LEAST_REAL), *arguments)
        elif fields[a].guard != NONE:
            do(guarded(fields, a, code), *arguments)
        elif code == SUM_REAL:
            do(alone(fields, a, SUM_REAL), *arguments)
        elif code == SUM_INT:
            do(alone(fields, a, SUM_INT), *arguments)
        elif code == GREATEST_REAL and plain:
            do(alone(fields, a, GREATEST_REAL), *arguments)
        elif code == LEAST_REAL and plain:
            do(alone(fields, a, LEAST_REAL), *arguments)
        else:
            do(summary(fields, a, code), *arguments)


@inlined
def lift(fields: Layout, rows: np.ndarray, slot: int, into: np.ndarray, at: int) -> None:
    """Writes the summaries of the tuple in `slot` to `into[at]`."""
    for a in range(len(fields)):
        field = guarded(fields, a, fields[a].code)
        put(field, lifted(field, rows, slot), into, at)


@inlined
def combine(
    fields: Layout,
    text: InternedText,
    older: np.ndarray,
    left: int,
    younger: np.ndarray,
    right: int,
    into: np.ndarray,
    d: int,
) -> None:
    """Combines the summaries `older[left]` and `younger[right]` into `into[d]`, which may be one of the two."""
    for a in range(len(fields)):
        code = fields[a].code
        if fields[a].guard != NONE and code == SUM_REAL:
            _combine_one(present(fields, a, SUM_REAL), text, older, left, younger, right, into, d)
        elif fields[a].guard != NONE:
            _combine_one(guarded(fields, a, code), text, older, left, younger, right, into, d)
        elif code == SUM_REAL:  # one branch on the code here instead of one per word
            _combine_one(alone(fields, a, SUM_REAL), text, older, left, younger, right, into, d)
        elif code == SUM_INT:
            _combine_one(alone(fields, a, SUM_INT), text, older, left, younger, right, into, d)
        elif code < OLDEST:
            _combine_one(alone(fields, a, code), text, older, left, younger, right, into, d)
        elif fields[a].companion == NONE:
            field = SummaryField(code, fields[a].word, fields[a].end, fields[a].value, NONE, fields[a].arrival, NONE)
            _combine_one(field, text, older, left, younger, right, into, d)
        else:
            _combine_one(summary(fields, a, code), text, older, left, younger, right, into, d)


@inlined
def _combine_one(
    field: SummaryField,
    text: InternedText,
    older: np.ndarray,
    left: int,
    younger: np.ndarray,
    right: int,
    into: np.ndarray,
    d: int,
) -> None:
    put(field, combined(field, text, words(field, older, left), words(field, younger, right)), into, d)


# ---- one summary, as values in registers -----------------------------------------------------------------------------


@inlined
def words(field: SummaryField, table: np.ndarray, at: int) -> Words:
    o = field.word
    count = table[at, o - 1] if field.guard != NONE else 0
    if field.code >= OLDEST:
        companion = table[at, o + 1] if field.companion != NONE else 0
        return table[at, o], companion, table[at, field.end - 1] if field.arrival != NONE else 0, count
    if field.code == MOMENTS:
        return table[at, o], table[at, o + 1], table[at, o + 2], count
    return table[at, o], table[at, o + 1] if field.code != SUM_INT else 0, 0, count


@inlined
def put(field: SummaryField, values: Words, into: np.ndarray, at: int) -> None:
    o = field.word
    if field.guard != NONE:
        into[at, o - 1] = values[3]
    into[at, o] = values[0]
    if field.code >= OLDEST:
        if field.companion != NONE:
            into[at, o + 1] = values[1]
        if field.arrival != NONE:
            into[at, field.end - 1] = values[2]
    elif field.code != SUM_INT:
        into[at, o + 1] = values[1]
        if field.code == MOMENTS:
            into[at, o + 2] = values[2]


@inlined
def lifted(field: SummaryField, rows: np.ndarray, slot: int) -> Words:
    value = rows[slot, field.value]
    count = rows[slot, field.guard] if field.guard != NONE else 0
    if field.code >= OLDEST:
        companion = 1 if field.companion == TIMES else rows[slot, field.companion] if field.companion != NONE else 0
        return value, companion, rows[slot, field.arrival] if field.arrival != NONE else 0, count
    if field.code == SUM_WIDE:
        return value >> 63, value, 0, count
    if field.code == MOMENTS:
        return 1, value, as_word(as_real(value) - as_real(value)), count  # 0.0, or NaN if the value is not finite
    return value, 0, 0, count  # the bits of 0.0


@inlined
def combined(field: SummaryField, text: InternedText, older: Words, younger: Words) -> Words:
    """The summary of the older sequence followed by the younger one."""
    if field.guard == NONE:
        return _combined(field, text, older, younger)
    if not older[3]:
        return younger
    if not younger[3]:
        return older
    values = _combined(field, text, older, younger)
    return values[0], values[1], values[2], older[3] + younger[3]


@inlined
def _combined(field: SummaryField, text: InternedText, older: Words, younger: Words) -> Words:
    """Like `combined`, without the number of tuples behind a guard."""
    if field.code == SUM_INT:
        return older[0] + younger[0], 0, 0, 0
    if field.code == SUM_REAL:
        return _sum_of_reals(older, younger)
    if field.code == SUM_WIDE:
        low = np.uint64(older[1]) + np.uint64(younger[1])
        return older[0] + younger[0] + (1 if low < np.uint64(older[1]) else 0), np.int64(low), 0, 0  # type: ignore[return-value]
    if field.code == MOMENTS:
        return _moments(older, younger)
    return _pick(field, text, older, younger)


@inlined
def _sum_of_reals(older: Words, younger: Words) -> Words:
    """Compensated sum (two-sum): `lost` is the exact rounding error of `total`."""
    x, y = as_real(older[0]), as_real(younger[0])
    total = x + y
    part = total - x
    lost = as_real(older[1]) + as_real(younger[1]) + ((x - (total - part)) + (y - part))
    if abs(total) < np.inf and abs(lost) < np.inf:
        return as_word(total), as_word(lost), 0, 0
    return _large_sum(older, younger)


@inlined
def _large_sum(older: Words, younger: Words) -> Words:
    """Sums beyond the range of float64, which may come back into it: the same with both numbers divided by LARGE.

    Such a sum has the divided number as first word, and as second word a NaN that has the divided rounding error in its
    payload (`divided_error`).
    """
    x, y = as_real(older[0]), as_real(younger[0])
    if not (abs(x) < np.inf and abs(y) < np.inf):
        return as_word(x + y), 0, 0, 0
    x, y = _divided(x, older[1]), _divided(y, younger[1])
    total = x + y
    part = total - x
    lost = divided_error(older[1]) + divided_error(younger[1]) + ((x - (total - part)) + (y - part))
    if abs(total * LARGE) < np.inf:
        return as_word(total * LARGE), as_word(lost * LARGE), 0, 0
    return as_word(total), (as_word(lost) >> CUT) & PAYLOAD | QUIET_NAN, 0, 0


@inlined
def _divided(total: float, error: int) -> float:
    return total if np.isnan(as_real(error)) else total / LARGE


@inlined
def divided_error(error: int) -> float:
    """The rounding error, divided by LARGE, that the second word of a sum has: as a float64, or in the payload of a NaN
    without its last CUT bits.
    """
    return as_real((error & PAYLOAD) << CUT) if np.isnan(as_real(error)) else as_real(error) / LARGE


@inlined
def _moments(older: Words, younger: Words) -> Words:
    """Chan's formula. It subtracts no large sums from each other, so there is no cancellation."""
    n, m = older[0], younger[0]
    mean = as_real(older[1])
    apart = as_real(younger[1]) - mean
    share = m / (n + m)
    both = as_real(older[2]) + as_real(younger[2])
    squares = both + apart * apart * share * n
    if np.isnan(squares) and not np.isnan(both):  # means beyond float64 are infinite, their difference NaN
        squares = np.inf
    return n + m, as_word(mean + apart * share), as_word(squares), 0


@inlined
def _pick(field: SummaryField, text: InternedText, older: Words, younger: Words) -> Words:
    code, old, new = field.code, older[0], younger[0]
    came, later = (older[2], younger[2]) if field.arrival != NONE else (0, 1)
    younger_one = _is_younger(code, text, old, new, came, later)
    companion = younger[1] if younger_one else older[1]
    if field.companion == TIMES and not _beats(code, text, new, old) and not _beats(code, text, old, new):
        companion = older[1] + younger[1]
    return new if younger_one else old, companion, later if younger_one else came, 0


@inlined
def _is_younger(code: int, text: InternedText, old: int, new: int, came: int, later: int) -> bool:
    """Whether the value of the right side is picked.

    `came` and `later` are the sequence numbers of the sides. The older side wins a tie, with LAST the younger one.
    """
    if code <= YOUNGEST:
        return (later > came) == (code == YOUNGEST)
    if code > GREATEST_TEXT:
        code -= LAST
        return not _beats(code, text, old, new) if later > came else _beats(code, text, new, old)
    return _beats(code, text, new, old) if later > came else not _beats(code, text, old, new)


@inlined
def _beats(code: int, text: InternedText, new: int, old: int) -> bool:
    if code <= GREATEST:
        return new < old if code == LEAST else new > old
    if code <= GREATEST_REAL:
        x, y = as_real(new), as_real(old)
        behind = x >= y if code == LEAST_REAL else x <= y
        # A number beats NaN. The outcome is unpredictable: `and` would add a second branch, `&` does not.
        return (not behind) & (x == x)  # noqa: PLR0124
    return less(text, new, old) if code == LEAST_TEXT else less(text, old, new)
