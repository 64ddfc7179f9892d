"""Blocks of tuples: 8 to 32 consecutive tuples of a group are stored in one block of contiguous memory.

Iteration over a group then stays in the CPU cache, and links and summaries are kept once per block instead of once per
tuple. The place of a tuple is the number of its block * 2 ** shift + its position in the block:

    block 7: [ 56 57 58 ... 63 ] --younger--> block 2: [ 16 17 18 - - - - - ]     (shift = 3, `-` is a free position)
                     ^ oldest                                   ^ youngest

Blocks are used for groups from which only the oldest tuple is ever evicted, if no code refers to a tuple by its slot. A
new tuple is copied behind the youngest one, or into a new block. In all other groups a tuple stays in its slot: a slot
is a block of one tuple, and its number is also the tuple's place.

A block whose tuples have all left is reused from the next batch on. Until the end of the batch its content can be read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined

#: the counters of `Blocks.used`: free blocks taken, parts of `spread` ever used, and parts of these that are idle now
TAKEN, PARTS, IDLE, COUNTS = range(4)


class Blocks(NamedTuple):
    """The blocks of an operator, as kernels read and write them."""

    #: a block has 2 ** `shift` tuples
    shift: int
    #: for each block, the first place of the next younger block of its group, and the last place of the next older one
    links: np.ndarray
    #: the words of the batch's tuples, by slot; and the numbers of free blocks
    words: np.ndarray
    free: np.ndarray
    #: the idle parts of `spread` as a stack; and the counters TAKEN, PARTS and IDLE
    idle: np.ndarray
    used: np.ndarray


@inlined
def append_to_block(k: Blocks, groups: np.ndarray, group: int, slot: int, rows: np.ndarray) -> int:
    """Copies the tuple in `slot` to `rows`, behind the youngest tuple of its group. Returns its place.

    An empty group starts with a new block. Its sums are then rounded in the same way, whatever the group held before.
    """
    youngest = groups[group].youngest
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
def pop_oldest(k: Blocks, groups: np.ndarray, group: int) -> int:
    """Removes the oldest tuple. Returns its block if the group has no more tuples in the block, otherwise NIL."""
    oldest = groups[group].oldest
    following = NIL if oldest == groups[group].youngest else younger(k, oldest)
    groups[group].oldest = following
    return oldest >> k.shift if following >> k.shift != oldest >> k.shift else NIL


@inlined
def last_of_block(k: Blocks, place: int) -> int:
    return place | ((1 << k.shift) - 1)


@inlined
def younger(k: Blocks, place: int) -> int:
    """The place of the next younger tuple. Behind the youngest tuple: NIL at the end of a block, else a free place."""
    return k.links[place >> k.shift].younger if place == last_of_block(k, place) else place + 1


@inlined
def take_part(k: Blocks) -> int:
    """Allocates a part of `spread` (room for the summaries of one block's tuples)."""
    if k.used[IDLE]:
        k.used[IDLE] -= 1
        return k.idle[k.used[IDLE]]  # type: ignore[no-any-return]
    k.used[PARTS] += 1
    return k.used[PARTS] - 1  # type: ignore[no-any-return]


@inlined
def give_part(k: Blocks, part: int) -> None:
    """Releases a part of `spread`. NIL has no effect."""
    if part != NIL:
        k.idle[k.used[IDLE]] = part
        k.used[IDLE] += 1
