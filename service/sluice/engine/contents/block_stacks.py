"""The contents of sliding windows whose tuples are copied into blocks: two stacks per group (two_stacks.py).

Used where only the oldest tuple of a partition leaves, no `group_by` divides the partition, and no code refers to a
tuple by its slot (blocks.py). So the partition is the group.

If some tuples of a group's oldest block were evicted, each tuple that is left in this block has a summary of its own in
`spread`: of itself and all younger tuples of the front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents import blocks, multisets
from sluice.engine.contents.blocks import Blocks, last_of_block
from sluice.engine.contents.combine_plan import SUFFIX_SCAN, Summaries, append_step, plan_fits
from sluice.engine.contents.firing_results import TUPLES, Results, room
from sluice.engine.contents.groups import free, start, write_row
from sluice.engine.contents.summaries import Layout
from sluice.engine.contents.two_stacks import add_to_back, build_front, plan_output, steps_to_evict, write_edges
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT


class BlockStacks(NamedTuple):
    """The tables and settings of the kernel."""

    sums: Summaries
    #: summaries that are read from the oldest or the youngest tuple when the window fires, and are not kept
    edges: Layout
    #: the record of each partition (groups.py)
    groups: np.ndarray
    #: whether the results list the tuples
    listing: bool
    counted: multisets.Multisets
    blocks: Blocks


@kernel
def run(c: BlockStacks, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room."""
    for k in range(start, len(events)):
        _look_ahead(c, events, k + AHEAD)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            if not plan_fits(c.sums, 1):
                return k
            _insert(c, p, events[k].slot)
        elif code == EVICT:
            if not plan_fits(c.sums, steps_to_evict(c.sums, c.groups, p)):
                return k
            _evict(c, p, results)
        elif code == CLEAR:
            _clear(c, p, results)
        elif code == FIRE:
            if not _room(c, p, results):
                return k
            _fire(c, p, events[k].slot, results)
    return len(events)


@inlined
def _look_ahead(c: BlockStacks, events: np.ndarray, k: int) -> None:
    """Prefetches the tuples and links that event `k` needs, and the record that event `k` + AHEAD needs."""
    if k < len(events):
        p = events[k].partition
        if events[k].code == INSERT and c.groups[p].size:
            prefetch(c.sums.rows, c.groups[p].youngest)
            prefetch(c.sums.rows, c.groups[p].oldest)
            prefetch(c.blocks.links, c.groups[p].oldest >> c.blocks.shift)
        if k + AHEAD < len(events):
            prefetch(c.groups, events[k + AHEAD].partition)


@inlined
def _insert(c: BlockStacks, p: int, slot: int) -> None:
    if not c.groups[p].size:
        start(c.groups, p)
    place = blocks.append_to_block(c.blocks, c.groups, p, slot, c.sums.rows)
    multisets.count(c.counted, c.sums.rows, place, p, 1)
    add_to_back(c.sums, c.groups, p, place)
    intrusive_list.push_linked(c.groups, p, place)
    c.groups[p].size += 1


@inlined
def _evict(c: BlockStacks, p: int, results: Results) -> None:
    """Removes the oldest tuple."""
    multisets.count(c.counted, c.sums.rows, c.groups[p].oldest, p, -1)
    turning = not c.groups[p].front
    if turning:
        build_front(c.sums, c.groups, p, c.blocks.links)
    c.groups[p].front -= 1
    _leave(c, p, turning, results)
    c.groups[p].size -= 1


@inlined
def _leave(c: BlockStacks, p: int, turning: bool, results: Results) -> None:  # noqa: FBT001
    """Removes the oldest tuple from its block. `turning`: the back has just become the front.

    The remaining tuples of the block get summaries of their own if this was the first tuple to leave the block, or if
    the back became the front after the block had lost tuples.
    """
    group, k = c.groups[p], c.blocks
    block = blocks.pop_oldest(k, c.groups, p)
    if block != NIL:
        free(results, block)
    if group.oldest == NIL:  # steps run in order: the part is overwritten after the earlier steps have read it
        blocks.give_part(k, group.spread)
        return
    before = group.oldest - (group.oldest >> k.shift << k.shift)
    if group.front and (before == 1 or (turning and before)):
        if group.spread == NIL:
            group.spread = blocks.take_part(k)
        last = group.oldest + group.front - 1
        behind = k.links[group.oldest >> k.shift].younger >> k.shift if last > last_of_block(k, group.oldest) else ~last
        append_step(c.sums, SUFFIX_SCAN, group.spread, group.oldest, behind)


@inlined
def _clear(c: BlockStacks, p: int, results: Results) -> None:
    if not c.groups[p].size:
        return
    place = c.groups[p].oldest
    while place != NIL:
        free(results, place >> c.blocks.shift)
        place = c.blocks.links[place >> c.blocks.shift].younger
    blocks.give_part(c.blocks, c.groups[p].spread)
    c.groups[p].size = 0
    multisets.clear(c.counted, p)


@inlined
def _room(c: BlockStacks, p: int, results: Results) -> bool:
    size = c.groups[p].size
    if not size:
        return True
    return plan_fits(c.sums, 1) and room(results, 1, size if c.listing else 0, multisets.listed(c.counted, p))


@inlined
def _fire(c: BlockStacks, p: int, firing: int, results: Results) -> None:
    """Writes a result row, unless the partition is empty (A4)."""
    if not c.groups[p].size:
        return
    row = write_row(c.groups, c.counted, p, firing, results)
    plan_output(c.sums, c.groups, p, row)
    write_edges(c.edges, c.sums.rows, c.groups, p, results.summary, row)
    if c.listing:
        _list(c, p, results)


@inlined
def _list(c: BlockStacks, p: int, results: Results) -> None:
    """Lists the places of the partition's tuples, oldest first."""
    k = results.used[TUPLES]
    place = c.groups[p].oldest
    for _ in range(c.groups[p].size):
        results.tuples[k] = place
        k += 1
        place = blocks.younger(c.blocks, place)
    results.used[TUPLES] = k
