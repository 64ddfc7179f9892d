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
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.operators.event_join import timed_lists
from sluice.engine.operators.event_join.event_join_records import (
    CLOCK,
    LEFT,
    NOTHING,
    RIGHT,
    JoinSettings,
    JoinTables,
    TimedSide,
)
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.engine.windows.event_time.timer_queue import schedule


@kernel
def run(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, first: int) -> int:
    """See `timed_lists.handled`."""
    return timed_lists.handled(w, r, arrivals, first, _look_ahead, _store, _answer)


@inlined
def _look_ahead(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, i: int) -> None:  # noqa: ARG001
    """Prefetches the list of a later arrival's key, and where an arrival before that one enters its list."""
    if i + 2 * AHEAD < len(arrivals):
        far = arrivals[i + 2 * AHEAD]
        prefetch(_side(w, far.port).lists, max(far.key, 0))
        near = arrivals[i + AHEAD]
        if near.kind == TUPLE:
            timed_lists.prefetch_entry(w, _side(w, near.port), near.slot, max(near.key, 0))


@inlined
def _store(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, i: int) -> bool:
    """Stores a tuple, unless it is late."""
    side = _side(w, arrivals[i].port)
    if not timed_lists.refuse_late(w, side, arrivals, i):
        p = max(arrivals[i].key, 0)
        timed_lists.enter(w, side, arrivals, i, p)
        due = arrivals[i].time if arrivals[i].port == LEFT else _needed_until(w, r, p)
        schedule(w.keys, w.tree, 0, p, min(due, w.keys[p].due))
    return True


@inlined
def _side(w: JoinTables, port: int) -> TimedSide:
    return w.left if port == LEFT else w.right


@inlined
def _needed_until(w: JoinTables, r: JoinSettings, p: int) -> int:
    """The time after which no left tuple can have the oldest right tuple of key `p` as its partner (U5)."""
    nodes, oldest = w.right.nodes, w.right.lists[p].oldest
    until = ENDLESS if r.age == ENDLESS else nodes[oldest].time + r.age
    if w.right.lists[p].size > 1:
        until = min(until, nodes[nodes[oldest].younger].time - 1)
    return until


@inlined
def _answer(w: JoinTables, r: JoinSettings, i: int, p: int) -> int:
    """The left tuples of key `p` that are certain leave with their partners (U2). Then right tuples are removed (U5).

    Both lists are followed from their oldest tuples on. The right tuples that are passed are removed, but for the last
    one.
    """
    newest, next_ = NIL, w.right.lists[p].oldest
    while w.left.lists[p].size:
        slot = w.left.lists[p].oldest
        time = w.left.nodes[slot].time
        if time >= w.scalars[CLOCK]:
            break
        while next_ != NIL and w.right.nodes[next_].time <= time:
            newest, next_ = next_, w.right.nodes[next_].younger
        partner = _partner(w, r, slot, newest)
        if partner != NOTHING or w.left.outer:
            w.left.nodes[slot].matched = 0
            timed_lists.note(w, slot, partner, i, p)
        timed_lists.drop_oldest(w, w.left, LEFT, p)
    while w.right.lists[p].size and _needed_until(w, r, p) < w.scalars[CLOCK]:
        timed_lists.drop_oldest(w, w.right, RIGHT, p)
    due = w.left.nodes[w.left.lists[p].oldest].time if w.left.lists[p].size else ENDLESS
    return min(due, _needed_until(w, r, p)) if w.right.lists[p].size else due


@inlined
def _partner(w: JoinTables, r: JoinSettings, slot: int, newest: int) -> int:
    """The partner of a left tuple, given the newest right tuple that is not newer, of several equally new ones the last
    that came; NOTHING if there is none, or if it is older than the maximum age (U1, U3).
    """
    if newest == NIL or w.left.nodes[slot].lone:
        return NOTHING
    too_old = r.age != ENDLESS and w.left.nodes[slot].time - w.right.nodes[newest].time > r.age
    return NOTHING if too_old else newest
