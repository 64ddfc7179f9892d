"""What a stretch of time holds, and its summary: for windows over event time, at a constant cost per tuple and window.

The content of a window partition is split by `group_by` into cells. A cell keeps a summary per time (or slice) at
which it has tuples, in order of time. A stretch [begin, end] that fires is taken from the one before, when both its
ends went forward: what entered is added to the back, what left is dropped from the front, as in contents.py. The front
is a stack of summaries, each of a time and all later ones of the front; when it is used up the whole stretch becomes
the front. A stretch that goes back is built anew, O(times in it). Summaries combine in any order (the layout knows of
the arrival), so a tuple that comes late to the stretch goes into the back at once, and into the front for as many times
as are before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.interner import InternedText
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents.firing_results import FREED, ROWS, TUPLES, Results, room
from sluice.engine.contents.summaries import Layout, combine, lift
from sluice.engine.windows.event_time.event_records import ENDLESS, FIRE, FORGET, INSERT, MEMBER, NEVER
from sluice.engine.windows.event_time.timeline import add, drop_oldest, not_after, place, take_oldest
from sluice.engine.windows.event_time.timeline_blocks import TOP, Room, far

#: the state of each cell: its times, the stretch [begin, end] that fired last, and that stretch's first time, the last
#: time of the front, the last time of all (NOBODY: there is none), and its tuples
CELL = np.dtype([
    ("begin", np.int64), ("end", np.int64), ("held", np.int64),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32), ("spare", np.int32),
    ("low", np.int32), ("middle", np.int32), ("high", np.int32), ("backed", np.bool_),
    # neighbours among the cells of the partition that hold tuples
    ("younger", np.int32), ("older", np.int32),
])  # fmt: skip

#: a time at which a cell has tuples: how many, and where functions list them the first and the last that came
OWN = [("count", np.int32), ("first", np.int32), ("last", np.int32)]
SLICE = np.dtype([*MEMBER[:3], *OWN, *MEMBER[3:]])  # the leaps apart: they are for cells that are searched

#: the tuples: their cell, and the next that came to the same time
LINK = np.dtype([("cell", np.int32), ("next", np.int32)])
#: the list of each partition's cells that hold tuples
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class Slices(NamedTuple):
    """All that the kernel works on."""

    layout: Layout
    text: InternedText
    rows: np.ndarray
    cells: np.ndarray
    back: np.ndarray
    slices: np.ndarray
    room: Room
    #: the summary of each time
    sums: np.ndarray
    #: the summaries of the front
    stack: np.ndarray
    links: np.ndarray
    ends: np.ndarray
    #: whether a partition has several cells
    grouped: bool
    listing: bool
    scratch: np.ndarray


@kernel
def run(c: Slices, events: np.ndarray, results: Results, start: int) -> int:
    """Handles the window events from number `start` on; gives the number at which the room for results ran out."""
    looking = far(c.room) and not c.grouped
    for k in range(start, len(events)):
        if looking:
            _look_ahead(c, events, k)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            _insert(c, p, events, k)
        elif code == FIRE:
            if not _fire(c, p, events[k].slot, events[k].begin, events[k].end, results):
                return k
        elif code == FORGET:
            _forget(c, p, events[k].end, results)
    return len(events)


@inlined
def _look_ahead(c: Slices, events: np.ndarray, k: int) -> None:
    """First at the cell, which is its partition, then at the times of an event, then at the one behind a stretch."""
    if k + 2 * AHEAD >= len(events):
        return
    prefetch(c.cells, events[k + 2 * AHEAD].partition)
    soon, at_once = events[k + AHEAD], events[k + AHEAD // 2]
    if soon.code == INSERT:
        prefetch(c.slices, soon.node)
        prefetch(c.sums, soon.node)
    elif soon.code == FIRE and c.cells[soon.partition].size:
        low, high = c.cells[soon.partition].low, c.cells[soon.partition].high
        if low != NIL:
            prefetch(c.slices, low)
            prefetch(c.stack, low)
        if high != NIL:
            prefetch(c.slices, high)
    if at_once.code == FIRE and c.cells[at_once.partition].size:
        _bring_near(c, c.cells[at_once.partition].high)


# ---- in -------------------------------------------------------------------------------------------------------------


@inlined
def _insert(c: Slices, p: int, events: np.ndarray, k: int) -> None:
    cells, slices, slot = c.cells, c.slices, events[k].slot
    cell = c.links[slot].cell
    if not cells[cell].size:
        _remember(c, p, cell)
    lift(c.layout, c.rows, slot, c.scratch, 0)
    node = _found(c, cell, events, k)
    new = slices[node].count == 0
    if new:
        slices[node].first = NIL
        _copy(c.scratch, 0, c.sums, node)
    else:
        combine(c.layout, c.text, c.sums, node, c.scratch, 0, c.sums, node)
    slices[node].count += 1
    if c.listing:
        c.links[slot].next = NIL
        if slices[node].first == NIL:
            slices[node].first = slot
        else:
            c.links[slices[node].last].next = slot
        slices[node].last = slot
    _join_stretch(c, cell, node, 1 if new else 0)


@inlined
def _found(c: Slices, cell: int, events: np.ndarray, k: int) -> int:
    """Where the cell has its tuples of a time: none if that is new, as in every free node. A cell that is the whole
    partition has the times of that, by the same numbers; one of several is searched.
    """
    cells, slices, time = c.cells, c.slices, events[k].begin
    if c.grouped:
        node = not_after(cells, slices, cell, time)
        if node == NIL or slices[node].time != time:
            node = add(cells, slices, c.room, cell, node, time)
        return node
    node = events[k].node
    if slices[node].count == 0:
        place(cells, slices, cell, events[k].older, node, time)
        c.room.scalars[TOP] = max(c.room.scalars[TOP], node + 1)
    return node  # type: ignore[no-any-return]


@inlined
def _join_stretch(c: Slices, cell: int, node: int, is_new: int) -> None:
    """The tuple in `scratch`, now at `node`, belongs to the stretch that fired last, if its time does."""
    cells, slices = c.cells, c.slices
    time, low = slices[node].time, cells[cell].low
    if time < cells[cell].begin:
        return
    if low == NIL or time < slices[low].time:
        cells[cell].low = node
    if time > cells[cell].end:
        return
    cells[cell].held += 1
    middle = cells[cell].middle
    if middle != NIL and time <= slices[middle].time:
        if is_new:
            combine(c.layout, c.text, c.scratch, 0, c.stack, slices[node].younger, c.stack, node)
        x = slices[node].older if is_new else node
        while x != NIL and slices[x].time >= cells[cell].begin:
            combine(c.layout, c.text, c.stack, x, c.scratch, 0, c.stack, x)
            x = slices[x].older
        return
    _add_to_back(c, cell, c.scratch, 0)
    if cells[cell].high == NIL or time > slices[cells[cell].high].time:
        cells[cell].high = node


@inlined
def _add_to_back(c: Slices, cell: int, words: np.ndarray, at: int) -> None:
    if c.cells[cell].backed:
        combine(c.layout, c.text, c.back, cell, words, at, c.back, cell)
    else:
        _copy(words, at, c.back, cell)
        c.cells[cell].backed = 1


@inlined
def _copy(source: np.ndarray, at: int, into: np.ndarray, row: int) -> None:
    for k in range(into.shape[1]):
        into[row, k] = source[at, k]


# ---- the stretch ----------------------------------------------------------------------------------------------------


@inlined
def _stretch(c: Slices, cell: int, begin: int, end: int) -> None:
    """Makes [begin, end] the cell's stretch, from what its times hold (KIP S5). Doing it twice is doing it once."""
    cells, slices = c.cells, c.slices
    if begin < cells[cell].begin or end < cells[cell].end:
        _start_again(c, cell, begin)
    else:
        _leave(c, cell, begin)
    high = cells[cell].high
    x = cells[cell].low if high == NIL else slices[high].younger
    while x != NIL and slices[x].time <= end:
        _add_to_back(c, cell, c.sums, x)
        cells[cell].held += slices[x].count
        cells[cell].high = x
        x = slices[x].younger
    _bring_near(c, x)
    _bring_near(c, cells[cell].low)
    cells[cell].begin = begin
    cells[cell].end = end


