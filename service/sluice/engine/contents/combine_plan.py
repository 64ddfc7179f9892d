"""What is to be combined with what: noted as steps first, then done aggregate by aggregate.

Which summaries combine follows from the windows alone. So that is asked once, however many aggregates there are, and
the loop of an aggregate asks nothing else: it goes through the steps and does its own arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import prefetch
from sluice.engine.contents.summaries import Layout, One, Words, combined, lifted, put, with_each, words

#: what a step makes; where `left` or `right` is NOBODY, there is nothing
#: BEGIN  `back[into]` of the tuple `right`
#: ADD    `back[into]` of itself and the tuple `right`
#: FOLD   `stack[into]` of the tuples of the block `into` as far as `left`, which is one of them, and `stack[right]`
#: SPREAD the part `into` of `spread`, for each tuple of a block from `left` on: of itself and all behind it as far as
#:        the tuple ~`right`, or to the end of the block and with `stack[right]`
#: TELL   `told[into]` of `stack[left]` and `back[right]`
#: MELD   `stack[into]` of itself and `stack[right]`, which may be any others
#: NEXT   `told[into]` of `spread[left]` and `back[right]`
BEGIN, ADD, FOLD, SUFFIX_SCAN, MERGE, OUTPUT, OUTPUT_SUFFIX = range(7)
STEP = np.dtype([("what", np.int32), ("into", np.int32), ("left", np.int32), ("right", np.int32)])
#: summaries that are near anyway
NEAR = 16_384
#: no table
NOTHING = np.zeros((0, 0), np.int64)
#: steps that are noted before they are done: few enough that all they touch stays near
MOST = 2048


class Summaries(NamedTuple):
    """The tables of summaries, and the steps."""

    layout: Layout
    text: InternedText
    #: the words of every stored tuple
    rows: np.ndarray
    #: the summary of each cell's back stack
    back: np.ndarray
    #: the summaries that the blocks of the front carry, or the nodes of heaps
    stack: np.ndarray
    #: those of each tuple of some blocks, in parts of a block's size, which is 2 ** `shift`
    spread: np.ndarray
    shift: int
    steps: np.ndarray
    #: how many steps are noted
    noted: np.ndarray


def summaries(
    layout: Layout, text: InternedText, rows: np.ndarray, back: np.ndarray, stack: np.ndarray,
    spread: np.ndarray = NOTHING, shift: int = 0,
) -> Summaries:  # fmt: skip
    """The tables with no steps."""
    return Summaries(layout, text, rows, back, stack, spread, shift, np.empty(MOST, STEP), np.zeros(1, np.int64))


@inlined
def append_step(s: Summaries, told: np.ndarray, what: int, into: int, left: int, right: int) -> None:
    """A step that is to be done behind all others."""
    if s.noted[0] == len(s.steps):
        execute(s, told)
    step = s.steps[s.noted[0]]
    step.what = what
    step.into = into
    step.left = left
    step.right = right
    s.noted[0] += 1


@kernel
def execute(s: Summaries, told: np.ndarray) -> None:
    """Does all that is noted; `told` are the summaries that come out."""
    if len(s.stack) + len(s.back) > NEAR:
        _bring_near(s)
    with_each(s.layout, _do_one, s, told)
    s.noted[0] = 0


@inlined
def _do_one(of: One, s: Summaries, told: np.ndarray) -> None:
    text, rows, back, stack = s.text, s.rows, s.back, s.stack
    for k in range(s.noted[0]):
        what, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if what == OUTPUT:
            put(of, _of_both(s, of, stack, left, right), told, into)
        elif what == OUTPUT_SUFFIX:
            put(of, _of_both(s, of, s.spread, left, right), told, into)
        elif what == ADD:
            put(of, combined(of, text, words(of, back, into), lifted(of, rows, right)), back, into)
        elif what == BEGIN:
            put(of, lifted(of, rows, right), back, into)
        elif what == FOLD:
            put(of, _folded(s, of, into, left, right), stack, into)
        elif what == SUFFIX_SCAN:
            _spread(s, of, into, left, right)
        else:
            put(of, combined(of, text, words(of, stack, into), words(of, stack, right)), stack, into)


@inlined
def _of_both(s: Summaries, of: One, front: np.ndarray, left: int, right: int) -> Words:
    if left == NIL:
        return words(of, s.back, right)
    if right == NIL:
        return words(of, front, left)
    return combined(of, s.text, words(of, front, left), words(of, s.back, right))


@inlined
def _folded(s: Summaries, of: One, block: int, last: int, behind: int) -> Words:
    made = _last(s, of, last, behind)
    for row in range(last - 1, (block << s.shift) - 1, -1):
        made = combined(of, s.text, lifted(of, s.rows, row), made)
    return made


@inlined
def _spread(s: Summaries, of: One, part: int, first: int, behind: int) -> None:
    most = (1 << s.shift) - 1
    last = ~behind if behind < 0 else first | most
    made = _last(s, of, last, NIL if behind < 0 else behind)
    at = (part << s.shift) + (last & most)
    put(of, made, s.spread, at)
    for row in range(last - 1, first - 1, -1):
        at -= 1
        made = combined(of, s.text, lifted(of, s.rows, row), made)
        put(of, made, s.spread, at)


@inlined
def _last(s: Summaries, of: One, row: int, behind: int) -> Words:
    """The last tuple of a block, and all behind it."""
    made = lifted(of, s.rows, row)
    return made if behind == NIL else combined(of, s.text, made, words(of, s.stack, behind))


@inlined
def _bring_near(s: Summaries) -> None:
    """All that is far away at once, before anybody waits for any of it."""
    for k in range(s.noted[0]):
        what, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if what == OUTPUT:
            if left != NIL:
                prefetch(s.stack, left)
        elif what == OUTPUT_SUFFIX:
            prefetch(s.spread, left)
        elif what <= ADD:
            prefetch(s.rows, right)
            prefetch(s.back, into)
        elif what == SUFFIX_SCAN:
            prefetch(s.rows, left)
            prefetch(s.spread, into << s.shift)
        else:
            prefetch(s.rows, into << s.shift)
            prefetch(s.stack, into)
