"""The kernel that maintains the contents of windows and their summaries, at a constant cost per window event.

It reads the window events that windows/processing_time/ wrote (insert, evict, clear, fire). `group_by` divides a window
partition into groups; without `group_by` the partition is one group. A group keeps its summary as two stacks:

    oldest                                                youngest
    [ block A | block B | block C ]  [ tuple  tuple  tuple  tuple ]      summary of the group = summary of block A
      A + B + C  B + C     C           one summary for all of these                           + summary of the back
      front: a summary per block       back

The summary of a block covers the block and all younger blocks of the front. Evicting the oldest tuple needs no
subtraction, so sums do not drift and a NaN that left has no effect. When the front is empty, the whole back becomes the
front. This handles each tuple once, so the cost per tuple is O(1) amortised.

If a tuple that is not the oldest is evicted, the group becomes a heap (pairing_heap.py) until the group is empty. The
tuple to be evicted next is the root, each node has the summary of itself and all nodes below it, and an event costs
O(log n). These summaries combine in any order, because they carry sequence numbers (see summaries.py).

A block has one tuple or several (blocks.py). If it has several, and some tuples of a group's oldest block were evicted,
each tuple that is left in this block has a summary of its own in `spread`: of itself and all younger tuples of the
front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list, pairing_heap
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents import blocks, multisets
from sluice.engine.contents.blocks import Blocks, last_of_block
from sluice.engine.contents.combine_plan import (
    ADD,
    BEGIN,
    FOLD,
    MERGE,
    OUTPUT,
    OUTPUT_SUFFIX,
    SUFFIX_SCAN,
    Summaries,
    append_step,
    execute,
)
from sluice.engine.contents.firing_results import FREED, PAIRS, ROWS, TUPLES, Results, room
from sluice.engine.contents.summaries import OLDEST, Layout
from sluice.engine.windows.policies import Policy
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT, LOSE

#: the record of a group
GROUP_RECORD = np.dtype([
    ("size", np.int64),
    # the number of tuples in the front
    ("front", np.int64),
    # the places of its oldest and youngest tuple
    ("oldest", np.int32),
    ("youngest", np.int32),
    # the neighbours in the list of the partition's groups that hold tuples
    ("younger", np.int32),
    ("older", np.int32),
    # the root of its heap; NIL while the group is kept as two stacks
    ("root", np.int32),
    # the part of `spread` with the summaries of its oldest block; NIL if it has none
    ("spread", np.int32),
])  # fmt: skip

#: the list of a partition's groups that hold tuples; used only with `group_by`
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class Contents(NamedTuple):
    """The tables and settings of the kernel."""

    sums: Summaries
    #: summaries that are read from the oldest or the youngest tuple when a sliding window fires, and are not kept
    edges: Layout
    groups: np.ndarray
    #: whether there is a `group_by`, so that a partition may have several groups
    grouped: bool
    #: the group of each tuple; empty without `group_by`
    group_of: np.ndarray
    #: the neighbours of each block in its group
    links: np.ndarray
    #: the nodes of heaps, and the sort key of the heaps
    nodes: np.ndarray
    by: Policy
    ends: np.ndarray
    #: whether the window is sliding (tuples leave one by one), and whether the results list the tuples
    sliding: bool
    listing: bool
    #: whether this kernel writes `links`. If not, `links` are those of the window, whose partition is the group. The
    #: window kernel is ahead: it has handled later events already. The links between tuples that a group holds here are
    #: still intact, because the window only appends tuples and removes them with `intrusive_list.leave`
    linking: bool
    counted: multisets.Multisets
    packing: Blocks


@kernel
def run(c: Contents, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room for results."""
    for k in range(start, len(events)):
        _look_ahead(c, events, k + AHEAD)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            _insert(c, p, events[k].slot, results.summary)
        elif code == EVICT:
            _evict(c, p, events[k].slot, results)
        elif code == LOSE:
            _free(results, events[k].slot)
        elif code == CLEAR:
            _clear(c, p, results)
        elif code == FIRE:
            if not _room(c, p, results):
                execute(c.sums, results.summary)
                return k
            _fire(c, p, events[k].slot, results)
    execute(c.sums, results.summary)
    return len(events)


@inlined
def _look_ahead(c: Contents, events: np.ndarray, k: int) -> None:
    """Prefetches records of later events.

    It uses the partition number as the group number, which is right without `group_by`.
    """
    if k < len(events):
        code, p = events[k].code, events[k].partition
        if c.packing.wanted:
            if code == INSERT and c.groups[p].size:
                prefetch(c.sums.rows, c.groups[p].youngest)
                prefetch(c.sums.rows, c.groups[p].oldest)
                prefetch(c.links, c.groups[p].oldest >> c.packing.shift)
            if k + AHEAD < len(events):
                prefetch(c.groups, events[k + AHEAD].partition)
        elif code == EVICT:
            prefetch(c.links, events[k].slot)
        elif code == INSERT:
            prefetch(c.groups, p)


