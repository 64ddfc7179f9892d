"""The kernel of progressive Sort: a heap of at most n tuples for each partition (O8).

When a tuple arrives at a full heap, the first tuple of the heap leaves. The heaps are skew heaps: two heaps are merged
along their right-hand paths. A heap needs two links for each tuple and no array of its own; inserting and removing a
tuple costs O(log n) amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText, less
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.processing_time import LOSE, Window, arrive, evict, evict_aged

#: the heap of a partition: its first tuple
HEAP = np.dtype([("top", np.int32)])
#: a tuple in a heap: the first tuples of its two subheaps, NIL for none, and its arrival number
NODE = np.dtype([("left", np.int32), ("right", np.int32), ("number", np.int64)])
#: a sort key: its index among a tuple's words, whether it is the code of a text, and its direction
ORDER = np.dtype([("column", np.int64), ("text", np.bool_), ("descending", np.bool_)])
#: an emitted tuple: its slot, its partition, and the index of the arrival that caused it
OUT = np.dtype([("slot", np.int32), ("partition", np.int32), ("cause", np.int32)])


class SortHeaps(NamedTuple):
    """The arguments of the kernel: a window, the heaps of its partitions, and the sort keys."""

    window: Window
    piles: np.ndarray
    nodes: np.ndarray
    order: np.ndarray
    text: InternedText
    #: the most tuples that a partition holds
    size: int
    #: an array of one entry: the number of tuples so far
    came: np.ndarray
    #: the slots of tuples that were evicted with their partition, and an array with their number
    lost: np.ndarray
    losses: np.ndarray


@kernel
def run(k: SortHeaps, arrivals: np.ndarray, out: np.ndarray) -> int:
    """Processes all arriving tuples, writes the emitted ones to `out`, and returns their number.

    If the partition of an arriving tuple is full, its first tuple leaves before the new one enters (O8), so a tuple
    never leaves on its own arrival (O9). If the partition is not full, no tuple leaves (O13).
    """
    w, used = k.window, 0
    for i in range(len(arrivals)):
        if arrivals[i].kind != TUPLE:
            continue
        p, slot = arrivals[i].partition, arrivals[i].slot
        w.used[0] = 0
        evict_aged(w, arrivals[i].at, arrivals[i].event)  # S2: partition eviction comes first
        if w.partitions[p].size == k.size:
            first = _pop(k, p)
            evict(w, p, first)
            _put(out, used, first, p, i)
            used += 1
        arrive(w, arrivals, i)
        _lose(k)
        if w.partitions[p].size:
            k.nodes[slot].number = k.came[0]
            k.came[0] += 1
            _push(k, p, slot)
    return used


@inlined
def _lose(k: SortHeaps) -> None:
    """Notes the slots of tuples that were evicted with their partition. They are not emitted (V20)."""
    for e in range(k.window.used[0]):
        if k.window.events[e].code == LOSE:
            k.lost[k.losses[0]] = k.window.events[e].slot
            k.losses[0] += 1


@kernel
def drain(k: SortHeaps, partitions: np.ndarray, cause: int, out: np.ndarray, used: int) -> int:
    """Empties the given partitions one after the other, each in sort order (O11).

    `used` is the number of entries in `out`; returns this number with the new entries.
    """
    for j in range(len(partitions)):
        p = partitions[j]
        while k.window.partitions[p].size:
            first = _pop(k, p)
            k.window.used[0] = 0
            evict(k.window, p, first)
            _put(out, used, first, p, cause)
            used += 1
    return used


@inlined
def _put(out: np.ndarray, place: int, slot: int, p: int, cause: int) -> None:
    out[place].slot = slot
    out[place].partition = p
    out[place].cause = cause


@inlined
def _push(k: SortHeaps, p: int, slot: int) -> None:
    k.nodes[slot].left = k.nodes[slot].right = NIL
    k.piles[p].top = slot if k.window.partitions[p].size == 1 else _melted(k, k.piles[p].top, slot)


@inlined
def _pop(k: SortHeaps, p: int) -> int:
    top = k.piles[p].top
    left, right = k.nodes[top].left, k.nodes[top].right
    if left == NIL:
        k.piles[p].top = right
    elif right == NIL:
        k.piles[p].top = left
    else:
        k.piles[p].top = _melted(k, left, right)
    return top  # type: ignore[no-any-return]


@inlined
def _melted(k: SortHeaps, a: int, b: int) -> int:
    """Merges two heaps, given by their first tuples, and returns the first tuple of the result."""
    nodes = k.nodes
    if _before(k, b, a):
        a, b = b, a
    first = a
    while True:  # b sorts after a: merge b with the right subheap of a, and make the result the left one
        right = nodes[a].right
        nodes[a].right = nodes[a].left
        if right == NIL:
            nodes[a].left = b
            break
        if _before(k, b, right):
            b, right = right, b
        nodes[a].left = right
        a = right
    return first


@inlined
def _before(k: SortHeaps, a: int, b: int) -> bool:
    """Whether tuple `a` sorts before tuple `b`: by the sort keys, then by arrival (O2, O8)."""
    words = k.window.words
    for j in range(len(k.order)):
        column = k.order[j].column
        x, y = words[a, column], words[b, column]
        if x != y:
            return bool((less(k.text, x, y) if k.order[j].text else x < y) != k.order[j].descending)
    return bool(k.nodes[a].number < k.nodes[b].number)
