"""Progressive sort: each partition is a heap of at most n tuples, whose first one leaves when another comes (O8).

The heaps are skew heaps, which melt into each other along their right-hand side: no array to grow, two links per tuple,
O(log n) amortised for what comes and what leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.interner import InternedText, less
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.processing_time import LOSE, Window, arrive, evict, evict_aged

#: the heap of each partition
HEAP = np.dtype([("top", np.int32)])
#: a tuple in it: both smaller heaps below it, and its number in order of arrival
NODE = np.dtype([("left", np.int32), ("right", np.int32), ("number", np.int64)])
#: an order key: which word of a tuple it is, and how it compares
ORDER = np.dtype([("column", np.int64), ("text", np.bool_), ("descending", np.bool_)])
#: what comes out: the tuple, its partition, and the arrival that caused it
OUT = np.dtype([("slot", np.int32), ("partition", np.int32), ("cause", np.int32)])


class SortHeaps(NamedTuple):
    """All that the kernel works on."""

    window: Window
    piles: np.ndarray
    nodes: np.ndarray
    order: np.ndarray
    text: InternedText
    #: tuples that a partition holds
    size: int
    #: how many tuples came so far, in its first entry
    came: np.ndarray
    #: the slots of what left with its partition, and how many they are
    lost: np.ndarray
    losses: np.ndarray


@kernel
def run(k: SortHeaps, arrivals: np.ndarray, out: np.ndarray) -> int:
    """Handles all tuples; gives how many came out.

    Before each the first of a full pile leaves (O8), never itself (O9); where the pile is not full nobody does (O13).
    """
    w, used = k.window, 0
    for i in range(len(arrivals)):
        if arrivals[i].kind != TUPLE:
            continue
        p, slot = arrivals[i].partition, arrivals[i].slot
        w.used[0] = 0
        evict_aged(w, arrivals[i].at, arrivals[i].event)  # S2: first of all
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
    """What leaves with its partition does not come out (V20)."""
    for e in range(k.window.used[0]):
        if k.window.events[e].code == LOSE:
            k.lost[k.losses[0]] = k.window.events[e].slot
            k.losses[0] += 1


@kernel
def drain(k: SortHeaps, partitions: np.ndarray, cause: int, out: np.ndarray, used: int) -> int:
    """Empties these partitions, one after the other, each in order (O11); gives how many came out in all."""
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
    """The first of both heaps, with the other melted into it."""
    nodes = k.nodes
    if _before(k, b, a):
        a, b = b, a
    first = a
    while True:  # b comes after a; it melts with what is on the right of a, and that goes to the left
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
    """Whether one tuple comes out before another one: by the keys, then by arrival (O2, O8)."""
    words = k.window.words
    for j in range(len(k.order)):
        column = k.order[j].column
        x, y = words[a, column], words[b, column]
        if x != y:
            return bool((less(k.text, x, y) if k.order[j].text else x < y) != k.order[j].descending)
    return bool(k.nodes[a].number < k.nodes[b].number)
