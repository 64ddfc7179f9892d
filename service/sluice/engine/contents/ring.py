"""The contents of small count windows (fewer than 16 tuples): a ring buffer of tuples per partition, no summaries.

    partition p:   [ tuple 5 | tuple 6 | tuple 3 | tuple 4 ]       places p * places ... p * places + places - 1
                                         ^ oldest

Only the oldest tuple is ever evicted. When a window fires, the kernel combines the tuples of the ring from the oldest
to the youngest. As a ring is short, this costs less time than keeping summaries, and a fraction of the memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents import multisets
from sluice.engine.contents.firing_results import PAIRS, ROWS, Results, room
from sluice.engine.contents.summaries import OLDEST, Layout, SummaryField, combined, lifted, put, with_each
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT

#: the ring of a partition: its number of tuples, and the index of the oldest tuple in the ring
RING = np.dtype([("size", np.int32), ("oldest", np.int32)])


class Rings(NamedTuple):
    """The tables and settings of the kernel."""

    layout: Layout
    #: summaries that are read from the oldest or the youngest tuple alone
    edges: Layout
    text: InternedText
    rings: np.ndarray
    #: the words of the tuples by place; each partition has `places` consecutive places
    rows: np.ndarray
    places: int
    #: the words of the batch's tuples, by slot
    words: np.ndarray
    counted: multisets.Multisets


def places(rings: np.ndarray, p: int, count: int) -> np.ndarray:
    """The places of a partition's tuples, oldest first. `count` is the number of places in each ring."""
    return p * count + (rings[p]["oldest"] + np.arange(rings[p]["size"])) % count  # type: ignore[no-any-return]


@kernel
def run(r: Rings, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room for results."""
    for k in range(start, len(events)):
        _look_ahead(r, events, k)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            _insert(r, p, events[k].slot)
        elif code == EVICT:
            _evict(r, p)
        elif code == FIRE:
            if not _room(r, p, results):
                return k
            _fire(r, p, events[k].slot, results)
        elif code == CLEAR:
            _clear(r, p)
    return len(events)


@inlined
def _look_ahead(r: Rings, events: np.ndarray, k: int) -> None:
    if k + 2 * AHEAD < len(events):
        prefetch(r.rings, events[k + 2 * AHEAD].partition)
        first = events[k + AHEAD].partition * r.places
        prefetch(r.rows, first)
        prefetch(r.rows, first + r.places - 1)


@inlined
def _place(r: Rings, p: int, behind: int) -> int:
    """The place that is `behind` places behind the oldest tuple."""
    place = r.rings[p].oldest + behind
    return p * r.places + (place if place < r.places else place - r.places)  # type: ignore[no-any-return]


@inlined
def _insert(r: Rings, p: int, slot: int) -> None:
    place = _place(r, p, r.rings[p].size)
    for column in range(r.words.shape[1]):
        r.rows[place, column] = r.words[slot, column]
    multisets.count(r.counted, r.rows, place, p, 1)
    r.rings[p].size += 1


@inlined
def _evict(r: Rings, p: int) -> None:
    multisets.count(r.counted, r.rows, _place(r, p, 0), p, -1)
    r.rings[p].oldest = _place(r, p, 1) - p * r.places
    r.rings[p].size -= 1


@inlined
def _clear(r: Rings, p: int) -> None:
    r.rings[p].size = 0
    multisets.clear(r.counted, p)


@inlined
def _room(r: Rings, p: int, results: Results) -> bool:
    return room(results, 1, 0, multisets.listed(r.counted, p))


@inlined
def _fire(r: Rings, p: int, firing: int, results: Results) -> None:
    """Writes a result row, unless the ring is empty (A4)."""
    if not r.rings[p].size:
        return
    row = results.used[ROWS]
    results.used[ROWS] = row + 1
    results.firing[row] = firing
    results.size[row] = r.rings[p].size
    with_each(r.layout, _sum_up, r, p, results.summary, row)
    for a in range(len(r.edges)):
        edge = r.edges[a]
        place = _place(r, p, 0 if edge.code == OLDEST else r.rings[p].size - 1)
        results.summary[row, edge.word] = r.rows[place, edge.value]
    results.used[PAIRS] = multisets.write_counts(r.counted, p, row, results.counts, results.pairs, results.used[PAIRS])


@inlined
def _sum_up(field: SummaryField, r: Rings, p: int, into: np.ndarray, row: int) -> None:
    rows, text = r.rows, r.text
    first = _place(r, p, 0)
    end = (p + 1) * r.places
    summary = lifted(field, rows, first)
    for place in range(first + 1, min(first + r.rings[p].size, end)):
        summary = combined(field, text, summary, lifted(field, rows, place))
    for place in range(p * r.places, first + r.rings[p].size - r.places):
        summary = combined(field, text, summary, lifted(field, rows, place))
    put(field, summary, into, row)
