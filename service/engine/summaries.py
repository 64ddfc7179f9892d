"""What an aggregate keeps of tuples: a summary of a few words, and how two summaries make one.

Every aggregate has the same shape: `lift` makes the summary of one tuple, `combine` that of two neighbouring stretches
(it is associative; the left one is older), and aggregates.py makes the result of it. A window of any kind needs no
more.

code              words of a summary                     of
SUM_INT           sum                                    int64; wraps as SPL's does (7.3)
SUM_REAL          sum, what rounding lost of it          float64 (compensated, so order and cancellation do not show;
                                                         beyond its range: `_combine_large`)
SUM_WIDE          high and low half of a 128-bit sum     int64, for Average (A20)
MOMENTS           number, mean, sum of (value - mean)^2  float64, for the deviations (A21)
OLDEST, YOUNGEST  value                                  First; Last and Any
LEAST, GREATEST   value [, companion]                    int64, timestamp, boolean; ties to the older (7.3)
... _REAL         value [, companion]                    float64; NaN only where there is no number (A16)
... _TEXT         value [, companion]                    strings, by their bytes

The companion of an extreme is the word of another column (ArgMin), or with TIMES how many tuples have the value
(MinCount).

Stretches that are not neighbours, or whose tuples are out of order, combine in any order when the layout knows of the
arrival: `layout(summaries, arrival=column)` says which column of `rows` holds the tuples' sequence numbers. All picks
(OLDEST to GREATEST_TEXT) then carry the number of their tuple as their last word, and `combine` asks it, not the sides,
who came first: it is commutative but for the last digits of SUM_REAL and MOMENTS. Nothing else changes: the same
`lift`, `combine` and finish of each function.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.engine.bits import as_real, as_word
from service.engine.kernel import inlined
from service.engine.strings import Text, less

(
    SUM_INT, SUM_REAL, SUM_WIDE, MOMENTS, OLDEST, YOUNGEST,
    LEAST, GREATEST, LEAST_REAL, GREATEST_REAL, LEAST_TEXT, GREATEST_TEXT,
) = range(12)  # fmt: skip

#: by what sums beyond float64 are divided
LARGE = 2.0**64
#: words of a summary, without companion and sequence number
WIDTH = {SUM_REAL: 2, SUM_WIDE: 2, MOMENTS: 3}
#: no column
NONE = -1
#: as companion: the number of tuples that have the value
TIMES = -2

#: the summaries of an operator, one record each: code, the words [word, end), and the columns of value, companion and
#: arrival
LAYOUT = np.dtype([
    ("code", np.int64), ("word", np.int64), ("end", np.int64),
    ("value", np.int64), ("companion", np.int64), ("arrival", np.int64),
])  # fmt: skip
Layout = np.ndarray


class Summary(NamedTuple):
    """A summary of the columns `value` and `companion`, which may be NONE or TIMES."""

    code: int
    value: int
    companion: int = NONE


class One(NamedTuple):
    """One record of a layout, as values that a loop holds on to."""

    code: int
    word: int
    end: int
    value: int
    companion: int
    arrival: int


def layout(summaries: list[Summary], arrival: int = NONE, first: int = 0) -> tuple[Layout, int]:
    """The layout of the summaries, from word number `first` on, and the words up to its end."""
    made, width = np.zeros(len(summaries), LAYOUT), first
    for a, (code, value, companion) in enumerate(summaries):
        sequence = arrival if code >= OLDEST else NONE
        end = width + WIDTH.get(code, 1) + (companion != NONE) + (sequence != NONE)
        made[a] = (code, width, end, value, companion, sequence)
        width = end
    return made, width


@inlined
def summary(of: Layout, a: int, code: int) -> One:
    """Number `a` of a layout; `code` is its own."""
    return One(code, of[a].word, of[a].end, of[a].value, of[a].companion, of[a].arrival)


@inlined
def lift(of: Layout, rows: np.ndarray, slot: int, into: np.ndarray, at: int) -> None:
    """The summaries of the one tuple in `slot`."""
    for a in range(len(of)):
        lift_one(summary(of, a, of[a].code), rows, slot, into, at)


@inlined
def lift_one(of: One, rows: np.ndarray, slot: int, into: np.ndarray, at: int) -> None:
    o, value = of.word, rows[slot, of.value]
    into[at, o] = value
    if of.code == SUM_REAL:
        into[at, o + 1] = 0  # the bits of 0.0
    elif of.code == SUM_WIDE:
        into[at, o] = value >> 63
        into[at, o + 1] = value
    elif of.code == MOMENTS:
        into[at, o] = 1
        into[at, o + 1] = value
        into[at, o + 2] = as_word(as_real(value) - as_real(value))  # 0, or NaN of what is not finite
    elif of.code >= OLDEST:
        if of.companion != NONE:
            o += 1
            into[at, o] = 1 if of.companion == TIMES else rows[slot, of.companion]
        if of.arrival != NONE:
            into[at, o + 1] = rows[slot, of.arrival]


@inlined
def combine(
    of: Layout, text: Text, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """The summaries of the stretch `older[left]` followed by `younger[right]`; `into[d]` may be either of them."""
    for a in range(len(of)):
        combine_one(summary(of, a, of[a].code), text, older, left, younger, right, into, d)


@inlined
def combine_one(
    of: One, text: Text, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    o = of.word
    if of.code == SUM_INT:
        into[d, o] = older[left, o] + younger[right, o]
    elif of.code == SUM_REAL:
        _combine_reals(o, older, left, younger, right, into, d)
    elif of.code == SUM_WIDE:
        low = np.uint64(older[left, o + 1]) + np.uint64(younger[right, o + 1])
        carry = 1 if low < np.uint64(older[left, o + 1]) else 0
        into[d, o] = older[left, o] + younger[right, o] + carry
        into[d, o + 1] = np.int64(low)
    elif of.code == MOMENTS:
        _combine_moments(o, older, left, younger, right, into, d)
    else:
        _combine_picks(of, text, older, left, younger, right, into, d)


@inlined
def copy_one(of: One, summaries: np.ndarray, at: int, into: np.ndarray, d: int) -> None:
    for o in range(of.word, of.end):
        into[d, o] = summaries[at, o]


@inlined
def _combine_reals(
    o: int, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """Two-sum: `lost` is what the rounded total lacks, exactly."""
    x, y = as_real(older[left, o]), as_real(younger[right, o])
    total = x + y
    part = total - x
    lost = as_real(older[left, o + 1]) + as_real(younger[right, o + 1]) + ((x - (total - part)) + (y - part))
    if abs(total) < np.inf and not np.isnan(lost):
        into[d, o] = as_word(total)
        into[d, o + 1] = as_word(lost)
    else:
        _combine_large(o, older, left, younger, right, into, d)


@inlined
def _combine_large(
    o: int, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """Sums beyond float64: where `lost` is NaN, the sum is LARGE times as large as it says."""
    x, y = as_real(older[left, o]), as_real(younger[right, o])
    total, lost = x + y, 0.0
    if abs(x) < np.inf and abs(y) < np.inf:
        total = x if np.isnan(as_real(older[left, o + 1])) else x / LARGE
        total += y if np.isnan(as_real(younger[right, o + 1])) else y / LARGE
        if abs(total * LARGE) < np.inf:
            total *= LARGE
        else:
            lost = np.nan
    into[d, o] = as_word(total)
    into[d, o + 1] = as_word(lost)


@inlined
def _combine_moments(
    o: int, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """Chan's: no difference of large sums, so nothing cancels."""
    n, m = older[left, o], younger[right, o]
    mean = as_real(older[left, o + 1])
    apart = as_real(younger[right, o + 1]) - mean
    share = m / (n + m)
    both = as_real(older[left, o + 2]) + as_real(younger[right, o + 2])
    squares = both + apart * apart * share * n
    if np.isnan(squares) and not np.isnan(both):  # a mean that is too large for float64 is infinite, two are NaN apart
        squares = np.inf
    into[d, o] = n + m
    into[d, o + 1] = as_word(mean + apart * share)
    into[d, o + 2] = as_word(squares)


