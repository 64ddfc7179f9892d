"""The kernel that maintains the contents of event-time windows and their summaries.

Its cost per tuple and per window is constant, amortised, if event time goes forward.

`group_by` divides a window partition into groups. A group keeps one summary for each time (or slice) at which it has
tuples, in the order of time. It also keeps the summary of one interval [begin, end] of event time, both ends
inclusive: the interval of the last pane or window that fired.

    times of the group:   t1   t2   [ t3   t4   t5  |  t6   t7   t8 ]   t9
                                      low       middle           high
                                          front             back

If both ends of the next interval are not before the previous ones, the kernel removes from the front the times that
left, and adds to the back the times that entered (as two_stacks.py does with tuples). The front has a summary per
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
#: of tuples in it (`tuples`), its first time (`low`), the last time of the front (`middle`), its last time (`high`; NIL
#: if there is no such time), and whether the back has tuples (`backed`)
GROUP_RECORD = np.dtype([
    ("begin", np.int64), ("end", np.int64), ("tuples", np.int64),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32), ("spare", np.int32),
    ("low", np.int32), ("middle", np.int32), ("high", np.int32), ("backed", np.bool_),
    # the neighbours in the list of the partition's groups that hold tuples
    ("younger", np.int32), ("older", np.int32),
])  # fmt: skip

#: a time at which a group has tuples: their number and, if functions list tuples, the first and the last to arrive
TIME_FIELDS = [("count", np.int32), ("first", np.int32), ("last", np.int32)]
SLICE = np.dtype([*MEMBER[:3], *TIME_FIELDS, *MEMBER[3:]])  # leap fields last: only a search by time reads them

#: a tuple: its group, and the next tuple that arrived at the same time
LINK = np.dtype([("group", np.int32), ("next", np.int32)])
#: the list of a partition's groups that hold tuples
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class Slices(NamedTuple):
    """The tables and settings of the kernel."""

    layout: Layout
    text: InternedText
    rows: np.ndarray
    groups: np.ndarray
    back: np.ndarray
    slices: np.ndarray
    room: NodeAllocation
    #: the summary of the tuples at each time
    sums: np.ndarray
    #: for each time in the front of a group, the summary of this and all later times of the front
    stack: np.ndarray
    links: np.ndarray
    ends: np.ndarray
    #: the number of tuples in all windows (one element)
    held: np.ndarray
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
            if not _room(c, p, events[k].begin, events[k].end, results):
                return k
            _fire(c, p, events[k].slot, results)
        elif code == FORGET:
            _evict(c, p, events[k].end, results)
    return len(events)


@inlined
def _look_ahead(c: Slices, events: np.ndarray, k: int) -> None:
    """Prefetches what later events need; valid without `group_by`, where the group is the partition.

    2 * AHEAD events ahead: the group. AHEAD events ahead: the times of the event or the ends of the interval. AHEAD / 2
    events ahead: the time that enters the interval next.
    """
    if k + 2 * AHEAD >= len(events):
        return
    prefetch(c.groups, events[k + 2 * AHEAD].partition)
    soon, at_once = events[k + AHEAD], events[k + AHEAD // 2]
    if soon.code == INSERT:
        prefetch(c.slices, soon.node)
        prefetch(c.sums, soon.node)
    elif soon.code == FIRE and c.groups[soon.partition].size:
        low, high = c.groups[soon.partition].low, c.groups[soon.partition].high
        if low != NIL:
            prefetch(c.slices, low)
            prefetch(c.stack, low)
        if high != NIL:
            prefetch(c.slices, high)
    if at_once.code == FIRE and c.groups[at_once.partition].size:
        _prefetch_time_after(c, c.groups[at_once.partition].high)


# ---- in -------------------------------------------------------------------------------------------------------------


@inlined
def _insert(c: Slices, p: int, events: np.ndarray, k: int) -> None:
    groups, slices, slot = c.groups, c.slices, events[k].slot
    group = c.links[slot].group
    if not groups[group].size:
        _remember(c, p, group)
    lift(c.layout, c.rows, slot, c.scratch, 0)
    node = _found(c, group, events, k)
    new = slices[node].count == 0
    if new:
        slices[node].first = NIL
        _copy(c.scratch, 0, c.sums, node)
    else:
        combine(c.layout, c.text, c.sums, node, c.scratch, 0, c.sums, node)
    slices[node].count += 1
    c.held[0] += 1
    if c.listing:
        c.links[slot].next = NIL
        if slices[node].first == NIL:
            slices[node].first = slot
        else:
            c.links[slices[node].last].next = slot
        slices[node].last = slot
    _add_to_interval(c, group, node, 1 if new else 0)


@inlined
def _found(c: Slices, group: int, events: np.ndarray, k: int) -> int:
    """The node of the group for the time of the event. A new node has `count` 0.

    Without `group_by`, the node has the same number as the node of the partition for this time. With `group_by`, the
    node is searched for by its time.
    """
    groups, slices, time = c.groups, c.slices, events[k].begin
    if c.grouped:
        node = not_after(groups, slices, group, time)
        if node == NIL or slices[node].time != time:
            node = add(groups, slices, c.room, group, node, time)
        return node
    node = events[k].node
    if slices[node].count == 0:
        place(groups, slices, group, events[k].older, node, time)
        c.room.scalars[TOP] = max(c.room.scalars[TOP], node + 1)
    return node  # type: ignore[no-any-return]


@inlined
def _add_to_interval(c: Slices, group: int, node: int, is_new: int) -> None:
    """Adds the tuple, whose summary is in `scratch`, to the interval that fired last if its time `node` is inside."""
    groups, slices = c.groups, c.slices
    time, low = slices[node].time, groups[group].low
    if time < groups[group].begin:
        return
    if low == NIL or time < slices[low].time:
        groups[group].low = node
    if time > groups[group].end:
        return
    groups[group].tuples += 1
    middle = groups[group].middle
    if middle != NIL and time <= slices[middle].time:
        if is_new:
            combine(c.layout, c.text, c.scratch, 0, c.stack, slices[node].younger, c.stack, node)
        x = slices[node].older if is_new else node
        while x != NIL and slices[x].time >= groups[group].begin:
            combine(c.layout, c.text, c.stack, x, c.scratch, 0, c.stack, x)
            x = slices[x].older
        return
    _add_to_back(c, group, c.scratch, 0)
    if groups[group].high == NIL or time > slices[groups[group].high].time:
        groups[group].high = node


@inlined
def _add_to_back(c: Slices, group: int, words: np.ndarray, at: int) -> None:
    if c.groups[group].backed:
        combine(c.layout, c.text, c.back, group, words, at, c.back, group)
    else:
        _copy(words, at, c.back, group)
        c.groups[group].backed = 1


@inlined
def _copy(source: np.ndarray, at: int, into: np.ndarray, row: int) -> None:
    for k in range(into.shape[1]):
        into[row, k] = source[at, k]


# ---- the interval ---------------------------------------------------------------------------------------------------


@inlined
def _move_interval(c: Slices, group: int, begin: int, end: int) -> None:
    """Makes [begin, end] the group's interval and computes its content from its times (KIP S5). It is idempotent."""
    groups, slices = c.groups, c.slices
    if begin < groups[group].begin or end < groups[group].end:
        _start_again(c, group, begin)
    else:
        _leave(c, group, begin)
    high = groups[group].high
    x = groups[group].low if high == NIL else slices[high].younger
    while x != NIL and slices[x].time <= end:
        _add_to_back(c, group, c.sums, x)
        groups[group].tuples += slices[x].count
        groups[group].high = x
        x = slices[x].younger
    _prefetch_time_after(c, x)
    _prefetch_time_after(c, groups[group].low)
    groups[group].begin = begin
    groups[group].end = end


