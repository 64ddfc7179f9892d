"""What an aggregate keeps of tuples: a summary of a few words, and how two summaries make one.

Every aggregate has the same shape: `lift` makes the summary of one tuple, `combine` that of two neighbouring stretches
(it is associative; the left one is older), and aggregates.py makes the result of it. A window of any kind needs no
more.

code             words of a summary                     of
SUM_INT          sum                                    int64; wraps as SPL's does (7.3)
SUM_FLOAT        sum, what rounding lost of it          float64 (compensated, so order and cancellation do not show)
SUM_WIDE         high and low half of a 128-bit sum     int64, for Average (A20)
OLDEST, YOUNGEST word                                   First; Last and Any
LEAST, GREATEST  value, companion                       int64, timestamp, boolean; ties to the older (7.3)
... _TEXT        value, companion                       strings, by their bytes
... _FLOAT       first and best value, with companions  float64: a first NaN stays, later ones are ignored (A16)
"""

from __future__ import annotations

import numpy as np

from service.engine.bits import as_real, as_word
from service.engine.kernel import inlined
from service.engine.strings import Text, less

(
    SUM_INT, SUM_FLOAT, SUM_WIDE, OLDEST, YOUNGEST,
    LEAST, GREATEST, LEAST_TEXT, GREATEST_TEXT, LEAST_FLOAT, GREATEST_FLOAT,
) = range(11)  # fmt: skip

#: words of a summary
WIDTH = {
    SUM_INT: 1, SUM_FLOAT: 2, SUM_WIDE: 2, OLDEST: 1, YOUNGEST: 1,
    LEAST: 2, GREATEST: 2, LEAST_TEXT: 2, GREATEST_TEXT: 2, LEAST_FLOAT: 4, GREATEST_FLOAT: 4,
}  # fmt: skip


#: the summaries of an operator, one record each: code, first word, and the columns of value and companion
LAYOUT = np.dtype([("code", np.int64), ("word", np.int64), ("value", np.int64), ("companion", np.int64)])
Layout = np.ndarray


def layout(summaries: list[tuple[int, int, int]]) -> tuple[Layout, int]:
    """The layout of summaries (code, value column, companion column), and their words in all."""
    made, width = np.zeros(len(summaries), LAYOUT), 0
    for a, (code, value, companion) in enumerate(summaries):
        made[a] = (code, width, value, companion)
        width += WIDTH[code]
    return made, width


@inlined
def lift(of: Layout, rows: np.ndarray, slot: int, into: np.ndarray, at: int) -> None:
    """The summaries of the one tuple in `slot`."""
    for a in range(len(of)):
        code, o = of[a].code, of[a].word
        value = rows[slot, of[a].value]
        into[at, o] = value
        if code == SUM_FLOAT:
            into[at, o + 1] = 0  # the bits of 0.0
        elif code == SUM_WIDE:
            into[at, o] = value >> 63
            into[at, o + 1] = value
        elif code >= LEAST:
            companion = rows[slot, of[a].companion]
            into[at, o + 1] = companion
            if code >= LEAST_FLOAT:
                into[at, o + 2] = value
                into[at, o + 3] = companion


@inlined
def combine(
    of: Layout, text: Text, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """The summaries of the stretch `older[left]` followed by `younger[right]`; `into[d]` may be either of them."""
    for a in range(len(of)):
        code, o = of[a].code, of[a].word
        if code == SUM_INT:
            into[d, o] = older[left, o] + younger[right, o]
        elif code == SUM_FLOAT:
            x, y = as_real(older[left, o]), as_real(younger[right, o])
            total = x + y
            part = total - x
            lost = (x - (total - part)) + (y - part)  # two-sum: what `total` lacks, exactly
            into[d, o + 1] = as_word(as_real(older[left, o + 1]) + as_real(younger[right, o + 1]) + lost)
            into[d, o] = as_word(total)
        elif code == SUM_WIDE:
            low = np.uint64(older[left, o + 1]) + np.uint64(younger[right, o + 1])
            carry = 1 if low < np.uint64(older[left, o + 1]) else 0
            into[d, o] = older[left, o] + younger[right, o] + carry
            into[d, o + 1] = np.int64(low)
        elif code == OLDEST:
            into[d, o] = older[left, o]
        elif code == YOUNGEST:
            into[d, o] = younger[right, o]
        elif code >= LEAST_FLOAT:
            _combine_reals(code, o, older, left, younger, right, into, d)
        elif _better(code, text, younger[right, o], older[left, o]):
            into[d, o], into[d, o + 1] = younger[right, o], younger[right, o + 1]
        else:
            into[d, o], into[d, o + 1] = older[left, o], older[left, o + 1]


@inlined
def _better(code: int, text: Text, new: int, old: int) -> bool:
    if code == LEAST:
        return new < old
    if code == GREATEST:
        return new > old
    return less(text, new, old) if code == LEAST_TEXT else less(text, old, new)


@inlined
def _combine_reals(
    code: int, o: int, older: np.ndarray, left: int, younger: np.ndarray, right: int, into: np.ndarray, d: int
) -> None:
    """The first value stays the older one's; the best is a number where there is one."""
    old, new = as_real(older[left, o + 2]), as_real(younger[right, o + 2])
    if np.isnan(old) or (new < old if code == LEAST_FLOAT else new > old):
        best, companion = younger[right, o + 2], younger[right, o + 3]
    else:
        best, companion = older[left, o + 2], older[left, o + 3]
    into[d, o], into[d, o + 1] = older[left, o], older[left, o + 1]
    into[d, o + 2], into[d, o + 3] = best, companion
