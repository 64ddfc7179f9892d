"""The combine plan: a list of steps that say which summaries to combine, executed once per aggregate.

Which summaries combine depends on the windows only, not on the aggregation functions. So the kernel of a storage
strategy appends the steps once for all aggregates of an operator. A second kernel, `execute`, then runs through the
steps once per aggregate, without any other decisions.

The kernel of a strategy stops when the plan is full, and `run_planned` executes the plan and continues. No kernel calls
`execute`, because the code of a kernel contains the code of all kernels that it calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sluice.columns.interner import InternedText
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import prefetch
from sluice.engine.contents.firing_results import Results, Run
from sluice.engine.contents.summaries import Layout, SummaryField, Words, combined, lifted, put, with_each, words
from sluice.model.engine_limits import LIMITS

#: The kinds of steps. `a + b` combines two summaries, `tuple x` is the summary of the tuple in place x, and a summary
#: whose number is NIL is left out.
#: BEGIN          back[into] = tuple right
#: ADD            back[into] = back[into] + tuple right
#: FOLD           stack[into] = the tuples of block `into` up to place `left` (inclusive) + stack[right]
#: SUFFIX_SCAN    part `into` of `spread`: for each tuple of a block from place `left` on, the summary of itself and all
#:                younger tuples: up to place ~right (inclusive) if right < 0, otherwise up to the end of the block,
#:                + stack[right]
#: OUTPUT         output[into] = stack[left] + back[right]
#: MERGE          stack[into] = stack[into] + stack[right], which need not be neighbours (heaps)
#: OUTPUT_SUFFIX  output[into] = spread[left] + back[right]
BEGIN, ADD, FOLD, SUFFIX_SCAN, MERGE, OUTPUT, OUTPUT_SUFFIX = range(7)
STEP = np.dtype([("what", np.int32), ("into", np.int32), ("left", np.int32), ("right", np.int32)])
#: up to this many summaries fit into the CPU cache, so that prefetching does not pay
PREFETCH_THRESHOLD = 16_384
#: a full plan has this many times the steps that are executed together. A call of a kernel from Python costs some
#: microseconds, which is a tenth of the time of 2,048 steps
FULL = 16
#: the initial room for the steps of an event
MARGIN = 64
#: an empty table
NOTHING = np.zeros((0, 0), np.int64)
#: the elements of `Summaries.used`: the steps in the plan; the steps that an event needs if there was no room for them
STEPS, NEEDED = range(2)


class Summaries(NamedTuple):
    """The tables of summaries, and the steps of the plan."""

    layout: Layout
    text: InternedText
    #: the words of every stored tuple, by place
    rows: np.ndarray
    #: for each group the summary of its back (see two_stacks.py)
    back: np.ndarray
    #: the summary of each block in the front of a group, or of each node of a heap
    stack: np.ndarray
    #: summaries per tuple for the oldest blocks of groups, in parts of 2 ** `shift` rows, one part per block
    spread: np.ndarray
    shift: int
    steps: np.ndarray
    #: how many steps are executed together (`EngineLimits.steps`)
    together: int
    #: the counters STEPS and NEEDED
    used: np.ndarray


def summaries(
    layout: Layout, text: InternedText, rows: np.ndarray, back: np.ndarray, stack: np.ndarray,
    spread: np.ndarray = NOTHING, shift: int = 0, together: int = LIMITS.steps,
) -> Summaries:  # fmt: skip
    """The tables with an empty plan."""
    return Summaries(
        layout, text, rows, back, stack, spread, shift, np.empty(FULL * together + MARGIN, STEP), together,
        np.zeros(2, np.int64),
    )  # fmt: skip


@inlined
def plan_fits(s: Summaries, steps: int) -> bool:
    """Whether the next event may plan this many steps. If not, notes in NEEDED how many they are.

    An event may plan fewer steps. So a plan is full when it has FULL * `together` steps, or when its table has no room
    for the steps of one more event.
    """
    if s.used[STEPS] < FULL * s.together and s.used[STEPS] + steps <= len(s.steps):
        return True
    s.used[NEEDED] = steps
    return False


@inlined
def append_step(s: Summaries, what: int, into: int, left: int, right: int) -> None:
    """Appends a step to the plan. The caller has made sure with `plan_fits` that there is room."""
    step = s.steps[s.used[STEPS]]
    step.what = what
    step.into = into
    step.left = left
    step.right = right
    s.used[STEPS] += 1


def run_planned(run: Run, tables: Any, events: np.ndarray, results: Results, start: int) -> int:  # noqa: ANN401 - a strategy's
    """Runs the kernel `run` of a storage strategy, and executes its plan whenever it is full, and at the end.

    `tables.sums` are the Summaries. Returns the number of the first event without room for results.
    """
    while True:
        start = run(tables, events, results, start)
        execute(tables.sums, results.summary)
        needed = int(tables.sums.used[NEEDED])
        if not needed:
            return start
        tables.sums.used[NEEDED] = 0
        room = FULL * tables.sums.together + 2 * needed  # twice: the next event may need more
        if room > len(tables.sums.steps):
            tables = tables._replace(sums=tables.sums._replace(steps=np.empty(room, STEP)))


@kernel
def execute(s: Summaries, outputs: np.ndarray) -> None:
    """Executes all steps and empties the plan. `outputs` is the output table, which receives results of firings."""
    for first in range(0, s.used[STEPS], s.together):
        end = min(first + s.together, s.used[STEPS])
        if len(s.stack) + len(s.back) > PREFETCH_THRESHOLD:
            _prefetch_operands(s, first, end)
        with_each(s.layout, _execute_steps, s, outputs, first, end)
    s.used[STEPS] = 0


@inlined
def _execute_steps(field: SummaryField, s: Summaries, outputs: np.ndarray, first: int, end: int) -> None:
    text, rows, back, stack = s.text, s.rows, s.back, s.stack
    for k in range(first, end):
        step, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if step == OUTPUT:
            put(field, _of_both(s, field, stack, left, right), outputs, into)
        elif step == OUTPUT_SUFFIX:
            put(field, _of_both(s, field, s.spread, left, right), outputs, into)
        elif step == ADD:
            put(field, combined(field, text, words(field, back, into), lifted(field, rows, right)), back, into)
        elif step == BEGIN:
            put(field, lifted(field, rows, right), back, into)
        elif step == FOLD:
            put(field, _folded(s, field, into, left, right), stack, into)
        elif step == SUFFIX_SCAN:
            _spread(s, field, into, left, right)
        else:
            put(field, combined(field, text, words(field, stack, into), words(field, stack, right)), stack, into)


@inlined
def _of_both(s: Summaries, field: SummaryField, front: np.ndarray, left: int, right: int) -> Words:
    if left == NIL:
        return words(field, s.back, right)
    if right == NIL:
        return words(field, front, left)
    return combined(field, s.text, words(field, front, left), words(field, s.back, right))


@inlined
def _folded(s: Summaries, field: SummaryField, block: int, last: int, behind: int) -> Words:
    summary = _last(s, field, last, behind)
    for row in range(last - 1, (block << s.shift) - 1, -1):
        summary = combined(field, s.text, lifted(field, s.rows, row), summary)
    return summary


@inlined
def _spread(s: Summaries, field: SummaryField, part: int, first: int, behind: int) -> None:
    most = (1 << s.shift) - 1
    last = ~behind if behind < 0 else first | most
    summary = _last(s, field, last, NIL if behind < 0 else behind)
    at = (part << s.shift) + (last & most)
    put(field, summary, s.spread, at)
    for row in range(last - 1, first - 1, -1):
        at -= 1
        summary = combined(field, s.text, lifted(field, s.rows, row), summary)
        put(field, summary, s.spread, at)


@inlined
def _last(s: Summaries, field: SummaryField, row: int, behind: int) -> Words:
    """The summary of the tuple in place `row`, combined with `stack[behind]` unless `behind` is NIL."""
    summary = lifted(field, s.rows, row)
    return summary if behind == NIL else combined(field, s.text, summary, words(field, s.stack, behind))


@inlined
def _prefetch_operands(s: Summaries, first: int, end: int) -> None:
    """Prefetches the summaries and tuples that the steps will read, so that the memory accesses overlap."""
    for k in range(first, end):
        step, into, left, right = s.steps[k].what, s.steps[k].into, s.steps[k].left, s.steps[k].right
        if step == OUTPUT:
            if left != NIL:
                prefetch(s.stack, left)
        elif step == OUTPUT_SUFFIX:
            prefetch(s.spread, left)
        elif step <= ADD:
            prefetch(s.rows, right)
            prefetch(s.back, into)
        elif step == SUFFIX_SCAN:
            prefetch(s.rows, left)
            prefetch(s.spread, into << s.shift)
        else:
            prefetch(s.rows, into << s.shift)
            prefetch(s.stack, into)
