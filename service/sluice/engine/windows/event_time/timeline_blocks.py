"""Where the nodes of timelines stand: those of a long one in blocks of its own, so that who goes along it finds some
side by side; the short ones share theirs.

A block is free again when none of its nodes is in use, or kept for the timeline that has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: a block has 2 ** SHIFT nodes; a timeline with LONG of them has blocks of its own
SHIFT = 3
SIZE = 1 << SHIFT
LONG = 32
#: nodes that are near anyway
NEAR = 32_768
#: the scalars: the first node of the first free block, which begins a chain of them; the nodes of all blocks; the next
#: node of the block that is shared
FREE, TOP, SHARED, SCALARS = range(4)


class Room(NamedTuple):
    """What is known of a table of nodes."""

    #: how many nodes of each block are in use, or kept
    blocks: np.ndarray
    scalars: np.ndarray


def scalars() -> np.ndarray:
    """Those of a table without nodes."""
    made = np.zeros(SCALARS, np.int64)
    made[FREE] = NIL
    return made


def needed(top: int, more: int) -> int:
    """Nodes that so many more may need where `top` are in use: each long timeline may begin a block."""
    return top + more + SIZE * (1 + (top + more) // LONG)


@inlined
def far(room: Room) -> bool:
    """Whether the nodes of all timelines are too many to be near."""
    return room.scalars[TOP] > NEAR  # type: ignore[no-any-return]


@inlined
def take(lists: np.ndarray, nodes: np.ndarray, room: Room, p: int) -> int:
    """A node for timeline `p`."""
    if lists[p].size < LONG:
        node = _next(nodes, room, room.scalars[SHARED])
        room.scalars[SHARED] = node + 1
    else:
        node = _next(nodes, room, lists[p].spare)
        lists[p].spare = node + 1
    return node


@inlined
def give(lists: np.ndarray, nodes: np.ndarray, room: Room, p: int, node: int) -> None:
    """Timeline `p` has it no more; without any node it keeps none."""
    _release(nodes, room, node >> SHIFT, 1)
    if not lists[p].size:
        _release(nodes, room, lists[p].spare >> SHIFT, -lists[p].spare & (SIZE - 1))
        lists[p].spare = 0


@inlined
def _next(nodes: np.ndarray, room: Room, spare: int) -> int:
    """The spare node, or where its block is used up, as none is at the beginning, the first of a free one."""
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
def _release(nodes: np.ndarray, room: Room, block: int, count: int) -> None:
    if count:
        room.blocks[block] -= count
        if not room.blocks[block]:
            nodes[block << SHIFT].younger = room.scalars[FREE]
            room.scalars[FREE] = block << SHIFT
