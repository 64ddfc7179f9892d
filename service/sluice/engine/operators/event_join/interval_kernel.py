"""The kernel of the interval join: which tuples are partners, and when a tuple leaves (rules I1 to I6).

    left            t
                    |
    right   [-------+--------------]
        t - before                t + after

A left tuple at t leaves when the watermark of the join, less the grace, is after t + after: no right tuple of its
interval can come any more. A right tuple at s leaves in the same way after s + before.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.event_join import timed_lists
from sluice.engine.operators.event_join.event_join_records import (
    CLOCK,
    LEFT,
    LOGGED,
    NOTHING,
    RIGHT,
    JoinSettings,
    JoinTables,
    TimedSide,
)
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.engine.windows.event_time.timer_queue import schedule

#: the number of arrivals that are prefetched together, and the most partners that are prefetched for each
GROUP, MOST = 16, 64


@kernel
def run(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, first: int) -> int:
    """See `timed_lists.handled`."""
    return timed_lists.handled(w, r, arrivals, first, _look_ahead, _meet_others, _release)


@inlined
def _look_ahead(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, i: int) -> None:
    """Loads the partners of the next GROUP arrivals, and where these enter, into the CPU's cache.

    Each step along a list waits for memory. The lists of several arrivals are followed in turn, so that these waits
    overlap.
    """
    if i % GROUP:
        return
    group = range(i, min(i + GROUP, len(arrivals)))
    for j in group:
        arrival = arrivals[j]
        arrival.ahead = NIL
        if arrival.kind == TUPLE:
            p = max(arrival.key, 0)
            own, other = (w.left, w.right) if arrival.port == LEFT else (w.right, w.left)
            timed_lists.prefetch_entry(w, own, arrival.slot, p)
            arrival.ahead = other.lists[p].youngest
    for _ in range(MOST):
        moved = False
        for j in group:
            if arrivals[j].ahead == NIL:
                continue
            moved = True
            if arrivals[j].port == LEFT:
                _step(w.right, arrivals, j, -r.before, r.after)
            else:
                _step(w.left, arrivals, j, -r.after, r.before)
        if not moved:
            break


@inlined
def _step(y: TimedSide, arrivals: np.ndarray, j: int, earliest: int, latest: int) -> None:
    """Goes on to the next stored tuple that `_meet` will look at; `ahead` becomes NIL behind the last one."""
    arrival = arrivals[j]
    node, time = arrival.ahead, y.nodes[arrival.ahead].time
    if time > arrival.time + latest:
        arrival.ahead = timed_lists.step_towards(y.nodes, max(arrival.key, 0), node, arrival.time + latest)
    else:
        arrival.ahead = y.nodes[node].older if time >= arrival.time + earliest else NIL


@inlined
def _meet_others(w: JoinTables, r: JoinSettings, arrivals: np.ndarray, i: int) -> bool:
    if arrivals[i].port == LEFT:
        return _meet(w, w.left, w.right, arrivals, i, -r.before, r.after)
    return _meet(w, w.right, w.left, arrivals, i, -r.after, r.before)


@inlined
def _meet(w: JoinTables, x: TimedSide, y: TimedSide, arrivals: np.ndarray, i: int, earliest: int, latest: int) -> bool:
    """Pairs a tuple of side x with the stored tuples of side y whose times are from `earliest` to `latest` after its
    own (I1), the earliest first (I2). Then it is stored. Returns False, and changes nothing, if the log has no room.
    """
    slot, time, p = arrivals[i].slot, arrivals[i].time, max(arrivals[i].key, 0)
    if timed_lists.refuse_late(w, x, arrivals, i):
        return True
    oldest = NIL
    count = 0
    if not arrivals[i].lone and y.lists[p].size:
        node = timed_lists.not_after(y, p, time + latest)
        while node != NIL and y.nodes[node].time >= time + earliest:
            oldest = node
            count += 1
            node = y.nodes[node].older
    if w.used[LOGGED] + count + 1 > len(w.log):
        return False
    for _ in range(count):
        _note(w, arrivals, i, slot, oldest)
        oldest = y.nodes[oldest].younger
    x.nodes[slot].matched = 0
    if time + latest < w.scalars[CLOCK]:  # with a negative size, the interval may be over already
        if x.outer:
            _note(w, arrivals, i, slot, NOTHING)
        timed_lists.free(w, x, arrivals[i].port, slot)
        return True
    timed_lists.enter(w, x, arrivals, i, p)
    if time + latest < w.keys[p].due:
        schedule(w.keys, w.tree, 0, p, time + latest)
    return True


@inlined
def _note(w: JoinTables, arrivals: np.ndarray, i: int, own: int, other: int) -> None:
    if arrivals[i].port == LEFT:
        timed_lists.note(w, own, other, i, arrivals[i].key)
    else:
        timed_lists.note(w, other, own, i, arrivals[i].key)


@inlined
def _release(w: JoinTables, r: JoinSettings, i: int, p: int) -> int:
    """The tuples of key `p` leave whose intervals are over (I5). Tuples of outer sides are logged."""
    return min(_leave(w, w.left, LEFT, p, r.after, i), _leave(w, w.right, RIGHT, p, r.before, i))


@inlined
def _leave(w: JoinTables, side: TimedSide, port: int, p: int, latest: int, i: int) -> int:
    """Removes the tuples of one side and key whose intervals are over. Returns the time after which the next leaves."""
    while side.lists[p].size:
        slot = side.lists[p].oldest
        until = side.nodes[slot].time + latest
        if until >= w.scalars[CLOCK]:
            return until  # type: ignore[no-any-return]
        if side.outer and port == LEFT:
            timed_lists.note(w, slot, NOTHING, i, p)
        elif side.outer:
            timed_lists.note(w, NOTHING, slot, i, p)
        timed_lists.drop_oldest(w, side, port, p)
    return ENDLESS
