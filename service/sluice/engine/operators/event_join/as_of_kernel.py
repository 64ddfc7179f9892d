"""The kernel of the as-of join: the partner of a left tuple is the newest right tuple that is not newer (U1 to U5).

    left                    t
    right     s1      s2    |    s3          the partner of t is s2

A left tuple at t waits until the watermark of the join, less the grace, is after t: no right tuple at or before t can
come any more. Of the right tuples up to this time a key keeps only the newest one.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.event_join import timed_lists
from sluice.engine.operators.event_join.event_join_records import (
    CLOCK,
    LEFT,
    NOTHING,
    RIGHT,
    JoinSettings,
    JoinTables,
)
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule


@kernel
def run(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, first: int) -> int:
    """See `timed_lists.handled`."""
    return timed_lists.handled(w, r, arrivals, first, _store, _answer)


@inlined
def _store(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, i: int) -> bool:
    """Stores a tuple, unless it is late."""
    side = w.left if arrivals[i].port == LEFT else w.right
    if not timed_lists.refuse_late(w, side, arrivals, i):
        p = max(arrivals[i].key, 0)
        timed_lists.enter(w, side, arrivals, i, p)
        schedule(w.keys, w.matches, w.starts[0], p, _due(w, r, p))
    return True


@inlined
def _due(w: JoinTables, r: JoinSettings, p: int) -> int:
    """The time after which a left tuple of key `p` has its answer, or a right tuple is not needed any more."""
    due = ENDLESS
    if w.left.lists[p].size:
        due = w.left.nodes[w.left.lists[p].oldest].time
    if w.right.lists[p].size:
        due = min(due, _needed_until(w, r, p))
    return due


@inlined
def _needed_until(w: JoinTables, r: JoinSettings, p: int) -> int:
    """The time after which no left tuple can have the oldest right tuple of key `p` as its partner (U5)."""
    nodes, oldest = w.right.nodes, w.right.lists[p].oldest
    until = ENDLESS if r.age == ENDLESS else nodes[oldest].time + r.age
    if w.right.lists[p].size > 1:
        until = min(until, nodes[nodes[oldest].younger].time - 1)
    return until


@inlined
def _answer(w: JoinTables, r: JoinSettings, i: int) -> None:
    """The left tuples that are certain leave with their partners (U2). Then right tuples are removed (U5)."""
    while w.matches[w.starts[0] + ROOT].due < w.scalars[CLOCK]:
        p = w.matches[w.starts[0] + ROOT].partition
        while w.left.lists[p].size:
            slot = w.left.lists[p].oldest
            if w.left.nodes[slot].time >= w.scalars[CLOCK]:
                break
            partner = _partner(w, r, p, slot)
            if partner != NOTHING or w.left.outer:
                w.left.nodes[slot].matched = 0
                timed_lists.note(w, slot, partner, i, p)
            timed_lists.drop_oldest(w, w.left, LEFT, p)
        while w.right.lists[p].size and _needed_until(w, r, p) < w.scalars[CLOCK]:
            timed_lists.drop_oldest(w, w.right, RIGHT, p)
        schedule(w.keys, w.matches, w.starts[0], p, _due(w, r, p))


@inlined
def _partner(w: JoinTables, r: JoinSettings, p: int, slot: int) -> int:
    """The newest right tuple that is not newer than the left tuple, of several equally new ones the last that came; or
    NOTHING if there is none, or if it is older than the maximum age (U1, U3).
    """
    time = w.left.nodes[slot].time
    if w.left.nodes[slot].lone:
        return NOTHING
    found = timed_lists.not_after(w.right, p, time)
    if found == NIL or (r.age != ENDLESS and time - w.right.nodes[found].time > r.age):
        return NOTHING
    return found
