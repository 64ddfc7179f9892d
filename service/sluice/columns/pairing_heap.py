"""Pairing heaps of stored tuples: priority queues from which the tuple with the least value is removed.

Adding costs O(1), removing the least O(log n) amortised. A node is the slot of a tuple. Its links:

    root --below--> child --next--> child --next--> child        `below` is the first child of a node,
                      |                                          `next` its next sibling
                    below                                        NaN counts as greater than every number
                      v
                    child --next--> child
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sluice.columns.float_bits import as_real
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: the links of a stored tuple; NIL where there is no child or sibling
NODE = np.dtype([("next", np.int32), ("below", np.int32)])


class Order(Protocol):
    """The sort key: the column of the word that is compared, and whether the word holds the bits of a float64."""

    @property
    def column(self) -> int: ...

    @property
    def floating(self) -> bool: ...


#: called as `melded(top, below, *more)` whenever node `below` becomes a child of node `top`
Melded = Callable[..., None]


@inlined
def add(
    nodes: np.ndarray, words: np.ndarray, by: Order, root: int, slot: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """Adds the tuple in `slot` to the heap `root` (NIL: empty) and returns the new root. `by` is the sort key."""
    nodes[slot].next = NIL
    nodes[slot].below = NIL
    return slot if root == NIL else _meld(nodes, words, by, root, slot, melded, *more)


@inlined
def remove_root(
    nodes: np.ndarray, words: np.ndarray, by: Order, root: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """Removes the root, which is the least node. Returns the new root, NIL if the heap is now empty."""
    pairs, child = NIL, nodes[root].below
    while child != NIL:  # first pass: merge the children in pairs; the last pair ends up first
        second = nodes[child].next
        rest = NIL if second == NIL else nodes[second].next
        pair = child if second == NIL else _meld(nodes, words, by, child, second, melded, *more)
        nodes[pair].next = pairs
        pairs, child = pair, rest
    if pairs == NIL:
        return NIL
    top, pairs = pairs, nodes[pairs].next
    while pairs != NIL:  # second pass: merge the pairs into one heap
        rest = nodes[pairs].next
        top = _meld(nodes, words, by, top, pairs, melded, *more)
        pairs = rest
    nodes[top].next = NIL
    return top


@inlined
def less(by: Order, first: int, second: int) -> bool:
    """Whether word `first` is less than word `second`. False if one of them is NaN."""
    return as_real(first) < as_real(second) if by.floating else first < second


@inlined
def _meld(
    nodes: np.ndarray, words: np.ndarray, by: Order, first: int, second: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """Merges two heaps: the greater root becomes the first child of the smaller one, which is returned."""
    word = words[first, by.column]
    if less(by, words[second, by.column], word) or (by.floating and as_real(word) != as_real(word)):
        first, second = second, first
    nodes[second].next = nodes[first].below
    nodes[first].below = second
    melded(first, second, *more)
    return first
