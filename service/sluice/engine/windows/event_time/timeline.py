"""A timeline: the ordered list of the times (nodes) at which a partition or a group has tuples, oldest first.

A time is searched from the youngest node back. This costs O(1) where event time advances, else O(log n) for n later
nodes. For this, each node has a leap to an older node; the lengths of leaps follow skew-binary numbers (Myers, "An
applicative random-access stack", 1983). A node that is inserted between others makes leaps longer, and a leap to a
dropped node is void.
"""

from __future__ import annotations

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.event_time import timeline_blocks
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.engine.windows.event_time.timeline_blocks import NodeAllocation


@inlined
def not_after(lists: np.ndarray, nodes: np.ndarray, p: int, time: int) -> int:
    """The youngest node of a list that is not later than `time`; NIL if there is none."""
    node = lists[p].youngest
    if node == NIL or nodes[node].time <= time:
        return node  # type: ignore[no-any-return]
    oldest = nodes[lists[p].oldest].time
    while node != NIL and nodes[node].time > time:
        landing = nodes[node].landing
        node = nodes[node].leap if landing > time and landing >= oldest else nodes[node].older
    return node  # type: ignore[no-any-return]


@inlined
def add(lists: np.ndarray, nodes: np.ndarray, room: NodeAllocation, p: int, older: int, time: int) -> int:
    """Inserts a new node behind `older`. Its time is later than that of every dropped node."""
    node = timeline_blocks.take(lists, nodes, room, p)
    _aim(lists, nodes, p, older, node)
    place(lists, nodes, p, older, node, time)
    return node


@inlined
def place(lists: np.ndarray, nodes: np.ndarray, p: int, older: int, node: int, time: int) -> None:
    """Inserts `node` behind `older` without giving it a leap."""
    nodes[node].time = time
    intrusive_list.insert(lists, p, nodes, older, node)
    lists[p].size += 1


@inlined
def _aim(lists: np.ndarray, nodes: np.ndarray, p: int, older: int, node: int) -> None:
    """Sets the leap of a node that follows `older`. If the leap of `older` and the leap behind it have the same span,
    the new leap covers both, else it goes to `older`.
    """
    nodes[node].leap = older
    nodes[node].span = 1
    nodes[node].landing = nodes[older].time if older != NIL else NEVER
    if older == NIL or nodes[older].landing < nodes[lists[p].oldest].time:
        return
    next_ = nodes[older].leap
    if nodes[older].span == nodes[next_].span:
        nodes[node].leap = nodes[next_].leap
        nodes[node].landing = nodes[next_].landing
        nodes[node].span = 2 * nodes[older].span + 1


@inlined
def drop_oldest(lists: np.ndarray, nodes: np.ndarray, room: NodeAllocation, p: int) -> None:
    """Removes the oldest node from the list and frees it."""
    timeline_blocks.give(lists, nodes, room, p, take_oldest(lists, nodes, p))


@inlined
def take_oldest(lists: np.ndarray, nodes: np.ndarray, p: int) -> int:
    """Removes the oldest node from the list and returns it."""
    node = lists[p].oldest
    intrusive_list.unlink(lists, p, nodes, node)
    lists[p].size -= 1
    return node  # type: ignore[no-any-return]
