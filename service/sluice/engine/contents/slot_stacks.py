"""A kernel that keeps the aggregates of sliding windows from which only the oldest tuple leaves.

Each group has two stacks of partial summaries (two_stacks.py), so an eviction does not compute the summary of the
window again. Each tuple stays in its slot, a row of the state's tables, and is not copied.

Used with `group_by`, for small count windows whose tuples are listed, and where eviction events must name the slot of a
tuple. In the other windows from which only the oldest tuple leaves, tuples are in rings (ring.py) or in blocks
(block_stacks.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD
from sluice.engine.contents import groups, multisets
from sluice.engine.contents.combine_plan import Summaries, plan_fits
from sluice.engine.contents.firing_results import Results
from sluice.engine.contents.groups import Groups
from sluice.engine.contents.summaries import Layout
from sluice.engine.contents.two_stacks import add_to_back, plan_output, steps_to_evict, take_from_front, write_edges
from sluice.engine.windows.processing_time import CLEAR, EVICT, FIRE, INSERT, LOSE


class SlotStacks(NamedTuple):
    """The tables and settings of the kernel."""

    sums: Summaries
    #: summaries that are read from the oldest or the youngest tuple when the window fires, and are not kept
    edges: Layout
    groups: Groups
    #: the neighbours of each tuple in its group. Without `group_by` these are the links of the window, whose partition
    #: is the group. The window kernel is ahead: it has handled later events already. The links between tuples that a
    #: group holds here are still intact, because the window only appends tuples and removes them with
    #: `intrusive_list.pop_keep_links`
    links: np.ndarray
    listing: bool
    counted: multisets.Multisets


@kernel
def run(c: SlotStacks, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room."""
    for k in range(start, len(events)):
        groups.look_ahead(c, events, k + AHEAD)
        code, p, slot = events[k].code, events[k].partition, events[k].slot
        if code == INSERT:
            if not plan_fits(c.sums, 1):
                return k
            _insert(c, p, slot)
        elif code == EVICT:
            group = groups.group_of(c.groups, p, slot)
            if not plan_fits(c.sums, steps_to_evict(c.sums, c.groups.records, group)):
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
def _insert(c: SlotStacks, p: int, slot: int) -> None:
    records = c.groups.records
    group = groups.group_of(c.groups, p, slot)
    if not records[group].size:
        groups.remember(c.groups, p, group)
    multisets.count(c.counted, c.sums.rows, slot, group, 1)
    add_to_back(c.sums, records, group, slot)
    if c.groups.grouped:
        intrusive_list.append(records, group, c.links, slot)
    else:
        intrusive_list.push_linked(records, group, slot)
    records[group].size += 1


@inlined
def _evict(c: SlotStacks, p: int, group: int, slot: int, results: Results) -> None:
    """Removes the oldest tuple of the group, which is in `slot`."""
    records = c.groups.records
    multisets.count(c.counted, c.sums.rows, slot, group, -1)
    take_from_front(c.sums, records, group, c.links)
    intrusive_list.pop_keep_links(records, group, c.links, slot)
    groups.free(results, slot)
    groups.shrink(c.groups, p, group)


@inlined
def _clear(c: SlotStacks, p: int) -> None:
    """Empties the groups. A LOSE event before this one has freed each slot."""
    groups.clear(c, p)


@inlined
def _room(c: SlotStacks, p: int, results: Results) -> bool:
    return groups.has_room(c, p, results)


@inlined
def _fire(c: SlotStacks, p: int, firing: int, results: Results) -> None:
    groups.fire(c, p, firing, results, _summarise)


@inlined
def _summarise(c: SlotStacks, group: int, into: np.ndarray, row: int) -> None:
    plan_output(c.sums, c.groups.records, group, row)
    write_edges(c.edges, c.sums.rows, c.groups.records, group, into, row)