@inlined
def _combine_picks(
    of: One, text: Text, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    code, o, last = of.code, of.word, of.end - 1
    old, new = older[left, o], younger[right, o]
    came, later = (older[left, last], younger[right, last]) if of.arrival != NONE else (0, 1)
    younger_one = _is_younger(code, text, old, new, came, later)
    into[d, o] = new if younger_one else old
    if of.companion != NONE:
        one, other = older[left, o + 1], younger[right, o + 1]
        tied = of.companion == TIMES and not _beats(code, text, new, old) and not _beats(code, text, old, new)
        into[d, o + 1] = one + other if tied else other if younger_one else one
    if of.arrival != NONE:
        into[d, last] = later if younger_one else came


@inlined
def _is_younger(code: int, text: Text, old: int, new: int, came: int, later: int) -> bool:
    """Whether the value of the right side is picked; `came` and `later` say which side is older, and keeps a tie."""
    if code <= YOUNGEST:
        return (later > came) == (code == YOUNGEST)
    return _beats(code, text, new, old) if later > came else not _beats(code, text, old, new)


@inlined
def _beats(code: int, text: Text, new: int, old: int) -> bool:
    if code <= GREATEST:
        return new < old if code == LEAST else new > old
    if code <= GREATEST_REAL:
        x, y = as_real(new), as_real(old)
        behind = x >= y if code == LEAST_REAL else x <= y
        # A number beats NaN. Nobody can foresee the answer: `&` asks once, `and` has the processor guess twice.
        return (not behind) & (x == x)  # noqa: PLR0124
    return less(text, new, old) if code == LEAST_TEXT else less(text, old, new)
