"""The contents of sliding windows whose tuples stay in their slots, rows of the state's tables: two stacks or a heap.

A group is kept as two stacks of partial summaries (two_stacks.py) while only its oldest tuple leaves, so an eviction
does not compute the summary of the window again. If another tuple is evicted, as by a delta, the group becomes a heap
(pairing_heap.py) until the group is empty. The tuple to be evicted next is the root, each node has the summary of
itself and all nodes below it, and an event costs O(log n). These summaries combine in any order, because they carry
sequence numbers (see summaries.py).

Used with `group_by`, for small count windows whose tuples are listed, for eviction by delta, and where eviction events
must name the slot of a tuple. In the other windows from which only the oldest tuple leaves, tuples are in rings
(ring.py) or in blocks (block_stacks.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list, pairing_heap
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD
from sluice.engine.contents import groups, multisets
from sluice.engine.contents.combine_plan import FOLD, MERGE, OUTPUT, Summaries, append_step, plan_fits
from sluice.engine.contents.firing_results import Results
from sluice.engine.contents.groups import Groups
from sluice.engine.contents.summaries import Layout
from sluice.engine.contents.two_stacks import add_to_back, plan_output, steps_to_evict, take_from_front, write_edges
from sluice.engine.windows.policies import KernelPolicy
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT, LOSE

#: the most steps of an insertion: the summary of the node, and one that merges it with the root
STEPS_TO_INSERT = 2


class SlotContents(NamedTuple):
    """The tables and settings of the kernel."""

    sums: Summaries
    #: summaries that are read from the oldest or the youngest tuple when the window fires, and are not kept
    edges: Layout
    groups: Groups
    #: the neighbours of each tuple in its group
    links: np.ndarray
    #: whether these are the links of the window, whose partition is the group. The window kernel is ahead: it has
    #: handled later events already. The links between tuples that a group holds here are still intact, because the
    #: window only appends tuples and removes them with `intrusive_list.pop_keep_links`
    linked: bool
    #: the nodes of heaps, and the sort key of the heaps; used only if another tuple than the oldest one leaves
    nodes: np.ndarray
    by: KernelPolicy
    listing: bool
    counted: multisets.Multisets


@kernel
def run(c: SlotContents, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room."""
    for k in range(start, len(events)):
        groups.look_ahead(c, events, k + AHEAD)
        code, p, slot = events[k].code, events[k].partition, events[k].slot
        if code == INSERT:
            if not plan_fits(c.sums, STEPS_TO_INSERT):
                return k
            _insert(c, p, slot)
        elif code == EVICT:
            group = groups.group_of(c.groups, p, slot)
            if not plan_fits(c.sums, _steps_to_evict(c, group, slot)):
                return k
            _evict(c, p, group, slot, results)
        elif code == LOSE:
            groups.free(results, slot)
        elif code == CLEAR:
            _clear(c, p)
        elif code == FIRE:
            if not _room(c, p, results):
                return k
            _fire(c, p, slot, results)
    return len(events)


@inlined
def _insert(c: SlotContents, p: int, slot: int) -> None:
    records = c.groups.records
    group = groups.group_of(c.groups, p, slot)
    if not records[group].size:
        groups.remember(c.groups, p, group)
    multisets.count(c.counted, c.sums.rows, slot, group, 1)
    if records[group].root != NIL:
        _grow(c, group, slot)
    else:
        add_to_back(c.sums, records, group, slot)
    if c.linked:
        intrusive_list.push_linked(records, group, slot)
    else:
        intrusive_list.append(records, group, c.links, slot)
    records[group].size += 1


@inlined
def _steps_to_evict(c: SlotContents, group: int, slot: int) -> int:
    """The most steps that the eviction plans.

    A new heap takes a summary and a merge for each tuple. Removing a root takes a merge for each of its children.
    """
    records = c.groups.records
    if records[group].root != NIL:
        return records[group].size  # type: ignore[no-any-return]
    if slot != records[group].oldest:
        return 3 * records[group].size  # type: ignore[no-any-return]
    return steps_to_evict(c.sums, records, group)


@inlined
def _evict(c: SlotContents, p: int, group: int, slot: int, results: Results) -> None:
    """Removes a tuple.

    A heap loses its root, which may be another tuple than `slot`: the events of tuples that leave together are in the
    order of arrival. After the last of these events the heap has lost the same tuples as the window.
    """
    records = c.groups.records
    multisets.count(c.counted, c.sums.rows, slot, group, -1)
    if records[group].root == NIL and slot != records[group].oldest:
        _make_heap(c, group)
    if records[group].root != NIL:
        records[group].root = pairing_heap.remove_root(c.nodes, c.sums.rows, c.by, records[group].root, _melded, c.sums)
    else:
        take_from_front(c.sums, records, group, c.links)
    intrusive_list.pop_keep_links(records, group, c.links, slot)
    groups.free(results, slot)
    groups.shrink(c.groups, p, group)


@inlined
def _make_heap(c: SlotContents, group: int) -> None:
    """Makes a heap of all tuples of the group."""
    slot = c.groups.records[group].oldest
    while slot != NIL:
        _grow(c, group, slot)
        slot = c.links[slot].younger


@inlined
def _grow(c: SlotContents, group: int, slot: int) -> None:
    append_step(c.sums, FOLD, slot, slot, NIL)
    records = c.groups.records
    records[group].root = pairing_heap.add(c.nodes, c.sums.rows, c.by, records[group].root, slot, _melded, c.sums)


@inlined
def _melded(top: int, below: int, s: Summaries) -> None:
    append_step(s, MERGE, top, NIL, below)


@inlined
def _clear(c: SlotContents, p: int) -> None:
    """Empties the groups. A LOSE event before this one has freed each slot."""
    groups.clear(c, p)


@inlined
def _room(c: SlotContents, p: int, results: Results) -> bool:
    return groups.has_room(c, p, results)


@inlined
def _fire(c: SlotContents, p: int, firing: int, results: Results) -> None:
    groups.fire(c, p, firing, results, _summarise)


@inlined
def _summarise(c: SlotContents, group: int, into: np.ndarray, row: int) -> None:
    root = c.groups.records[group].root
    if root != NIL:
        append_step(c.sums, OUTPUT, row, root, NIL)
    else:
        plan_output(c.sums, c.groups.records, group, row)
    write_edges(c.edges, c.sums.rows, c.groups.records, group, into, row)