@inlined
def _bring_near(c: Slices, x: int) -> None:
    """The time behind one that enters or leaves the stretch next: it will be looked at then, and is far away."""
    if x != NIL and c.slices[x].younger != NIL:
        younger = c.slices[x].younger
        prefetch(c.slices, younger)
        prefetch(c.sums, younger)
        prefetch(c.stack, younger)


@inlined
def _start_again(c: Slices, cell: int, begin: int) -> None:
    """An empty stretch from `begin` on; `low` is the first time that is not before it."""
    cells, slices = c.cells, c.slices
    x = cells[cell].low if cells[cell].low != NIL else cells[cell].youngest
    while x != NIL and slices[x].time < begin:
        x = slices[x].younger
    while x != NIL and slices[x].older != NIL and slices[slices[x].older].time >= begin:
        x = slices[x].older
    cells[cell].low = x
    cells[cell].middle = cells[cell].high = NIL
    cells[cell].backed = 0
    cells[cell].held = 0


@inlined
def _leave(c: Slices, cell: int, begin: int) -> None:
    """What is before `begin` leaves the stretch."""
    cells, slices = c.cells, c.slices
    low = cells[cell].low
    while low != NIL and slices[low].time < begin:
        if cells[cell].high != NIL:
            if cells[cell].middle == NIL:
                _build_front(c, cell)
            cells[cell].held -= slices[low].count
            if low == cells[cell].middle:
                cells[cell].middle = NIL
            if low == cells[cell].high:
                cells[cell].high = NIL
        low = slices[low].younger
        cells[cell].low = low


