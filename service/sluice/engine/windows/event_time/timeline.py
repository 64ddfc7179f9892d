"""The times at which something is, in order: a list from the oldest to the youngest, for each partition or cell.

A time is looked for from the youngest back: O(1) where event time goes forward, else O(log n) for n later times. For
this each node has a leap to an older one, as far back as in a skew-binary number (Myers, "An applicative random-access
stack", 1983). Times that come between others make leaps longer, those that are dropped make some void.
"""

from __future__ import annotations

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.event_time import timeline_blocks
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.engine.windows.event_time.timeline_blocks import Room


@inlined
def not_after(lists: np.ndarray, nodes: np.ndarray, p: int, time: int) -> int:
    """The youngest node of a list that is not later than `time`."""
    node = lists[p].youngest
    if node == NIL or nodes[node].time <= time:
        return node  # type: ignore[no-any-return]
    oldest = nodes[lists[p].oldest].time
    while node != NIL and nodes[node].time > time:
        landing = nodes[node].landing
        node = nodes[node].leap if landing > time and landing >= oldest else nodes[node].older
    return node  # type: ignore[no-any-return]


@inlined
def add(lists: np.ndarray, nodes: np.ndarray, room: Room, p: int, older: int, time: int) -> int:
    """A new node behind `older`, later than all that were dropped."""
    node = timeline_blocks.take(lists, nodes, room, p)
    _aim(lists, nodes, p, older, node)
    place(lists, nodes, p, older, node, time)
    return node


@inlined
def place(lists: np.ndarray, nodes: np.ndarray, p: int, older: int, node: int, time: int) -> None:
    """A node, which has no leap by that, behind `older`."""
    nodes[node].time = time
    intrusive_list.insert(lists, p, nodes, older, node)
    lists[p].size += 1


@inlined
def _aim(lists: np.ndarray, nodes: np.ndarray, p: int, older: int, node: int) -> None:
    """Gives a node its leap: that of the next older one's twice, if both are equally long, else to that one."""
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
def drop_oldest(lists: np.ndarray, nodes: np.ndarray, room: Room, p: int) -> None:
    """Its node is free."""
    timeline_blocks.give(lists, nodes, room, p, take_oldest(lists, nodes, p))


@inlined
def take_oldest(lists: np.ndarray, nodes: np.ndarray, p: int) -> int:
    """Out of the list; gives its node."""
    node = lists[p].oldest
    intrusive_list.unlink(lists, p, nodes, node)
    lists[p].size -= 1
    return node  # type: ignore[no-any-return]