@inlined
def _group_of(c: Contents, p: int, slot: int) -> int:
    return c.group_of[slot] if c.grouped else p


@inlined
def _first(c: Contents, p: int) -> int:
    """The first group of the partition that holds tuples, NIL if there is none."""
    if c.grouped:
        return c.ends[p].oldest  # type: ignore[no-any-return]
    return p if c.groups[p].size else NIL


@inlined
def _next(c: Contents, group: int) -> int:
    return c.groups[group].younger if c.grouped else NIL


@inlined
def _insert(c: Contents, p: int, slot: int, outputs: np.ndarray) -> None:
    groups = c.groups
    group = _group_of(c, p, slot)
    if not groups[group].size:
        _remember(c, p, group)
    place = blocks.append_to_block(c.packing, groups, group, slot, c.sums.rows) if c.packing.wanted else slot
    multisets.count(c.counted, c.sums.rows, place, group, 1)
    if groups[group].root != NIL:
        _grow(c, group, slot, outputs)
    else:
        append_step(c.sums, outputs, BEGIN if groups[group].size == groups[group].front else ADD, group, NIL, place)
    if c.packing.wanted:
        intrusive_list.push_linked(groups, group, place)
    elif c.linking:
        intrusive_list.append(groups, group, c.links, slot)
    elif c.sliding:
        intrusive_list.push_linked(groups, group, slot)
    groups[group].size += 1


@inlined
def _evict(c: Contents, p: int, slot: int, results: Results) -> None:
    groups = c.groups
    group = _group_of(c, p, slot)
    place = groups[group].oldest if c.packing.wanted else slot
    multisets.count(c.counted, c.sums.rows, place, group, -1)
    if groups[group].root == NIL and place != groups[group].oldest:
        _make_heap(c, group, results.summary)
    # A heap loses its root, which may be another tuple than `slot`: the events of tuples that leave together are in the
    # order of arrival. After the last of these events the heap has lost the same tuples as the window.
    if groups[group].root != NIL:
        groups[group].root = pairing_heap.remove_root(
            c.nodes, c.sums.rows, c.by, groups[group].root, _melded, c.sums, results.summary
        )
    else:
        turning = not groups[group].front
        if turning:
            _build_front(c, group, results.summary)
        groups[group].front -= 1
        if c.packing.wanted:
            _leave(c, group, turning, results)
    if not c.packing.wanted:
        intrusive_list.pop_keep_links(groups, group, c.links, slot)
        _free(results, slot)
    groups[group].size -= 1
    if c.grouped and not groups[group].size:
        intrusive_list.unlink(c.ends, p, groups, group)


@inlined
def _leave(c: Contents, group: int, turning: bool, results: Results) -> None:  # noqa: FBT001
    """Removes the oldest tuple from its block. `turning`: the back has just become the front.

    The remaining tuples of the block get summaries of their own if this was the first tuple to leave the block, or if
    the back became the front after the block had lost tuples.
    """
    one, k = c.groups[group], c.packing
    block = blocks.pop_oldest(k, c.groups, group)
    if block != NIL:
        _free(results, block)
    if one.oldest == NIL:  # steps run in order: the part is overwritten after the earlier steps have read it
        blocks.give_part(k, one.spread)
        return
    before = one.oldest - (one.oldest >> k.shift << k.shift)
    if one.front and (before == 1 or (turning and before)):
        if one.spread == NIL:
            one.spread = blocks.take_part(k)
        last = one.oldest + one.front - 1
        behind = c.links[one.oldest >> k.shift].younger >> k.shift if last > last_of_block(k, one.oldest) else ~last
        append_step(c.sums, results.summary, SUFFIX_SCAN, one.spread, one.oldest, behind)


@inlined
def _build_front(c: Contents, group: int, outputs: np.ndarray) -> None:
    """Makes the whole group the front: plans a summary for each block, from the youngest block back to the oldest.

    The summary of a block is combined with that of the next younger block, so nothing is ever subtracted (A23).
    Following links means one cache miss per block. So `ahead` runs in the other direction, from the oldest block, and
    prefetches the second half. A block that has lost tuples already gets no summary, because only those of its
    remaining tuples are read.
    """
    shift, place, oldest = c.packing.shift, c.groups[group].youngest, c.groups[group].oldest
    block, younger, ahead = place >> shift, NIL, oldest >> shift
    while block != oldest >> shift:
        append_step(c.sums, outputs, FOLD, block, place, younger)
        younger, place = block, c.links[block].older
        block = place >> shift
        ahead = c.links[ahead].younger >> shift
        prefetch(c.links, ahead)
    if oldest == block << shift:
        append_step(c.sums, outputs, FOLD, block, place, younger)
    c.groups[group].front = c.groups[group].size