@inlined
def _build_front(c: Slices, cell: int) -> None:
    """Makes the whole stretch the front: from the youngest time back to the oldest, each with all younger ones.

    `ahead` goes the other way round, as in contents.py.
    """
    x, low = c.cells[cell].high, c.cells[cell].low
    _copy(c.sums, x, c.stack, x)
    ahead = low
    while x != low:
        younger, x = x, c.slices[x].older
        _bring_near(c, ahead)
        ahead = c.slices[ahead].younger
        combine(c.layout, c.text, c.sums, x, c.stack, younger, c.stack, x)
    c.cells[cell].middle = c.cells[cell].high
    c.cells[cell].backed = 0


# ---- out ------------------------------------------------------------------------------------------------------------


@inlined
def _fire(c: Slices, p: int, firing: int, begin: int, end: int, results: Results) -> bool:
    """A result for each cell that has tuples there. False: the room ran out."""
    rows, tuples = 0, 0
    cell = c.ends[p].oldest
    while cell != NIL:
        _stretch(c, cell, begin, end)
        rows += 1
        tuples += c.cells[cell].held if c.listing else 0
        cell = c.cells[cell].younger
    if not room(results, rows, tuples, 0):
        return False
    cell = c.ends[p].oldest
    while cell != NIL:
        if c.cells[cell].held:
            row = results.used[ROWS]
            results.used[ROWS] = row + 1
            results.firing[row] = firing
            results.size[row] = c.cells[cell].held
            _summarise(c, cell, results.summary, row)
            if c.listing:
                _list(c, cell, results)
        cell = c.cells[cell].younger
    return True


@inlined
def _summarise(c: Slices, cell: int, into: np.ndarray, row: int) -> None:
    if c.cells[cell].middle == NIL:
        _copy(c.back, cell, into, row)
    elif c.cells[cell].backed:
        combine(c.layout, c.text, c.stack, c.cells[cell].low, c.back, cell, into, row)
    else:
        _copy(c.stack, c.cells[cell].low, into, row)


@inlined
def _list(c: Slices, cell: int, results: Results) -> None:
    k = results.used[TUPLES]
    node, high = c.cells[cell].low, c.cells[cell].high
    while True:
        slot = c.slices[node].first
        while slot != NIL:
            results.tuples[k] = slot
            k += 1
            slot = c.links[slot].next
        if node == high:
            break
        node = c.slices[node].younger
    results.used[TUPLES] = k


@inlined
def _forget(c: Slices, p: int, until: int, results: Results) -> None:
    """Nothing up to `until` will be asked for again."""
    cell = c.ends[p].oldest
    while cell != NIL:
        following = c.cells[cell].younger
        if c.cells[cell].begin <= until:
            _leave(c, cell, until + 1)
            c.cells[cell].begin = until + 1
        while c.cells[cell].oldest != NIL and c.slices[c.cells[cell].oldest].time <= until:
            slot = c.slices[c.cells[cell].oldest].first
            while c.listing and slot != NIL:
                results.freed[results.used[FREED]] = slot
                results.used[FREED] += 1
                slot = c.links[slot].next
            _drop_oldest(c, cell)
        if not c.cells[cell].size:
            intrusive_list.unlink(c.ends, p, c.cells, cell)
        cell = following


@inlined
def _drop_oldest(c: Slices, cell: int) -> None:
    c.slices[c.cells[cell].oldest].count = 0
    if c.grouped:
        drop_oldest(c.cells, c.slices, c.room, cell)
    else:
        take_oldest(c.cells, c.slices, cell)


@inlined
def _remember(c: Slices, p: int, cell: int) -> None:
    cells = c.cells
    intrusive_list.make_empty(cells, cell)
    cells[cell].low = cells[cell].middle = cells[cell].high = NIL
    cells[cell].backed = 0
    cells[cell].held = 0
    cells[cell].begin = ENDLESS
    cells[cell].end = NEVER
    intrusive_list.append(c.ends, p, cells, cell)
