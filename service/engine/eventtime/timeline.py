"""The times at which something is, in order: a list from the oldest to the youngest, for each partition or cell.

A time that is new is looked for from the youngest back: O(1) where event time goes forward, else as many steps as there
are later times.
"""

from __future__ import annotations

import numpy as np

from service.engine.eventtime.records import NOBODY
from service.engine.kernel import inlined


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
    younger = lists[p].oldest if older == NOBODY else nodes[older].younger
    nodes[node].time = time
    nodes[node].older = older
    nodes[node].younger = younger
    if older == NOBODY:
        lists[p].oldest = node
    else:
        nodes[older].younger = node
    if younger == NOBODY:
        lists[p].youngest = node
    else:
        nodes[younger].older = node
    lists[p].size += 1
    return node  # type: ignore[no-any-return]


@inlined
def drop_oldest(lists: np.ndarray, nodes: np.ndarray, scalars: np.ndarray, free: int, p: int) -> None:
    node = lists[p].oldest
    younger = nodes[node].younger
    lists[p].oldest = younger
    if younger == NOBODY:
        lists[p].youngest = NOBODY
    else:
        nodes[younger].older = NOBODY
    nodes[node].younger = scalars[free]
    scalars[free] = node
    lists[p].size -= 1
