"""Allocates the nodes of timelines in blocks of 8. A long timeline has blocks of its own, so its neighbouring nodes are
near each other in memory; short timelines share blocks.

A block is free if none of its nodes is in use or reserved for the timeline that owns it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: a block has 2 ** SHIFT nodes; a timeline of LONG or more nodes has blocks of its own
SHIFT = 3
SIZE = 1 << SHIFT
LONG = 32
#: a table of at most so many nodes stays in the cache without prefetching
PREFETCH_THRESHOLD = 32_768
#: the scalars: FREE is the first node of the first free block, from which `younger` links to the next; TOP is the
#: number of nodes in all blocks; SHARED is the next node of the shared block
FREE, TOP, SHARED, SCALARS = range(4)


class NodeAllocation(NamedTuple):
    """The allocation state of a table of nodes."""

    #: the number of nodes in each block that are in use or reserved
    blocks: np.ndarray
    scalars: np.ndarray


def scalars() -> np.ndarray:
    """The scalars of a table without nodes."""
    numbers = np.zeros(SCALARS, np.int64)
    numbers[FREE] = NIL
    return numbers


def needed(top: int, more: int) -> int:
    """The number of nodes that a table may need for `more` new ones if it has `top`; each long timeline may begin a
    block.
    """
    return top + more + SIZE * (1 + (top + more) // LONG)


@inlined
def far(room: NodeAllocation) -> bool:
    """Whether the table of nodes is so large that prefetching pays."""
    return room.scalars[TOP] > PREFETCH_THRESHOLD  # type: ignore[no-any-return]


@inlined
def take(lists: np.ndarray, nodes: np.ndarray, room: NodeAllocation, p: int) -> int:
    """Returns an unused node for timeline `p`."""
    if lists[p].size < LONG:
        node = _next(nodes, room, room.scalars[SHARED])
        room.scalars[SHARED] = node + 1
    else:
        node = _next(nodes, room, lists[p].spare)
        lists[p].spare = node + 1
    return node


@inlined
def give(lists: np.ndarray, nodes: np.ndarray, room: NodeAllocation, p: int, node: int) -> None:
    """Frees a node of timeline `p`. If that was its last node, its reserved nodes are freed too."""
    _release(nodes, room, node >> SHIFT, 1)
    if not lists[p].size:
        _release(nodes, room, lists[p].spare >> SHIFT, -lists[p].spare & (SIZE - 1))
        lists[p].spare = 0


@inlined
def _next(nodes: np.ndarray, room: NodeAllocation, spare: int) -> int:
    """The node `spare`, or, at the start of a block, the first node of a free or new block."""
    if spare & (SIZE - 1):
        return spare
    first = room.scalars[FREE]
    if first == NIL:
        first = room.scalars[TOP]
        room.scalars[TOP] += SIZE
    else:
        room.scalars[FREE] = nodes[first].younger
    room.blocks[first >> SHIFT] = SIZE
    return first  # type: ignore[no-any-return]


@inlined
def _release(nodes: np.ndarray, room: NodeAllocation, block: int, count: int) -> None:
    if count:
        room.blocks[block] -= count
        if not room.blocks[block]:
            nodes[block << SHIFT].younger = room.scalars[FREE]
            room.scalars[FREE] = block << SHIFT
