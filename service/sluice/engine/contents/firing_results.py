"""What a kernel hands over where windows fire: a row for each tuple to emit, and room for more of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import inlined
from sluice.columns.tables import grown

#: what is counted: rows, listed tuples, freed slots and pairs
ROWS, TUPLES, FREED, PAIRS, KINDS = range(5)
#: tuples or pairs that are listed before something is made of them: what is made takes several times their room
MOST_LISTED = 1 << 20


class Results(NamedTuple):
    """What came out: of each row its `firing` and the `size` of what it tells of.

    `tuples` lists the content of all rows, `freed` the slots that no window holds any more.
    """

    firing: np.ndarray
    size: np.ndarray
    summary: np.ndarray
    tuples: np.ndarray
    freed: np.ndarray
    #: of each kind how many are in use, and how many there would be with the firing that found no room
    used: np.ndarray
    needed: np.ndarray
    #: what is counted for each row, and the values behind it (multisets.py)
    counts: np.ndarray
    pairs: np.ndarray


#: handles window events from one of them on, with all that it works on
Run = Callable[[Any, np.ndarray, Results, int], int]


@dataclass(frozen=True, slots=True)
class Rows:
    """What was made of results: of each row its firing, which never decreases, and its columns."""

    firing: np.ndarray
    columns: list[pa.Array]

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """One behind the other; there is one at least."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return Rows(np.concatenate([part.firing for part in parts]), [pa.concat_arrays(column) for column in columns])


def run_kernel(
    run: Run,
    kernel: tuple[Any, ...],
    events: np.ndarray,
    results: Results,
    take: Callable[[Results], None] | None = None,
) -> Results:
    """The results with what comes of these events; where much is listed `take` has them before there are more.

    `run` gives the number of the event before which the room ran out.
    """
    start = 0
    while (start := run(kernel, events, results, start)) < len(events):
        if take is None or max(results.used[TUPLES], results.used[PAIRS]) < MOST_LISTED:
            results = enlarged(results)
        else:
            take(results)
            results = cleared(results)
    return results


def cleared(results: Results) -> Results:
    """Without rows, in tables of their own: columns that were made may still show the old ones. What is freed stays."""
    results.used[[ROWS, TUPLES, PAIRS]] = 0
    return results._replace(
        firing=np.empty_like(results.firing), size=np.empty_like(results.size),
        summary=np.empty_like(results.summary), counts=np.zeros_like(results.counts),
    )  # fmt: skip


def enlarged(results: Results) -> Results:
    """With room for the firing that found none, and at least twice as much of what it lacked."""
    rows, tuples, pairs = results.needed[[ROWS, TUPLES, PAIRS]].tolist()
    return results._replace(
        firing=grown(results.firing, rows), size=grown(results.size, rows), summary=grown(results.summary, rows),
        tuples=grown(results.tuples, tuples), counts=grown(results.counts, rows), pairs=grown(results.pairs, pairs),
    )  # fmt: skip


@inlined
def room(results: Results, rows: int, tuples: int, pairs: int) -> bool:
    """Whether there is room for so many more."""
    rows += results.used[ROWS]
    tuples += results.used[TUPLES]
    pairs += results.used[PAIRS]
    if rows <= len(results.firing) and tuples <= len(results.tuples) and pairs <= len(results.pairs):
        return True
    results.needed[ROWS] = rows
    results.needed[TUPLES] = tuples
    results.needed[PAIRS] = pairs
    return False
