"""Lists in order of time, with removal at any place: the sessions of a key, and the contents of a group.

A search starts at the youngest member. It takes one step if time goes forward, otherwise O(log n) steps for n younger
members. Each member has a leap to an older one, whose distance follows skew-binary numbers (timeline.py names the
source). Because members are also removed from the middle, a leap may point to a record that is free or in another list.
So a search follows a leap only if the record is in this list and its time is between the searched time and the time of
the present member.
"""

from __future__ import annotations

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined


@inlined
def not_after(lists: np.ndarray, nodes: np.ndarray, p: int, time: int) -> int:
    """The youngest member of list `p` that is not later than `time`; NIL if all are later."""
    node = lists[p].youngest
    while node != NIL and nodes[node].time > time:
        leap = nodes[node].leap
        node = leap if _is_between(nodes, p, leap, time, nodes[node].time) else nodes[node].older
    return node  # type: ignore[no-any-return]


@inlined
def _is_between(nodes: np.ndarray, p: int, node: int, after: int, before: int) -> bool:
    return node != NIL and nodes[node].owner == p and after < nodes[node].time < before


@inlined
def younger_of(lists: np.ndarray, nodes: np.ndarray, p: int, node: int) -> int:
    """The next younger member. If `node` is NIL: the oldest member."""
    return lists[p].oldest if node == NIL else nodes[node].younger  # type: ignore[no-any-return]


@inlined
def enter(lists: np.ndarray, nodes: np.ndarray, p: int, older: int, node: int, time: int) -> None:
    """Inserts `node` after the member `older`, or first if `older` is NIL. No other member has this time."""
    nodes[node].time = time
    nodes[node].owner = p
    _aim(nodes, p, older, node)
    intrusive_list.insert(lists, p, nodes, older, node)
    lists[p].size += 1


@inlined
def _aim(nodes: np.ndarray, p: int, older: int, node: int) -> None:
    """Sets the leap: over the next two leaps if both are equally long, otherwise to the next older member."""
    nodes[node].leap = older
    nodes[node].span = 1
    if older == NIL:
        return
    next_ = nodes[older].leap
    if next_ != NIL and nodes[next_].owner == p and nodes[older].span == nodes[next_].span:
        nodes[node].leap = nodes[next_].leap
        nodes[node].span = 2 * nodes[older].span + 1


@inlined
def take(lists: np.ndarray, nodes: np.ndarray, p: int, node: int) -> None:
    """Removes the member from the list."""
    intrusive_list.unlink(lists, p, nodes, node)
    lists[p].size -= 1
    nodes[node].owner = NIL


@inlined
def allocate(scalars: np.ndarray, nodes: np.ndarray, free: int, used: int) -> int:
    """A node that is in no list: the first of the chain of free ones, or the next that was never used.

    `free` and `used` are the places in `scalars` of the first free node and of the number of nodes ever used.
    """
    node = scalars[free]
    if node == NIL:
        node = scalars[used]
        scalars[used] += 1
    else:
        scalars[free] = nodes[node].younger
    return node  # type: ignore[no-any-return]


@inlined
def release(scalars: np.ndarray, lists: np.ndarray, nodes: np.ndarray, free: int, p: int, node: int) -> None:
    """Removes the member from list `p` and adds it to the chain of free nodes."""
    take(lists, nodes, p, node)
    nodes[node].younger = scalars[free]
    scalars[free] = node
