"""What stands in each window now, and its summary, at a constant cost per window event.

The content of a window partition is split by `group_by` into cells; without it the partition is its only cell. A cell's
summary is kept as two stacks: every block of the front carries the summary of itself and all younger ones of the front,
the back has one summary for all of its tuples. The oldest leaves the front without any arithmetic, so a sum never
drifts and NaN leaves no trace; when the front is empty the whole back becomes the front (each tuple once: O(1)
amortised). From the first tuple that leaves from the middle until it is empty, a cell is kept as a heap instead
(heaps.py), O(log n): who leaves first is on top, and each node carries the summary of all that is below it, in whatever
order (the layout knows of the arrival).

Where tuples are packed (packing.py), a block has several of them: then each one that is left of a cell's oldest block
has the summary of itself and all younger ones of the front as well (`spread`). Otherwise a block is a tuple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list, pairing_heap
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents import blocks, multisets
from sluice.engine.contents.blocks import Blocks, last_of_block
from sluice.engine.contents.combine_plan import (
    ADD,
    BEGIN,
    FOLD,
    MERGE,
    OUTPUT,
    OUTPUT_SUFFIX,
    SUFFIX_SCAN,
    Summaries,
    append_step,
    execute,
)
from sluice.engine.contents.firing_results import FREED, PAIRS, ROWS, TUPLES, Results, room
from sluice.engine.contents.summaries import OLDEST, Layout
from sluice.engine.windows.policies import Policy
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT, LOSE

#: the state of each cell, one record each
CELL = np.dtype([
    ("size", np.int64),
    # tuples of the front
    ("front", np.int64),
    # places
    ("oldest", np.int32),
    ("youngest", np.int32),
    # neighbours among the cells of the partition that hold tuples
    ("younger", np.int32),
    ("older", np.int32),
    # of its heap; NOBODY while it is kept as two stacks
    ("root", np.int32),
    # the part of `spread` with the summaries of its oldest block; NOBODY where it never needed one
    ("spread", np.int32),
])  # fmt: skip

#: the list of each partition's cells that hold tuples, where it has several
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class Contents(NamedTuple):
    """All that the kernel works on."""

    sums: Summaries
    #: what the oldest or the youngest tuple says alone, where they leave one by one
    edges: Layout
    cells: np.ndarray
    #: whether a partition has several cells
    grouped: bool
    #: the cell of each tuple; empty where that is its partition
    cell_of: np.ndarray
    #: the neighbours of each block in its cell
    links: np.ndarray
    #: those of heaps, and by which word of a tuple these go
    nodes: np.ndarray
    by: Policy
    ends: np.ndarray
    #: whether tuples leave one by one, and whether the results list the tuples
    sliding: bool
    listing: bool
    #: whether the links are ours to make; else they are the window's, where the cell is the partition. The window is
    #: through with the batch by then, but between what we hold they are as they were: it appends, and lets them `leave`
    linking: bool
    counted: multisets.Multisets
    packing: Blocks


@kernel
def run(c: Contents, events: np.ndarray, results: Results, start: int) -> int:
    """Handles the window events from number `start` on; gives the number before which the room for results ran out."""
    for k in range(start, len(events)):
        _look_ahead(c, events, k + AHEAD)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            _insert(c, p, events[k].slot, results.summary)
        elif code == EVICT:
            _evict(c, p, events[k].slot, results)
        elif code == LOSE:
            _free(results, events[k].slot)
        elif code == CLEAR:
            _clear(c, p, results)
        elif code == FIRE:
            if not _room(c, p, results):
                execute(c.sums, results.summary)
                return k
            _fire(c, p, events[k].slot, results)
    execute(c.sums, results.summary)
    return len(events)


@inlined
def _look_ahead(c: Contents, events: np.ndarray, k: int) -> None:
    """Without `group_by` a partition is its own cell."""
    if k < len(events):
        code, p = events[k].code, events[k].partition
        if c.packing.wanted:
            if code == INSERT and c.cells[p].size:
                prefetch(c.sums.rows, c.cells[p].youngest)
                prefetch(c.sums.rows, c.cells[p].oldest)
                prefetch(c.links, c.cells[p].oldest >> c.packing.shift)
            if k + AHEAD < len(events):
                prefetch(c.cells, events[k + AHEAD].partition)
        elif code == EVICT:
            prefetch(c.links, events[k].slot)
        elif code == INSERT:
            prefetch(c.cells, p)


@inlined
def _cell(c: Contents, p: int, slot: int) -> int:
    return c.cell_of[slot] if c.grouped else p


@inlined
def _first(c: Contents, p: int) -> int:
    """The first cell of the partition that holds tuples."""
    if c.grouped:
        return c.ends[p].oldest  # type: ignore[no-any-return]
    return p if c.cells[p].size else NIL


@inlined
def _next(c: Contents, cell: int) -> int:
    return c.cells[cell].younger if c.grouped else NIL


@inlined
def _insert(c: Contents, p: int, slot: int, told: np.ndarray) -> None:
    cells = c.cells
    cell = _cell(c, p, slot)
    if not cells[cell].size:
        _remember(c, p, cell)
    place = blocks.append_to_block(c.packing, cells, cell, slot, c.sums.rows) if c.packing.wanted else slot
    multisets.count(c.counted, c.sums.rows, place, cell, 1)
    if cells[cell].root != NIL:
        _grow(c, cell, slot, told)
    else:
        append_step(c.sums, told, BEGIN if cells[cell].size == cells[cell].front else ADD, cell, NIL, place)
    if c.packing.wanted:
        intrusive_list.push_linked(cells, cell, place)
    elif c.linking:
        intrusive_list.append(cells, cell, c.links, slot)
    elif c.sliding:
        intrusive_list.push_linked(cells, cell, slot)
    cells[cell].size += 1


@inlined
def _evict(c: Contents, p: int, slot: int, results: Results) -> None:
    cells = c.cells
    cell = _cell(c, p, slot)
    place = cells[cell].oldest if c.packing.wanted else slot
    multisets.count(c.counted, c.sums.rows, place, cell, -1)
    if cells[cell].root == NIL and place != cells[cell].oldest:
        _make_heap(c, cell, results.summary)
    if cells[cell].root != NIL:  # the least leave, told of by their arrival: after the last one the same have left
        cells[cell].root = pairing_heap.remove_root(
            c.nodes, c.sums.rows, c.by, cells[cell].root, _melded, c.sums, results.summary
        )
    else:
        turning = not cells[cell].front
        if turning:
            _build_front(c, cell, results.summary)
        cells[cell].front -= 1
        if c.packing.wanted:
            _leave(c, cell, turning, results)
    if not c.packing.wanted:
        intrusive_list.pop_keep_links(cells, cell, c.links, slot)
        _free(results, slot)
    cells[cell].size -= 1
    if c.grouped and not cells[cell].size:
        intrusive_list.unlink(c.ends, p, cells, cell)


@inlined
def _leave(c: Contents, cell: int, turning: bool, results: Results) -> None:  # noqa: FBT001
    """The oldest leaves its block. When that begins, or when the content turned while it was inside one, the tuples
    behind it there get their summaries.
    """
    one, k = c.cells[cell], c.packing
    block = blocks.pop_oldest(k, c.cells, cell)
    if block != NIL:
        _free(results, block)
    if one.oldest == NIL:  # its part is used again when all is done that was noted before
        blocks.give_part(k, one.spread)
        return
    before = one.oldest - (one.oldest >> k.shift << k.shift)
    if one.front and (before == 1 or (turning and before)):
        if one.spread == NIL:
            one.spread = blocks.take_part(k)
        last = one.oldest + one.front - 1
        behind = c.links[one.oldest >> k.shift].younger >> k.shift if last > last_of_block(k, one.oldest) else ~last
        append_step(c.sums, results.summary, SUFFIX_SCAN, one.spread, one.oldest, behind)


@inlined
def _build_front(c: Contents, cell: int, told: np.ndarray) -> None:
    """Makes the whole content the front: from the youngest block back to the oldest, each with all younger ones.

    So nothing is ever subtracted (A23). Each block is known only from the one before, and may be far away: `ahead`
    goes the other way round and asks for them, so from the middle on all are near. A block that tuples left already is
    never asked for as a whole.
    """
    shift, place, oldest = c.packing.shift, c.cells[cell].youngest, c.cells[cell].oldest
    block, younger, ahead = place >> shift, NIL, oldest >> shift
    while block != oldest >> shift:
        append_step(c.sums, told, FOLD, block, place, younger)
        younger, place = block, c.links[block].older
        block = place >> shift
        ahead = c.links[ahead].younger >> shift
        prefetch(c.links, ahead)
    if oldest == block << shift:
        append_step(c.sums, told, FOLD, block, place, younger)
    c.cells[cell].front = c.cells[cell].size


@inlined
def _make_heap(c: Contents, cell: int, told: np.ndarray) -> None:
    """Makes a heap of the whole content."""
    slot = c.cells[cell].oldest
    while slot != NIL:
        _grow(c, cell, slot, told)
        slot = c.links[slot].younger


@inlined
def _grow(c: Contents, cell: int, slot: int, told: np.ndarray) -> None:
    append_step(c.sums, told, FOLD, slot, slot, NIL)
    c.cells[cell].root = pairing_heap.add(c.nodes, c.sums.rows, c.by, c.cells[cell].root, slot, _melded, c.sums, told)


@inlined
def _melded(top: int, below: int, s: Summaries, told: np.ndarray) -> None:
    append_step(s, told, MERGE, top, NIL, below)


@inlined
def _clear(c: Contents, p: int, results: Results) -> None:
    cell = _first(c, p)
    while cell != NIL:
        following = _next(c, cell)
        place = c.cells[cell].oldest
        while (c.packing.wanted or (not c.sliding and c.listing)) and place != NIL:
            _free(results, place >> c.packing.shift)
            place = c.links[place >> c.packing.shift].younger
        if c.packing.wanted:
            blocks.give_part(c.packing, c.cells[cell].spread)
        c.cells[cell].size = 0
        multisets.clear(c.counted, cell)
        cell = following
    if c.grouped:
        intrusive_list.make_empty(c.ends, p)


@inlined
def _free(results: Results, slot: int) -> None:
    results.freed[results.used[FREED]] = slot
    results.used[FREED] += 1


@inlined
def _room(c: Contents, p: int, results: Results) -> bool:
    rows, tuples, pairs = 0, 0, 0
    cell = _first(c, p)
    while cell != NIL:
        rows += 1
        tuples += c.cells[cell].size if c.listing else 0
        pairs += multisets.listed(c.counted, cell)
        cell = _next(c, cell)
    return room(results, rows, tuples, pairs)


@inlined
def _fire(c: Contents, p: int, firing: int, results: Results) -> None:
    """A result for each cell that holds tuples, and so none where nothing is stored (A4)."""
    cell = _first(c, p)
    while cell != NIL:
        row = results.used[ROWS]
        results.used[ROWS] = row + 1
        results.firing[row] = firing
        results.size[row] = c.cells[cell].size
        _summarise(c, cell, results.summary, row)
        results.used[PAIRS] = multisets.tell(c.counted, cell, row, results.counts, results.pairs, results.used[PAIRS])
        if c.listing:
            _list(c, cell, results)
        cell = _next(c, cell)


@inlined
def _summarise(c: Contents, cell: int, into: np.ndarray, row: int) -> None:
    one = c.cells[cell]
    if one.root != NIL:
        append_step(c.sums, into, OUTPUT, row, one.root, NIL)
    else:
        _tell(c, cell, into, row)
    for a in range(len(c.edges)):
        edge = c.edges[a]
        into[row, edge.word] = c.sums.rows[one.oldest if edge.code == OLDEST else one.youngest, edge.value]


@inlined
def _tell(c: Contents, cell: int, into: np.ndarray, row: int) -> None:
    one, shift = c.cells[cell], c.packing.shift
    back = cell if one.front < one.size else NIL
    block = one.oldest >> shift
    if not one.front:
        append_step(c.sums, into, OUTPUT, row, NIL, back)
    elif one.oldest == block << shift:
        append_step(c.sums, into, OUTPUT, row, block, back)
    else:
        append_step(c.sums, into, OUTPUT_SUFFIX, row, (one.spread - block << shift) + one.oldest, back)


@inlined
def _list(c: Contents, cell: int, results: Results) -> None:
    k = results.used[TUPLES]
    place = c.cells[cell].oldest
    for _ in range(c.cells[cell].size):
        results.tuples[k] = place
        k += 1
        place = blocks.younger(c.packing, place)
    results.used[TUPLES] = k


@inlined
def _remember(c: Contents, p: int, cell: int) -> None:
    """A cell with its first tuple comes behind the others (A8)."""
    cells = c.cells
    cells[cell].front = 0
    cells[cell].root = NIL
    cells[cell].spread = NIL
    intrusive_list.make_empty(cells, cell)
    if c.grouped:
        intrusive_list.append(c.ends, p, cells, cell)