@inlined
def _make_heap(c: Contents, group: int, outputs: np.ndarray) -> None:
    """Makes a heap of all tuples of the group."""
    slot = c.groups[group].oldest
    while slot != NIL:
        _grow(c, group, slot, outputs)
        slot = c.links[slot].younger


@inlined
def _grow(c: Contents, group: int, slot: int, outputs: np.ndarray) -> None:
    append_step(c.sums, outputs, FOLD, slot, slot, NIL)
    c.groups[group].root = pairing_heap.add(
        c.nodes, c.sums.rows, c.by, c.groups[group].root, slot, _melded, c.sums, outputs
    )


@inlined
def _melded(top: int, below: int, s: Summaries, outputs: np.ndarray) -> None:
    append_step(s, outputs, MERGE, top, NIL, below)


@inlined
def _clear(c: Contents, p: int, results: Results) -> None:
    group = _first(c, p)
    while group != NIL:
        following = _next(c, group)
        place = c.groups[group].oldest
        while (c.packing.wanted or (not c.sliding and c.listing)) and place != NIL:
            _free(results, place >> c.packing.shift)
            place = c.links[place >> c.packing.shift].younger
        if c.packing.wanted:
            blocks.give_part(c.packing, c.groups[group].spread)
        c.groups[group].size = 0
        multisets.clear(c.counted, group)
        group = following
    if c.grouped:
        intrusive_list.make_empty(c.ends, p)


@inlined
def _free(results: Results, slot: int) -> None:
    results.freed[results.used[FREED]] = slot
    results.used[FREED] += 1


@inlined
def _room(c: Contents, p: int, results: Results) -> bool:
    rows, tuples, pairs = 0, 0, 0
    group = _first(c, p)
    while group != NIL:
        rows += 1
        tuples += c.groups[group].size if c.listing else 0
        pairs += multisets.listed(c.counted, group)
        group = _next(c, group)
    return room(results, rows, tuples, pairs)


@inlined
def _fire(c: Contents, p: int, firing: int, results: Results) -> None:
    """Writes a result row for each group that holds tuples. An empty partition has no result row (A4)."""
    group = _first(c, p)
    while group != NIL:
        row = results.used[ROWS]
        results.used[ROWS] = row + 1
        results.firing[row] = firing
        results.size[row] = c.groups[group].size
        _summarise(c, group, results.summary, row)
        results.used[PAIRS] = multisets.write_counts(
            c.counted, group, row, results.counts, results.pairs, results.used[PAIRS]
        )
        if c.listing:
            _list(c, group, results)
        group = _next(c, group)


@inlined
def _summarise(c: Contents, group: int, into: np.ndarray, row: int) -> None:
    one = c.groups[group]
    if one.root != NIL:
        append_step(c.sums, into, OUTPUT, row, one.root, NIL)
    else:
        _output_stacks(c, group, into, row)
    for a in range(len(c.edges)):
        edge = c.edges[a]
        into[row, edge.word] = c.sums.rows[one.oldest if edge.code == OLDEST else one.youngest, edge.value]


@inlined
def _output_stacks(c: Contents, group: int, into: np.ndarray, row: int) -> None:
    one, shift = c.groups[group], c.packing.shift
    back = group if one.front < one.size else NIL
    block = one.oldest >> shift
    if not one.front:
        append_step(c.sums, into, OUTPUT, row, NIL, back)
    elif one.oldest == block << shift:
        append_step(c.sums, into, OUTPUT, row, block, back)
    else:
        append_step(c.sums, into, OUTPUT_SUFFIX, row, (one.spread - block << shift) + one.oldest, back)


@inlined
def _list(c: Contents, group: int, results: Results) -> None:
    k = results.used[TUPLES]
    place = c.groups[group].oldest
    for _ in range(c.groups[group].size):
        results.tuples[k] = place
        k += 1
        place = blocks.younger(c.packing, place)
    results.used[TUPLES] = k


@inlined
def _remember(c: Contents, p: int, group: int) -> None:
    """Initialises a group that gets its first tuple, and appends it to the groups of its partition (A8)."""
    groups = c.groups
    groups[group].front = 0
    groups[group].root = NIL
    groups[group].spread = NIL
    intrusive_list.make_empty(groups, group)
    if c.grouped:
        intrusive_list.append(c.ends, p, groups, group)
