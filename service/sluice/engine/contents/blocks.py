"""Tuples side by side: blocks of some that follow each other in a cell, so that who goes from one to the next finds it
near, and what is kept beside a tuple is shared by its block.

That is for cells which only the oldest tuple ever leaves, and of which nobody asks for one by its slot: a tuple is
copied into the block of the youngest, or into a new one. It is known by its place: its block's first place and how many
are before it there. Everywhere else a tuple stays in its slot, which is a block of one tuple and the place as well.

A block that is left is free for the next batch: who asks later in this one finds it as it was.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: how many of the free blocks were taken, how many parts of `spread` were ever in use, and how many of these are idle
TAKEN, PARTS, IDLE, COUNTS = range(4)


class Blocks(NamedTuple):
    """What there is to pack into."""

    #: whether tuples are packed, 2 ** `shift` in a block
    wanted: bool
    shift: int
    #: of each block the next place behind it in its cell, and the one before
    links: np.ndarray
    #: the words of the batch's tuples by slot, and the blocks that are free
    words: np.ndarray
    free: np.ndarray
    #: parts of `spread` that are idle, and how much of all that is in use by now
    idle: np.ndarray
    used: np.ndarray


@inlined
def append_to_block(k: Blocks, cells: np.ndarray, cell: int, slot: int, rows: np.ndarray) -> int:
    """Copies the tuple in this slot to the rows, behind the youngest of its cell; gives its place.

    An empty cell begins with a new block, so that what it has been through makes no difference to its sums.
    """
    youngest = cells[cell].youngest
    place = youngest + 1
    if youngest == NIL or youngest == last_of_block(k, youngest):
        block = k.free[k.used[TAKEN]]
        k.used[TAKEN] += 1
        place = block << k.shift
        k.links[block].older = youngest
        k.links[block].younger = NIL
        if youngest != NIL:
            k.links[youngest >> k.shift].younger = place
    for column in range(k.words.shape[1]):
        rows[place, column] = k.words[slot, column]
    return place  # type: ignore[no-any-return]


@inlined
def pop_oldest(k: Blocks, cells: np.ndarray, cell: int) -> int:
    """The oldest tuple leaves; gives its block if it was the last there, else NOBODY."""
    oldest = cells[cell].oldest
    following = NIL if oldest == cells[cell].youngest else younger(k, oldest)
    cells[cell].oldest = following
    return oldest >> k.shift if following >> k.shift != oldest >> k.shift else NIL


@inlined
def last_of_block(k: Blocks, place: int) -> int:
    return place | ((1 << k.shift) - 1)


@inlined
def younger(k: Blocks, place: int) -> int:
    """The next place in the cell. Behind the youngest it is NOBODY only where that is the last of its block."""
    return k.links[place >> k.shift].younger if place == last_of_block(k, place) else place + 1


@inlined
def take_part(k: Blocks) -> int:
    """A part of `spread` that nobody uses."""
    if k.used[IDLE]:
        k.used[IDLE] -= 1
        return k.idle[k.used[IDLE]]  # type: ignore[no-any-return]
    k.used[PARTS] += 1
    return k.used[PARTS] - 1  # type: ignore[no-any-return]


@inlined
def give_part(k: Blocks, part: int) -> None:
    """Nobody uses it any more; NOBODY is no part."""
    if part != NIL:
        k.idle[k.used[IDLE]] = part
        k.used[IDLE] += 1