@inlined
def _prefetch_time_after(c: Slices, x: int) -> None:
    """Prefetches the time after `x`. `x` will enter or leave the interval next, and the time after it is then read."""
    if x != NIL and c.slices[x].younger != NIL:
        younger = c.slices[x].younger
        prefetch(c.slices, younger)
        prefetch(c.sums, younger)
        prefetch(c.stack, younger)


@inlined
def _start_again(c: Slices, group: int, begin: int) -> None:
    """Makes the interval empty. `low` becomes the first time that is not before `begin`."""
    groups, slices = c.groups, c.slices
    x = groups[group].low if groups[group].low != NIL else groups[group].youngest
    while x != NIL and slices[x].time < begin:
        x = slices[x].younger
    while x != NIL and slices[x].older != NIL and slices[slices[x].older].time >= begin:
        x = slices[x].older
    groups[group].low = x
    groups[group].middle = groups[group].high = NIL
    groups[group].backed = 0
    groups[group].tuples = 0


@inlined
def _leave(c: Slices, group: int, begin: int) -> None:
    """Removes the times before `begin` from the interval."""
    groups, slices = c.groups, c.slices
    low = groups[group].low
    while low != NIL and slices[low].time < begin:
        if groups[group].high != NIL:
            if groups[group].middle == NIL:
                _build_front(c, group)
            groups[group].tuples -= slices[low].count
            if low == groups[group].middle:
                groups[group].middle = NIL
            if low == groups[group].high:
                groups[group].high = NIL
        low = slices[low].younger
        groups[group].low = low


