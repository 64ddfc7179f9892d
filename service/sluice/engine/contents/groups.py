"""The groups of window partitions, as the kernels of several storage strategies keep them.

`group_by` divides a window partition into groups. Without `group_by` a partition is one group, and the number of the
group is that of the partition. The groups of a partition that hold tuples are a list, in the order in which their first
tuples arrived:

    partition p    oldest --> group 4 --younger--> group 9 --younger--> group 2 <-- youngest
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.columns.prefetch import prefetch
from sluice.engine.contents import multisets
from sluice.engine.contents.combine_plan import Summaries, plan_fits
from sluice.engine.contents.firing_results import FREED, PAIRS, ROWS, TUPLES, Results, room
from sluice.engine.windows.processing_time import EVICT, INSERT

#: the record of a group; each storage strategy uses some of the fields
GROUP_RECORD = np.dtype([
    ("size", np.int64),
    # the number of tuples in the front (two_stacks.py)
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


class Groups(NamedTuple):
    """The groups of all partitions."""

    records: np.ndarray
    #: whether there is a `group_by`, so that a partition may have several groups
    grouped: bool
    #: the group of each tuple; empty without `group_by`
    group_of: np.ndarray
    ends: np.ndarray


class Grouped(Protocol):
    """The tables of a storage strategy, as far as the functions of this module use them."""

    @property
    def sums(self) -> Summaries: ...

    @property
    def groups(self) -> Groups: ...

    @property
    def counted(self) -> multisets.Multisets: ...

    @property
    def listing(self) -> bool:
        """Whether the results list the tuples."""

    @property
    def links(self) -> np.ndarray:
        """The neighbours of each tuple in its group."""


#: called as `summarise(tables, group, into, row)`: plans the step that writes the summary of a group to `into[row]`
Summarise = Callable[[Any, int, np.ndarray, int], None]


@inlined
def group_of(g: Groups, p: int, slot: int) -> int:
    return g.group_of[slot] if g.grouped else p


@inlined
def first(g: Groups, p: int) -> int:
    """The first group of the partition that holds tuples, NIL if there is none."""
    if g.grouped:
        return g.ends[p].oldest  # type: ignore[no-any-return]
    return p if g.records[p].size else NIL


@inlined
def following(g: Groups, group: int) -> int:
    return g.records[group].younger if g.grouped else NIL


@inlined
def look_ahead(c: Grouped, events: np.ndarray, k: int) -> None:
    """Prefetches what a later event needs, where tuples stay in their slots.

    It uses the partition number as the group number, which is right without `group_by`.
    """
    if k < len(events):
        if events[k].code == EVICT:
            prefetch(c.links, events[k].slot)
        elif events[k].code == INSERT:
            prefetch(c.groups.records, events[k].partition)


@inlined
def start(records: np.ndarray, group: int) -> None:
    """Initialises the record of a group that gets its first tuple."""
    records[group].front = 0
    records[group].root = NIL
    records[group].spread = NIL
    intrusive_list.make_empty(records, group)


@inlined
def remember(g: Groups, p: int, group: int) -> None:
    """Initialises a group that gets its first tuple, and appends it to the groups of its partition (A8)."""
    start(g.records, group)
    if g.grouped:
        intrusive_list.append(g.ends, p, g.records, group)


@inlined
def shrink(g: Groups, p: int, group: int) -> None:
    """Counts a tuple that has left the group. A group without tuples leaves the list of its partition."""
    g.records[group].size -= 1
    if g.grouped and not g.records[group].size:
        intrusive_list.unlink(g.ends, p, g.records, group)


@inlined
def free(results: Results, slot: int) -> None:
    """Lists a slot (or a block) that no window uses any more."""
    results.freed[results.used[FREED]] = slot
    results.used[FREED] += 1


@inlined
def clear(c: Grouped, p: int) -> None:
    """Empties all groups of a partition."""
    group = first(c.groups, p)
    while group != NIL:
        behind = following(c.groups, group)
        c.groups.records[group].size = 0
        multisets.clear(c.counted, group)
        group = behind
    if c.groups.grouped:
        intrusive_list.make_empty(c.groups.ends, p)


@inlined
def has_room(c: Grouped, p: int, results: Results) -> bool:
    """Whether plan and results have room for a firing of the partition, which writes a row for each group."""
    rows, tuples, pairs = 0, 0, 0
    group = first(c.groups, p)
    while group != NIL:
        rows += 1
        tuples += c.groups.records[group].size if c.listing else 0
        pairs += multisets.listed(c.counted, group)
        group = following(c.groups, group)
    return plan_fits(c.sums, rows) and room(results, rows, tuples, pairs)


@inlined
def fire(c: Grouped, p: int, firing: int, results: Results, summarise: Summarise) -> None:
    """Writes a result row for each group that holds tuples. An empty partition has no result row (A4)."""
    group = first(c.groups, p)
    while group != NIL:
        row = write_row(c.groups.records, c.counted, group, firing, results)
        summarise(c, group, results.summary, row)
        if c.listing:
            _list(c, group, results)
        group = following(c.groups, group)


@inlined
def write_row(
    records: np.ndarray, counted: multisets.Multisets, group: int, firing: int, results: Results
) -> int:  # fmt: skip
    """Writes the result row of a group without its summary and its tuples. Returns the number of the row."""
    row = results.used[ROWS]
    results.used[ROWS] = row + 1
    results.firing[row] = firing
    results.size[row] = records[group].size
    results.used[PAIRS] = multisets.write_counts(
        counted, group, row, results.counts, results.pairs, results.used[PAIRS]
    )
    return row  # type: ignore[no-any-return]


@inlined
def _list(c: Grouped, group: int, results: Results) -> None:
    """Lists the slots of the group's tuples, oldest first."""
    k = results.used[TUPLES]
    slot = c.groups.records[group].oldest
    for _ in range(c.groups.records[group].size):
        results.tuples[k] = slot
        k += 1
        slot = c.links[slot].younger
    results.used[TUPLES] = k
