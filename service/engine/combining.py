"""What is to be combined with what: noted as steps first, then done aggregate by aggregate.

Which summaries combine follows from the windows alone. So that is asked once, however many aggregates there are, and
the loop of an aggregate asks nothing else: it goes through the steps and does its own arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.engine.kernel import inlined, kernel
from service.engine.linked import NOBODY
from service.engine.prefetch import prefetch
from service.engine.strings import Text
from service.engine.summaries import (
    GREATEST_REAL,
    LEAST_REAL,
    SUM_INT,
    SUM_REAL,
    Layout,
    One,
    combine_one,
    copy_one,
    lift_one,
    summary,
)

#: what a step makes: BEGIN `back[into]` of the tuple `right`, ADD `back[into]` of itself and the tuple `right`, STACK
#: `stack[into]` of the tuple `into` between `stack[left]` and `stack[right]`, TELL `told[into]` of `stack[left]` and
#: `back[right]`. Where `left` or `right` is NOBODY, there is nothing
BEGIN, ADD, STACK, TELL = range(4)
STEP = np.dtype([("what", np.int32), ("into", np.int32), ("left", np.int32), ("right", np.int32)])
#: summaries that are near anyway
NEAR = 16_384
#: steps that are noted before they are done: few enough that all they touch stays near
MOST = 2048


class Summaries(NamedTuple):
    """The tables of summaries, and the steps."""

    layout: Layout
    text: Text
    #: the words of every stored tuple
    rows: np.ndarray
    #: the summary of each cell's back stack
    back: np.ndarray
    #: the summaries that the tuples of the front carry, or those of a tree
    stack: np.ndarray
    steps: np.ndarray
    #: how many steps are noted
    noted: np.ndarray
    scratch: np.ndarray


def summaries(layout: Layout, text: Text, rows: np.ndarray, back: np.ndarray, stack: np.ndarray) -> Summaries:
    """The tables with no steps."""
    scratch = np.zeros((1, back.shape[1]), np.int64)
    return Summaries(layout, text, rows, back, stack, np.empty(MOST, STEP), np.zeros(1, np.int64), scratch)


@inlined
def note(s: Summaries, told: np.ndarray, what: int, into: int, left: int, right: int) -> None:
    """A step that is to be done behind all others."""
    if s.noted[0] == len(s.steps):
        do(s, told)
    step = s.steps[s.noted[0]]
    step.what = what
    step.into = into
    step.left = left
    step.right = right
    s.noted[0] += 1


@kernel
def do(s: Summaries, told: np.ndarray) -> None:
    """Does all that is noted; `told` are the summaries that come out."""
    if len(s.stack) + len(s.back) > NEAR:
        _bring_near(s)
    for a in range(len(s.layout)):
        code = s.layout[a].code
        if code == SUM_REAL:  # what is asked for most has loops of its own
            _do_one(s, told, summary(s.layout, a, SUM_REAL))
        elif code == SUM_INT:
            _do_one(s, told, summary(s.layout, a, SUM_INT))
        elif code == GREATEST_REAL:
            _do_one(s, told, summary(s.layout, a, GREATEST_REAL))
        elif code == LEAST_REAL:
            _do_one(s, told, summary(s.layout, a, LEAST_REAL))
        else:
            _do_one(s, told, summary(s.layout, a, code))
    s.noted[0] = 0


@inlined
def _do_one(s: Summaries, told: np.ndarray, of: One) -> None:
    text, rows, back, stack, scratch = s.text, s.rows, s.back, s.stack, s.scratch
    for k in range(s.noted[0]):
        what, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if what == TELL:
            if left == NOBODY:
                copy_one(of, back, right, told, into)
            elif right == NOBODY:
                copy_one(of, stack, left, told, into)
            else:
                combine_one(of, text, stack, left, back, right, told, into)
        elif what == ADD:
            lift_one(of, rows, right, scratch, 0)
            combine_one(of, text, back, into, scratch, 0, back, into)
        elif what == BEGIN:
            lift_one(of, rows, right, back, into)
        else:
            lift_one(of, rows, into, stack, into)
            if left != NOBODY:
                combine_one(of, text, stack, left, stack, into, stack, into)
            if right != NOBODY:
                combine_one(of, text, stack, into, stack, right, stack, into)


@inlined
def _bring_near(s: Summaries) -> None:
    """All that is far away at once, before anybody waits for any of it."""
    for k in range(s.noted[0]):
        what, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if what == STACK:
            prefetch(s.rows, into)
            prefetch(s.stack, into)
        elif what != TELL:
            prefetch(s.rows, right)
            prefetch(s.back, into)
        elif left != NOBODY:
            prefetch(s.stack, left)
