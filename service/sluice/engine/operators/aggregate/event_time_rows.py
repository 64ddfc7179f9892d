"""Functions that Aggregates over event time and over sessions share: slots, the rows of firings, and late tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sluice.columns.interner import Interner
from sluice.columns.state_tables import FreeSlots
from sluice.engine.contents.fired_contents import FiredContents, FiringDetails
from sluice.engine.contents.firing_results import FREED, KINDS, Results, Rows, Run, run_kernel
from sluice.engine.contents.multisets import PAIR
from sluice.engine.operators.aggregate.aggregate_program import Program


class StoredWords(Protocol):
    """The part of a state that the rows of firings are computed from."""

    words: np.ndarray
    strings: Interner
    free: FreeSlots
    top: int


class TupleRows(Protocol):
    """The part of a state that gives slots to tuples: `top` is the number of slots, of which some may be free."""

    free: FreeSlots
    top: int

    def reserve_rows(self, count: int) -> None: ...


def slots_for(state: TupleRows, program: Program, count: int) -> np.ndarray:
    """Slots for the tuples of a batch. Tuples stay stored only if a function lists them."""
    if not program.listing:
        state.reserve_rows(count)
        return np.arange(count)
    slots, state.top = state.free.take(count, state.top)
    state.reserve_rows(state.top)
    return slots


def computed_rows(
    run: Run, kernel: tuple[Any, ...], program: Program, state: StoredWords, events: np.ndarray, count: int,
    rows: Callable[[Results], Rows],
) -> Rows:  # fmt: skip
    """The output rows of all `count` firings: `run` is the kernel that follows the window events, `kernel` its tables.

    `rows` computes the rows of some results. The slots of listed tuples that left their last window are given back.
    """
    results = Results(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty((count, program.summary), np.int64),
        np.empty(len(events) if program.listing else 0, np.int64),
        np.empty(state.top + 1, np.int64), np.zeros(KINDS, np.int64), np.zeros(KINDS, np.int64),
        np.zeros((count, 0), np.int64), np.zeros(0, PAIR),
    )  # fmt: skip
    parts: list[Rows] = []
    results = run_kernel(run, kernel, events, results, lambda some: parts.append(rows(some)), program.limits.listed)
    parts.append(rows(results))
    if program.listing:
        state.free.give(results.freed[: results.used[FREED]])
    return Rows.joined(parts)


def tuples_per_firing(results: Results, firings: int) -> np.ndarray:
    """The number of tuples of each firing, all groups together."""
    rows = results.used[0]
    return np.bincount(results.firing[:rows], results.size[:rows], firings).astype(np.int64)


def fired_contents(
    program: Program, state: StoredWords, firings: np.ndarray, stored: np.ndarray, results: Results,
    to_units: Callable[[np.ndarray], np.ndarray],
) -> FiredContents:  # fmt: skip
    """The contents of the windows that fired. `stored` has the value of CountAll for each firing."""
    rows, listed, _, _ = results.used
    size, firing = results.size[:rows], results.firing[:rows]
    return FiredContents(
        size, firing, stored, bool(program.group_by), results.summary[:rows],
        by_arrival(state.words.take(results.tuples[:listed], axis=0), size), state.strings,
        FiringDetails(firings, firing, to_units),
    )  # fmt: skip


def by_arrival(words: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Sorts the listed tuples of each result by arrival (KIP R2). The last word of a tuple is its arrival number."""
    came = words[:, -1]
    row = np.repeat(np.arange(len(size)), size) if len(words) else came
    if not ((np.diff(came) > 0) | (np.diff(row) > 0)).all():
        words = words.take(np.lexsort((came, row)), axis=0)
    return words
