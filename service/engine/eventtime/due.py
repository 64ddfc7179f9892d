"""Which partition is the next to do something: a pairing heap, of which each topic partition has one.

Entering and coming nearer are O(1), leaving is O(log n) amortised. The partitions themselves are its nodes.
"""

from __future__ import annotations

import numpy as np

from service.engine.kernel import inlined
from service.engine.linked import NOBODY


@inlined
def schedule(partitions: np.ndarray, roots: np.ndarray, queue: int, p: int, due: int) -> None:
    """Partition `p` is due at `due`; one that is queued already, not later than before."""
    if not partitions[p].queued:
        partitions[p].queued = 1
        partitions[p].due = due
        partitions[p].child = partitions[p].sibling = partitions[p].before = NOBODY
        roots[queue] = p if roots[queue] == NOBODY else _joined(partitions, roots[queue], p)
    elif due < partitions[p].due:
        partitions[p].due = due
        if roots[queue] != p:
            _cut(partitions, p)
            roots[queue] = _joined(partitions, roots[queue], p)


@inlined
def pop(partitions: np.ndarray, roots: np.ndarray, queue: int) -> int:
    """The partition that is due first leaves the heap."""
    p = roots[queue]
    partitions[p].queued = 0
    pairs = NOBODY
    a = partitions[p].child
    while a != NOBODY:  # pairs of children, left to right ...
        b = partitions[a].sibling
        following = NOBODY
        partitions[a].sibling = partitions[a].before = NOBODY
        if b != NOBODY:
            following = partitions[b].sibling
            partitions[b].sibling = partitions[b].before = NOBODY
            a = _joined(partitions, a, b)
        partitions[a].sibling = pairs
        pairs = a
        a = following
    root = NOBODY
    while pairs != NOBODY:  # ... and these, right to left
        following = partitions[pairs].sibling
        partitions[pairs].sibling = NOBODY
        root = pairs if root == NOBODY else _joined(partitions, root, pairs)
        pairs = following
    roots[queue] = root
    return p  # type: ignore[no-any-return]


@inlined
def _joined(partitions: np.ndarray, a: int, b: int) -> int:
    """The root of two heaps made one."""
    if partitions[b].due < partitions[a].due:
        a, b = b, a
    child = partitions[a].child
    partitions[b].sibling = child
    partitions[b].before = a
    if child != NOBODY:
        partitions[child].before = b
    partitions[a].child = b
    partitions[a].sibling = partitions[a].before = NOBODY
    return a


@inlined
def _cut(partitions: np.ndarray, p: int) -> None:
    before, sibling = partitions[p].before, partitions[p].sibling
    if partitions[before].child == p:
        partitions[before].child = sibling
    else:
        partitions[before].sibling = sibling
    if sibling != NOBODY:
        partitions[sibling].before = before
    partitions[p].sibling = partitions[p].before = NOBODY
