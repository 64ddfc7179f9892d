"""Pairing heaps: the tuple with the least value is on top, which is where one leaves. One comes in O(1), and the least
leaves in O(log n) amortised.

A node is a tuple's slot: `below` is the first of those right below it, `next` the next one beside it. NaN is below all
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sluice.columns.float_bits import as_real
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: the stored tuples
NODE = np.dtype([("next", np.int32), ("below", np.int32)])


class Order(Protocol):
    """The word of a tuple that is compared: its column, and whether it holds the bits of a float64."""

    @property
    def column(self) -> int: ...

    @property
    def floating(self) -> bool: ...


#: told of each node that another one comes to lie below: `melded(top, below, *more)`
Melded = Callable[..., None]


@inlined
def add(
    nodes: np.ndarray, words: np.ndarray, by: Order, root: int, slot: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """Gives the new root. `root` is NOBODY in a heap that is empty; `by` says which word is compared, and how."""
    nodes[slot].next = NIL
    nodes[slot].below = NIL
    return slot if root == NIL else _meld(nodes, words, by, root, slot, melded, *more)


@inlined
def remove_root(
    nodes: np.ndarray, words: np.ndarray, by: Order, root: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """The least leaves. Gives the new root, NOBODY where it was the last."""
    pairs, child = NIL, nodes[root].below
    while child != NIL:  # in pairs, the last pair first
        second = nodes[child].next
        rest = NIL if second == NIL else nodes[second].next
        pair = child if second == NIL else _meld(nodes, words, by, child, second, melded, *more)
        nodes[pair].next = pairs
        pairs, child = pair, rest
    if pairs == NIL:
        return NIL
    top, pairs = pairs, nodes[pairs].next
    while pairs != NIL:  # then the pairs into one
        rest = nodes[pairs].next
        top = _meld(nodes, words, by, top, pairs, melded, *more)
        pairs = rest
    nodes[top].next = NIL
    return top


@inlined
def less(by: Order, one: int, other: int) -> bool:
    """Of two words; NaN is less than nothing."""
    return as_real(one) < as_real(other) if by.floating else one < other


@inlined
def _meld(
    nodes: np.ndarray, words: np.ndarray, by: Order, one: int, other: int, melded: Melded, *more: Any  # noqa: ANN401
) -> int:  # fmt: skip
    """The root of both: the greater root becomes the first below the smaller one."""
    word = words[one, by.column]
    if less(by, words[other, by.column], word) or (by.floating and as_real(word) != as_real(word)):
        one, other = other, one
    nodes[other].next = nodes[one].below
    nodes[one].below = other
    melded(one, other, *more)
    return one
