"""Orders the tuples of a delta window by value, so that those far below the newest tuple are found directly.

A tuple whose value is not below that of the last tuple of the *row* is appended to the row. So the row is ascending and
its first tuple is its least, both in O(1). The other tuples, which came out of order, are in a pairing *heap*
(columns/pairing_heap.py). Ordered values thus cost as much as a queue. NaN is in neither, because it neither exceeds a
value nor is exceeded by one (S8).

In ORDER, `next` is the next tuple of the row or the next sibling in the heap; `below` is the first child in the heap.
"""

from __future__ import annotations

from sluice.columns import pairing_heap
from sluice.columns.float_bits import as_real
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.processing_time.window_records import NUMBER, Window


@inlined
def add(w: Window, p: int, slot: int) -> None:
    """Adds a tuple to the row or the heap. The order of arrival does not change which tuples are found (S8a), and a NaN
    does not hide the tuples behind it (S8b).
    """
    values = w.values
    if not w.partitions[p].size:
        values[p].first = values[p].last = values[p].least = NIL
    word = w.words[slot, w.clause.eviction.column]
    w.scalars[NUMBER] += 1
    w.order[slot].number = w.scalars[NUMBER]
    w.order[slot].next = NIL
    if not _ordered(w, word, word):  # NaN
        return
    if values[p].first == NIL:
        values[p].first = values[p].last = slot
    elif _ordered(w, w.words[values[p].last, w.clause.eviction.column], word):
        w.order[values[p].last].next = slot
        values[p].last = slot
    else:
        values[p].least = pairing_heap.add(w.order, w.words, w.clause.eviction, values[p].least, slot, _melded)


@inlined
def least(w: Window, p: int) -> int:
    """The tuple with the least value; NIL if the partition holds only NaN."""
    first, root = w.values[p].first, w.values[p].least
    if first == NIL or root == NIL:  # noqa: PLR1714
        return root if first == NIL else first  # type: ignore[no-any-return]
    by = w.clause.eviction
    return root if pairing_heap.less(by, w.words[root, by.column], w.words[first, by.column]) else first  # type: ignore[no-any-return]


@inlined
def remove_least(w: Window, p: int, slot: int) -> None:
    """Removes the tuple `slot`, which `least` returned."""
    values = w.values
    if slot == values[p].first:
        values[p].first = w.order[slot].next
        return
    values[p].least = pairing_heap.remove_root(w.order, w.words, w.clause.eviction, slot, _melded)


@inlined
def _melded(top: int, below: int) -> None:
    """Called when the heap merges two subtrees. Does nothing, because no summaries are kept in this heap."""


@inlined
def _ordered(w: Window, first: int, second: int) -> bool:
    return as_real(first) <= as_real(second) if w.clause.eviction.floating else first <= second


@inlined
def by_arrival(w: Window, first: int) -> None:
    """Sorts the window events from number `first` on, which are evictions from one partition, by arrival of their
    tuples. A heap sort; O(n) if they are in order.
    """
    count = w.used[0] - first
    for k in range(1, count):
        if _later(w, first + k - 1, first + k):
            break
    else:
        return
    for top in range(count // 2 - 1, -1, -1):
        _sink(w, first, top, count)
    for last in range(count - 1, 0, -1):
        _exchange(w, first, first + last)
        _sink(w, first, 0, last)


@inlined
def _sink(w: Window, first: int, top: int, count: int) -> None:
    while 2 * top + 1 < count:
        child = 2 * top + 1
        if child + 1 < count and _later(w, first + child + 1, first + child):
            child += 1
        if not _later(w, first + child, first + top):
            return
        _exchange(w, first + top, first + child)
        top = child


@inlined
def _later(w: Window, first: int, second: int) -> bool:
    return bool(w.order[w.events[first].slot].number > w.order[w.events[second].slot].number)


@inlined
def _exchange(w: Window, first: int, second: int) -> None:
    slot = w.events[first].slot
    w.events[first].slot = w.events[second].slot
    w.events[second].slot = slot
