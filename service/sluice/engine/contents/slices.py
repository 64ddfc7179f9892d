"""The kernel that maintains the contents of event-time windows and their summaries.

Its cost per tuple and per window is constant, amortised, if event time goes forward.

`group_by` divides a window partition into groups. A group keeps one summary for each time (or slice) at which it has
tuples, in the order of time. It also keeps the summary of one interval [begin, end] of event time, both ends
inclusive: the interval of the last pane or window that fired.

    times of the group:   t1   t2   [ t3   t4   t5  |  t6   t7   t8 ]   t9
                                      low       middle           high
                                          front             back

If both ends of the next interval are not before the previous ones, the kernel removes from the front the times that
left, and adds to the back the times that entered (as group_contents.py does with tuples). The front has a summary per
time: of this time and all later times of the front. When the front is empty, the whole interval becomes the front. If
an end of the interval goes back, the summary is built anew, which costs O(times in the interval).

Summaries combine in any order, because they carry sequence numbers (see summaries.py). So a late tuple that belongs to
the interval is added to the back, or to the summaries of its own and all earlier times of the front.
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
from sluice.engine.windows.event_time.timeline_blocks import TOP, NodeAllocation, far

#: the record of a group: its list of times (`oldest` to `spare`), the interval [begin, end] that fired last, the number
#: of tuples in it (`held`), its first time (`low`), the last time of the front (`middle`), its last time (`high`), each
#: NIL if there is none, and whether the back has tuples (`backed`)
CELL = np.dtype([
    ("begin", np.int64), ("end", np.int64), ("held", np.int64),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32), ("spare", np.int32),
    ("low", np.int32), ("middle", np.int32), ("high", np.int32), ("backed", np.bool_),
    # the neighbours in the list of the partition's groups that hold tuples
    ("younger", np.int32), ("older", np.int32),
])  # fmt: skip

#: a time at which a group has tuples: their number and, if functions list tuples, the first and the last to arrive
OWN = [("count", np.int32), ("first", np.int32), ("last", np.int32)]
SLICE = np.dtype([*MEMBER[:3], *OWN, *MEMBER[3:]])  # leap fields last: only a search by time reads them

#: a tuple: its group, and the next tuple that arrived at the same time
LINK = np.dtype([("cell", np.int32), ("next", np.int32)])
#: the list of a partition's groups that hold tuples
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class Slices(NamedTuple):
    """The tables and settings of the kernel."""

    layout: Layout
    text: InternedText
    rows: np.ndarray
    cells: np.ndarray
    back: np.ndarray
    slices: np.ndarray
    room: NodeAllocation
    #: the summary of the tuples at each time
    sums: np.ndarray
    #: for each time in the front of a group, the summary of this and all later times of the front
    stack: np.ndarray
    links: np.ndarray
    ends: np.ndarray
    #: whether there is a `group_by`, so that a partition may have several groups
    grouped: bool
    listing: bool
    scratch: np.ndarray


@kernel
def run(c: Slices, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room for results."""
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
    """Prefetches what later events need; valid without `group_by`, where the group is the partition.

    2 * AHEAD events ahead: the group. AHEAD events ahead: the times of the event or the ends of the interval. AHEAD / 2
    events ahead: the time that enters the interval next.
    """
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
    """The node of the group for the time of the event. A new node has `count` 0.

    Without `group_by`, the node has the same number as the node of the partition for this time. With `group_by`, the
    node is searched for by its time.
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
    """Adds the tuple, whose summary is in `scratch`, to the interval that fired last if its time `node` is inside."""
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
    """Makes [begin, end] the group's interval and computes its content from its times (KIP S5). It is idempotent."""
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
    """Prefetches the time after `x`. `x` will enter or leave the interval next, and the time after it is then read."""
    if x != NIL and c.slices[x].younger != NIL:
        younger = c.slices[x].younger
        prefetch(c.slices, younger)
        prefetch(c.sums, younger)
        prefetch(c.stack, younger)


@inlined
def _start_again(c: Slices, cell: int, begin: int) -> None:
    """Makes the interval empty. `low` becomes the first time that is not before `begin`."""
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
    """Removes the times before `begin` from the interval."""
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
    """Makes the whole interval the front: computes the summaries from the latest time back to the earliest.

    `ahead` runs in the other direction and prefetches (see `_build_front` in group_contents.py).
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
    """Writes a result row for each group with tuples in [begin, end]. Returns False (and writes none) without room."""
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
    """Removes all tuples up to time `until` (inclusive). No later event of the partition refers to them."""
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