@inlined
def _build_front(c: Slices, group: int) -> None:
    """Makes the whole interval the front: computes the summaries from the latest time back to the earliest.

    `ahead` runs in the other direction and prefetches (see `build_front` in two_stacks.py).
    """
    x, low = c.groups[group].high, c.groups[group].low
    _copy(c.sums, x, c.stack, x)
    ahead = low
    while x != low:
        younger, x = x, c.slices[x].older
        _prefetch_time_after(c, ahead)
        ahead = c.slices[ahead].younger
        combine(c.layout, c.text, c.sums, x, c.stack, younger, c.stack, x)
    c.groups[group].middle = c.groups[group].high
    c.groups[group].backed = 0


# ---- out ------------------------------------------------------------------------------------------------------------


@inlined
def _room(c: Slices, p: int, begin: int, end: int, results: Results) -> bool:
    """Moves the interval of each group to [begin, end]. Returns whether there is room for the results of the firing."""
    rows, tuples = 0, 0
    group = c.ends[p].oldest
    while group != NIL:
        _move_interval(c, group, begin, end)
        rows += 1
        tuples += c.groups[group].tuples if c.listing else 0
        group = c.groups[group].younger
    return room(results, rows, tuples, 0)


@inlined
def _fire(c: Slices, p: int, firing: int, results: Results) -> None:
    """Writes a result row for each group that has tuples in its interval."""
    group = c.ends[p].oldest
    while group != NIL:
        if c.groups[group].tuples:
            row = results.used[ROWS]
            results.used[ROWS] = row + 1
            results.firing[row] = firing
            results.size[row] = c.groups[group].tuples
            _summarise(c, group, results.summary, row)
            if c.listing:
                _list(c, group, results)
        group = c.groups[group].younger


@inlined
def _summarise(c: Slices, group: int, into: np.ndarray, row: int) -> None:
    if c.groups[group].middle == NIL:
        _copy(c.back, group, into, row)
    elif c.groups[group].backed:
        combine(c.layout, c.text, c.stack, c.groups[group].low, c.back, group, into, row)
    else:
        _copy(c.stack, c.groups[group].low, into, row)


@inlined
def _list(c: Slices, group: int, results: Results) -> None:
    k = results.used[TUPLES]
    node, high = c.groups[group].low, c.groups[group].high
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
def _evict(c: Slices, p: int, until: int, results: Results) -> None:
    """Removes all tuples up to time `until` (inclusive). No later event of the partition refers to them."""
    group = c.ends[p].oldest
    while group != NIL:
        following = c.groups[group].younger
        if c.groups[group].begin <= until:
            _leave(c, group, until + 1)
            c.groups[group].begin = until + 1
        while c.groups[group].oldest != NIL and c.slices[c.groups[group].oldest].time <= until:
            slot = c.slices[c.groups[group].oldest].first
            while c.listing and slot != NIL:
                results.freed[results.used[FREED]] = slot
                results.used[FREED] += 1
                slot = c.links[slot].next
            _drop_oldest(c, group)
        if not c.groups[group].size:
            intrusive_list.unlink(c.ends, p, c.groups, group)
        group = following


@inlined
def _drop_oldest(c: Slices, group: int) -> None:
    c.held[0] -= c.slices[c.groups[group].oldest].count
    c.slices[c.groups[group].oldest].count = 0
    if c.grouped:
        drop_oldest(c.groups, c.slices, c.room, group)
    else:
        take_oldest(c.groups, c.slices, group)


@inlined
def _remember(c: Slices, p: int, group: int) -> None:
    groups = c.groups
    intrusive_list.make_empty(groups, group)
    groups[group].low = groups[group].middle = groups[group].high = NIL
    groups[group].backed = 0
    groups[group].tuples = 0
    groups[group].begin = ENDLESS
    groups[group].end = NEVER
    intrusive_list.append(c.ends, p, groups, group)
