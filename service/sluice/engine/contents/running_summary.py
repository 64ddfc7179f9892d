"""The contents of tumbling windows: one summary per group, to which each tuple is added.

All tuples of a tumbling window leave at once, so no summary of a part of the window is needed. Tuples stay in their
slots, linked from the oldest to the youngest, only if a function lists them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.contents import groups, multisets
from sluice.engine.contents.combine_plan import OUTPUT, Summaries, append_step, plan_fits
from sluice.engine.contents.firing_results import Results
from sluice.engine.contents.groups import Groups
from sluice.engine.contents.two_stacks import add_to_back
from sluice.engine.windows.processing_time import CLEAR, FIRE, INSERT


class RunningSummaries(NamedTuple):
    """The tables and settings of the kernel."""

    #: `back` has the summary of each group
    sums: Summaries
    groups: Groups
    #: the neighbours of each tuple in its group; used only if the results list the tuples
    links: np.ndarray
    listing: bool
    counted: multisets.Multisets


@kernel
def run(c: RunningSummaries, events: np.ndarray, results: Results, start: int) -> int:
    """Handles window events from number `start` on. Returns the number of the first event without room."""
    for k in range(start, len(events)):
        _look_ahead(c, events, k + AHEAD)
        code, p = events[k].code, events[k].partition
        if code == INSERT:
            if not plan_fits(c.sums, 1):
                return k
            _insert(c, p, events[k].slot)
        elif code == CLEAR:
            _clear(c, p, results)
        elif code == FIRE:
            if not _room(c, p, results):
                return k
            _fire(c, p, events[k].slot, results)
    return len(events)


@inlined
def _look_ahead(c: RunningSummaries, events: np.ndarray, k: int) -> None:
    """Prefetches the group of a later tuple, whose number is that of its partition without `group_by`."""
    if k < len(events) and events[k].code == INSERT:
        prefetch(c.groups.records, events[k].partition)


@inlined
def _insert(c: RunningSummaries, p: int, slot: int) -> None:
    records = c.groups.records
    group = groups.group_of(c.groups, p, slot)
    if not records[group].size:
        groups.remember(c.groups, p, group)
    multisets.count(c.counted, c.sums.rows, slot, group, 1)
    add_to_back(c.sums, records, group, slot)
    if c.listing:
        intrusive_list.append(records, group, c.links, slot)
    records[group].size += 1


@inlined
def _clear(c: RunningSummaries, p: int, results: Results) -> None:
    group = groups.first(c.groups, p)
    while c.listing and group != NIL:
        slot = c.groups.records[group].oldest
        while slot != NIL:
            groups.free(results, slot)
            slot = c.links[slot].younger
        group = groups.following(c.groups, group)
    groups.clear(c, p)


@inlined
def _room(c: RunningSummaries, p: int, results: Results) -> bool:
    return groups.has_room(c, p, results)


@inlined
def _fire(c: RunningSummaries, p: int, firing: int, results: Results) -> None:
    groups.fire(c, p, firing, results, _summarise)


@inlined
def _summarise(c: RunningSummaries, group: int, into: np.ndarray, row: int) -> None:  # noqa: ARG001 - the plan writes it
    append_step(c.sums, OUTPUT, row, NIL, group)
