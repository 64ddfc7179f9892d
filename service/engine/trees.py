"""The summary of tuples that leave from anywhere: O(log n) expected for each that comes or leaves.

The tuples are nodes of a treap: what hangs on one side of a node is older, on the other side younger, and all of it
has a lower rank. Ranks are pseudo-random, so a tree of n is some 2 ln(n) deep. They follow from the ranks before, never
from slots: the same tuples make the same tree.

A node carries the summary of itself and of all that hangs on it. A change makes it stale, and every node above; they
are summed up when somebody asks.
"""

from __future__ import annotations

import numpy as np

from service.engine.combining import STACK, Summaries, note
from service.engine.kernel import inlined
from service.engine.linked import NOBODY

#: the stored tuples: the node above, those that hang on it, its rank, and whether its summary is out of date
NODE = np.dtype([
    ("above", np.int32), ("older", np.int32), ("younger", np.int32), ("rank", np.uint32), ("stale", np.bool_),
])  # fmt: skip

#: the sides of a node
OLDER, YOUNGER = range(2)
#: the rank of the first tuple: any but 0
SEED = 0x9E3779B9


@inlined
def append(trees: np.ndarray, root: int, youngest: int, slot: int) -> int:
    """The tuple comes behind `youngest`, which is NOBODY in an empty tree. Gives the new root."""
    rank = SEED if youngest == NOBODY else _following(trees[youngest].rank)
    above, below = youngest, NOBODY
    while above != NOBODY and trees[above].rank < rank:
        above, below = trees[above].above, above
    trees[slot].rank = rank
    trees[slot].younger = NOBODY
    _hang(trees, root, slot, OLDER, below)
    _outdate(trees, above)
    trees[slot].stale = 1
    return _hang(trees, root, above, YOUNGER, slot)


@inlined
def remove(trees: np.ndarray, root: int, slot: int) -> int:
    """The tuple leaves, what hung on it becomes one tree. Gives the new root, NOBODY where it was the last."""
    above, older, younger = trees[slot].above, trees[slot].older, trees[slot].younger
    side = YOUNGER if above != NOBODY and trees[above].younger == slot else OLDER
    _outdate(trees, above)
    while older != NOBODY and younger != NOBODY:  # noqa: PLR1714
        if trees[older].rank > trees[younger].rank:
            root = _hang(trees, root, above, side, older)
            above, side, older = older, YOUNGER, trees[older].younger
        else:
            root = _hang(trees, root, above, side, younger)
            above, side, younger = younger, OLDER, trees[younger].older
        trees[above].stale = 1
    return _hang(trees, root, above, side, younger if older == NOBODY else older)


@inlined
def sum_up(trees: np.ndarray, root: int, s: Summaries, told: np.ndarray) -> None:
    """Brings the summary of the whole tree up to date, which is that of its root."""
    node = root
    while trees[root].stale:
        older, younger = trees[node].older, trees[node].younger
        if older != NOBODY and trees[older].stale:
            node = older
        elif younger != NOBODY and trees[younger].stale:
            node = younger
        else:
            note(s, told, STACK, node, older, younger)
            trees[node].stale = 0
            node = trees[node].above


@inlined
def _hang(trees: np.ndarray, root: int, above: int, side: int, node: int) -> int:
    """On that side of `above`; `node` may be NOBODY. Gives the root: the node itself, if there is none above."""
    if node != NOBODY:
        trees[node].above = above
    if above == NOBODY:
        return node
    if side == YOUNGER:
        trees[above].younger = node
    else:
        trees[above].older = node
    return root


@inlined
def _outdate(trees: np.ndarray, node: int) -> None:
    """The node and all above; those above a stale one are stale already."""
    while node != NOBODY and not trees[node].stale:
        trees[node].stale = 1
        node = trees[node].above


@inlined
def _following(rank: np.uint32) -> np.int64:
    """Marsaglia's xorshift of 32 bits."""
    x = np.int64(rank)
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    return x ^ ((x << 5) & 0xFFFFFFFF)
