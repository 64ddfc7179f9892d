"""The result tables that kernels fill when windows fire, one row per output tuple.

Kernels cannot allocate memory. If a table is full, the kernel returns the number of the event that it could not handle;
`run_kernel` then extends or empties the tables and calls the kernel again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import inlined
from sluice.columns.saved_columns import grown
from sluice.model.engine_limits import LIMITS

#: the counters of `Results.used` and `Results.needed`: rows, listed tuples, freed slots, and pairs of counted values
ROWS, TUPLES, FREED, PAIRS, KINDS = range(5)


class Results(NamedTuple):
    """The result tables: for each row its `firing`, its `size` in tuples, and the words of its `summary`.

    `tuples` lists the places of the tuples of all rows, row after row. `freed` lists the slots (or blocks) that no
    window uses any more.
    """

    firing: np.ndarray
    size: np.ndarray
    summary: np.ndarray
    tuples: np.ndarray
    freed: np.ndarray
    #: per counter: the number in use, and the number that the firing needs for which there was no room
    used: np.ndarray
    needed: np.ndarray
    #: the counts of values of each row, and the values with their counts (multisets.py)
    counts: np.ndarray
    pairs: np.ndarray


#: a kernel `run(tables, events, results, start)`: handles window events from number `start` on. Returns the number of
#: the first event that it did not handle
Run = Callable[[Any, np.ndarray, Results, int], int]


@dataclass(frozen=True, slots=True)
class Rows:
    """Computed results: the firing of each row, which never decreases, and the result columns."""

    firing: np.ndarray
    columns: list[pa.Array]

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """The parts one after the other. There must be at least one."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return Rows(np.concatenate([part.firing for part in parts]), [pa.concat_arrays(column) for column in columns])

    def in_order(self) -> Rows:
        """The rows in the order of their firings."""
        order = np.argsort(self.firing, kind="stable")
        return Rows(self.firing[order], [column.take(pa.array(order)) for column in self.columns])


def run_kernel(
    run: Run,
    kernel: tuple[Any, ...],
    events: np.ndarray,
    results: Results,
    take: Callable[[Results], None] | None = None,
    listed: int = LIMITS.listed,
) -> Results:
    """Runs a kernel over all events and returns the filled result tables.

    Whenever the tables are full, they are extended. If they list at least `listed` tuples or pairs by then, they are
    passed to `take` (if given) and emptied instead: the results need several times the memory of what they list.
    """
    start = 0
    while (start := run(kernel, events, results, start)) < len(events):
        if take is None or max(results.used[TUPLES], results.used[PAIRS]) < listed:
            results = enlarged(results)
        else:
            take(results)
            results = cleared(results)
    return results


def cleared(results: Results) -> Results:
    """Empties rows, tuples and pairs so that the kernel can continue. The list of freed slots is kept.

    Rows get new arrays, because columns that were computed from the old arrays may share their memory.
    """
    results.used[[ROWS, TUPLES, PAIRS]] = 0
    return results._replace(
        firing=np.empty_like(results.firing), size=np.empty_like(results.size),
        summary=np.empty_like(results.summary), counts=np.zeros_like(results.counts),
    )  # fmt: skip


def enlarged(results: Results) -> Results:
    """Extends each table that is too short for the firing in `needed` to at least twice its length."""
    rows, tuples, pairs = results.needed[[ROWS, TUPLES, PAIRS]].tolist()
    return results._replace(
        firing=grown(results.firing, rows), size=grown(results.size, rows), summary=grown(results.summary, rows),
        tuples=grown(results.tuples, tuples), counts=grown(results.counts, rows), pairs=grown(results.pairs, pairs),
    )  # fmt: skip


@inlined
def room(results: Results, rows: int, tuples: int, pairs: int) -> bool:
    """Whether there is room for this many more rows, tuples and pairs. If not, notes in `needed` what is required."""
    rows += results.used[ROWS]
    tuples += results.used[TUPLES]
    pairs += results.used[PAIRS]
    if rows <= len(results.firing) and tuples <= len(results.tuples) and pairs <= len(results.pairs):
        return True
    results.needed[ROWS] = rows
    results.needed[TUPLES] = tuples
    results.needed[PAIRS] = pairs
    return False
