"""The kernel of windows over tables: applies changes of rows, and fires windows (rules EN10 to EN16).

A window partition has its rows in the order in which their keys came. Its window holds all of them, or the newest ones:

    rows of partition p   oldest --> row 7 --> row 2 --> [ row 5 --> row 9 --> row 1 ] <-- youngest
                                                        edge: the oldest row in the window

A changed row keeps its place. If a row leaves the window, the row before the edge comes back into it. So what a window
holds depends only on the rows that the table has, and on the order in which their keys came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.contents.firing_results import ROWS, TUPLES, Results, room
from sluice.engine.operators.table_aggregate import summary_tree
from sluice.engine.operators.table_aggregate.summary_tree import Trees
from sluice.engine.stream.items import CLEAR, EMPTY_FIRING, TIMER, WINDOW
from sluice.engine.windows.policies import COUNT, KernelClause
from sluice.engine.windows.processing_time.window_kernel import advance_timer, skip_empty_ticks
from sluice.engine.windows.processing_time.window_records import GROUP, LIVE, NUMBER, STORED, TICK

#: a row of the table: its window partition (NIL: the table has no row of the key), its group, its neighbours among the
#: rows of the partition, and whether it is in the window
ROW = np.dtype([
    ("partition", np.int32), ("group", np.int32), ("older", np.int32), ("younger", np.int32), ("inside", np.bool_),
])  # fmt: skip
#: a window partition: the number of its rows, and of those in the window; the ends of the list of its rows; the oldest
#: row in the window; the changes since the count trigger last fired; whether the window was full once
PARTITION = np.dtype([
    ("size", np.int64), ("inside", np.int64), ("counter", np.int64), ("groups", np.int64),
    ("oldest", np.int32), ("youngest", np.int32), ("edge", np.int32), ("full", np.bool_),
])  # fmt: skip
#: the list of a partition's groups that have rows in the window
ENDS = np.dtype([("oldest", np.int32), ("youngest", np.int32)])
#: a change: a row of the table with its window partition and its group, which a deletion does not have; `words` is the
#: row of `fresh` that has its words
CHANGE = np.dtype([
    ("at", np.int64), ("event", np.int64), ("row", np.int32), ("partition", np.int32), ("group", np.int32),
    ("words", np.int32), ("kind", np.int8), ("deletes", np.bool_),
])  # fmt: skip
#: the elements of `RowWindows.used`: firings, and the firings for which there was no room
FIRINGS, NEEDED = range(2)


class RowWindows(NamedTuple):
    """The tables and settings of the kernel. The fields of `scalars` are those of other windows; LIVE is the number of
    rows in windows, NUMBER that of the newest row.
    """

    clause: KernelClause
    arrival: int
    listing: bool
    scalars: np.ndarray
    instants: np.ndarray
    trees: Trees
    rows: np.ndarray
    partitions: np.ndarray
    ends: np.ndarray
    #: the words of the changes of the batch, and of the rows that results list
    fresh: np.ndarray
    listed: np.ndarray
    firings: np.ndarray
    used: np.ndarray


@kernel
def run(w: RowWindows, changes: np.ndarray, end: int, first: int, results: Results) -> int:
    """Applies the changes from number `first` on, then the ticks that are due by `end`.

    A tick at the time of a change precedes it. Returns the number of the change before which there was no room for
    results, or the number of changes + 1 if all were applied.
    """
    count = len(changes)
    for i in range(first, count + 1):
        until = changes[i].at if i < count else end
        skip_empty_ticks(w, until)
        while w.clause.period > 0 and w.scalars[TICK] <= until:
            if not _room_for_all(w, results):
                return i
            _tick(w, w.scalars[TICK], results)
            advance_timer(w)
        if i == count:
            break
        if changes[i].kind == CLEAR:
            if not _room_for_all(w, results):
                return i
            _clear(w, changes[i].at, changes[i].event, results)
        else:
            if not _room_for_change(w, changes, i, results):
                return i
            _change(w, changes, i, results)
    return count + 1


# ---- room ------------------------------------------------------------------------------------------------------------


@inlined
def _room_for_all(w: RowWindows, results: Results) -> bool:
    groups = 0
    for p in range(len(w.partitions)):
        groups += w.partitions[p].groups
    tuples = w.scalars[LIVE] if w.listing else 0
    return _room(w, w.scalars[STORED] + 1, groups, tuples, results)


@inlined
def _room_for_change(w: RowWindows, changes: np.ndarray, i: int, results: Results) -> bool:
    groups, tuples = 2, 2
    before = w.rows[changes[i].row].partition
    if before != NIL:
        groups += w.partitions[before].groups
        tuples += w.partitions[before].inside
    if not changes[i].deletes and changes[i].partition != before:
        groups += w.partitions[changes[i].partition].groups
        tuples += w.partitions[changes[i].partition].inside
    return _room(w, 2, groups, tuples if w.listing else 0, results)


@inlined
def _room(w: RowWindows, firings: int, rows: int, tuples: int, results: Results) -> bool:
    w.used[NEEDED] = w.used[FIRINGS] + firings
    return bool(w.used[NEEDED] <= len(w.firings)) and room(results, rows, tuples, 0)


# ---- changes ---------------------------------------------------------------------------------------------------------


@inlined
def _change(w: RowWindows, changes: np.ndarray, i: int, results: Results) -> None:
    """Applies the change of one row (EN11). A row that moves to another partition leaves the first one before.

    Both steps share one call of `_exchange`: it is inlined, and most of the kernel, so a second call would double the
    time of compilation.
    """
    row, deletes, before = changes[i].row, changes[i].deletes, w.rows[changes[i].row].partition
    stays = not deletes and before == changes[i].partition
    leaves = before != NIL and not stays
    for step in range(0 if leaves else 1, 1 if deletes else 2):
        p, group = before, w.rows[row].group
        leaving = entering = row if w.rows[row].inside else NIL
        if step == 0:
            entering = _remove(w, row)
        elif stays:
            _replace(w, row, changes[i].group, changes[i].words)
        else:
            p, group, entering = changes[i].partition, changes[i].group, row
            leaving = _insert(w, row, p, group, changes[i].words)
            group = w.rows[leaving].group if leaving != NIL else group
        _exchange(w, p, leaving, group, entering)
        w.scalars[GROUP] += 1
        _trigger(w, p, changes[i].at, changes[i].event, results)


@inlined
def _copy(w: RowWindows, row: int, words: int) -> None:
    for k in range(w.fresh.shape[1]):
        w.trees.words[row, k] = w.fresh[words, k]


@inlined
def _insert(w: RowWindows, row: int, p: int, group: int, words: int) -> int:
    """Adds a row of a new key behind all others of its partition. Returns the row that it pushes out, or NIL."""
    _copy(w, row, words)
    w.scalars[NUMBER] += 1
    w.trees.words[row, w.arrival] = w.scalars[NUMBER]
    w.rows[row].partition = p
    w.rows[row].group = group
    if not w.partitions[p].size:
        intrusive_list.make_empty(w.partitions, p)
        intrusive_list.make_empty(w.ends, p)
        w.partitions[p].edge = row
        w.scalars[STORED] += 1
    intrusive_list.append(w.partitions, p, w.rows, row)
    w.partitions[p].size += 1
    leaving = NIL
    if w.clause.full and w.partitions[p].inside == w.clause.full:
        leaving = w.partitions[p].edge
        w.partitions[p].edge = w.rows[leaving].younger
    if leaving != NIL or not w.clause.full or w.partitions[p].inside + 1 == w.clause.full:
        w.partitions[p].full = 1
    return leaving


@inlined
def _remove(w: RowWindows, row: int) -> int:
    """Removes a row of the table. Returns the newest row before the window, which comes into it in place of a row that
    was in the window (EN13), or NIL.
    """
    p = w.rows[row].partition
    edge = w.partitions[p].edge
    entering = NIL
    if w.rows[row].inside:
        entering = w.rows[edge].older
        if entering != NIL:
            w.partitions[p].edge = entering
        elif edge == row:
            w.partitions[p].edge = w.rows[row].younger
    intrusive_list.unlink(w.partitions, p, w.rows, row)
    w.rows[row].partition = NIL
    w.partitions[p].size -= 1
    if not w.partitions[p].size:
        w.scalars[STORED] -= 1
    return entering


@inlined
def _replace(w: RowWindows, row: int, group: int, words: int) -> None:
    """The row changes in its place (EN11). A row that is not in the window changes nothing that the window holds."""
    number = w.trees.words[row, w.arrival]
    _copy(w, row, words)
    w.trees.words[row, w.arrival] = number
    w.rows[row].group = group


@inlined
def _exchange(w: RowWindows, p: int, leaving: int, group: int, entering: int) -> None:
    """A row of `group` leaves the window, and a row enters it; NIL: none. Both are often of the same group."""
    if NIL not in (leaving, entering) and w.rows[entering].group == group:
        if leaving == entering:
            summary_tree.renew(w.trees, entering)
        else:
            summary_tree.replace(w.trees, group, leaving, entering)
            w.rows[leaving].inside = 0
            w.rows[entering].inside = 1
        return
    if leaving != NIL:
        _leave(w, p, leaving, group)
    if entering != NIL:
        _enter(w, p, entering)


@inlined
def _enter(w: RowWindows, p: int, row: int) -> None:
    group = w.rows[row].group
    if not w.trees.groups[group].size:
        intrusive_list.append(w.ends, p, w.trees.groups, group)
        w.partitions[p].groups += 1
    summary_tree.add(w.trees, group, row)
    w.rows[row].inside = 1
    w.partitions[p].inside += 1
    w.scalars[LIVE] += 1


@inlined
def _leave(w: RowWindows, p: int, row: int, group: int) -> None:
    summary_tree.remove(w.trees, group, row)
    if not w.trees.groups[group].size:
        intrusive_list.unlink(w.ends, p, w.trees.groups, group)
        w.partitions[p].groups -= 1
    w.rows[row].inside = 0
    w.partitions[p].inside -= 1
    w.scalars[LIVE] -= 1


@inlined
def _clear(w: RowWindows, at: int, event: int, results: Results) -> None:
    """Removes all rows. This is one change of each window that had any (EN14)."""
    w.scalars[GROUP] += 1
    for p in range(len(w.partitions)):
        if w.partitions[p].size:
            row = w.partitions[p].oldest
            while row != NIL:
                w.rows[row].partition = NIL
                w.rows[row].inside = 0
                row = w.rows[row].younger
            group = w.ends[p].oldest
            while group != NIL:
                w.trees.groups[group].size = 0
                group = w.trees.groups[group].younger
            intrusive_list.make_empty(w.ends, p)
            w.scalars[LIVE] -= w.partitions[p].inside
            w.partitions[p].size = w.partitions[p].inside = w.partitions[p].groups = 0
            w.scalars[STORED] -= 1
            _trigger(w, p, at, event, results)


# ---- firings ---------------------------------------------------------------------------------------------------------


@inlined
def _trigger(w: RowWindows, p: int, at: int, event: int, results: Results) -> None:
    """Fires at every n-th change of the window (EN12)."""
    if w.clause.trigger.kind == COUNT:
        w.partitions[p].counter += 1
        if w.partitions[p].counter == w.clause.trigger.size:
            w.partitions[p].counter = 0
            if w.partitions[p].full or w.clause.incomplete:
                _fire(w, p, at, event, results)


@inlined
def _tick(w: RowWindows, at: int, results: Results) -> None:
    """Every window with rows fires (S13). Without any, an empty firing is written (S14)."""
    w.scalars[GROUP] += 1
    for p in range(len(w.partitions)):
        if w.partitions[p].size and (w.partitions[p].full or w.clause.incomplete):
            _fire(w, p, at, TIMER, results)
    if not w.scalars[STORED] and (w.clause.incomplete or (not w.clause.partitioned and w.partitions[0].full)):
        _note(w, NIL, at, TIMER, EMPTY_FIRING)


@inlined
def _note(w: RowWindows, p: int, at: int, event: int, kind: int) -> int:
    number = w.used[FIRINGS]
    firing = w.firings[number]
    firing.event, firing.at, firing.partition, firing.kind = event, at, p, kind
    firing.group, firing.stored, firing.watermark, firing.reason = w.scalars[GROUP], w.scalars[LIVE], 0, 0
    w.used[FIRINGS] = number + 1
    return number  # type: ignore[no-any-return]


@inlined
def _fire(w: RowWindows, p: int, at: int, event: int, results: Results) -> None:
    """Writes a result row for each group. A window without rows has none (A4, EN18)."""
    firing = _note(w, p, at, event, WINDOW)
    place = results.used[TUPLES]
    group = w.ends[p].oldest if w.partitions[p].size else NIL
    while group != NIL:
        row = results.used[ROWS]
        results.used[ROWS] = row + 1
        results.firing[row], results.size[row] = firing, w.trees.groups[group].size
        for k in range(w.trees.sums.shape[1]):
            results.summary[row, k] = w.trees.sums[w.trees.groups[group].root, k]
        w.trees.groups[group].place = place
        place += w.trees.groups[group].size
        group = w.trees.groups[group].younger
    if w.listing:
        _list(w, p)
        results.used[TUPLES] = place


@inlined
def _list(w: RowWindows, p: int) -> None:
    """Copies the words of the rows in the window, those of each group together, the oldest first."""
    row = w.partitions[p].edge if w.partitions[p].size else NIL
    while row != NIL:
        group = w.rows[row].group
        for k in range(w.trees.words.shape[1]):
            w.listed[w.trees.groups[group].place, k] = w.trees.words[row, k]
        w.trees.groups[group].place += 1
        row = w.rows[row].younger
