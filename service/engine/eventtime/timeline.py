"""The times at which something is, in order: a list from the oldest to the youngest, for each partition or cell.

A time that is new is looked for from the youngest back: O(1) where event time goes forward, else as many steps as there
are later times.
"""

from __future__ import annotations

import numpy as np

from service.engine import linked
from service.engine.kernel import inlined
from service.engine.linked import NOBODY


@inlined
def not_after(lists: np.ndarray, nodes: np.ndarray, p: int, time: int) -> int:
    """The youngest node of a list that is not later than `time`."""
    node = lists[p].youngest
    while node != NOBODY and nodes[node].time > time:
        node = nodes[node].older
    return node  # type: ignore[no-any-return]


@inlined
def add(lists: np.ndarray, nodes: np.ndarray, scalars: np.ndarray, free: int, p: int, older: int, time: int) -> int:
    """A new node behind `older`. `scalars[free]` begins the chain of free ones, behind it is the number in use."""
    node = scalars[free]
    if node == NOBODY:
        node = scalars[free + 1]
        scalars[free + 1] += 1
    else:
        scalars[free] = nodes[node].younger
    nodes[node].time = time
    linked.insert(lists, p, nodes, older, node)
    lists[p].size += 1
    return node  # type: ignore[no-any-return]


@inlined
def drop_oldest(lists: np.ndarray, nodes: np.ndarray, scalars: np.ndarray, free: int, p: int) -> None:
    node = lists[p].oldest
    linked.take(lists, p, nodes, node)
    nodes[node].younger = scalars[free]
    scalars[free] = node
    lists[p].size -= 1
