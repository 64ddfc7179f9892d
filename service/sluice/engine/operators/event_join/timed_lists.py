"""Lists of stored tuples in order of event time, one for each key and side. Equal times are in order of arrival.

A search starts at the youngest tuple. It takes one step if event time advances, else O(log n) steps for n younger
tuples. Each tuple has a leap to an older one; the lengths of leaps follow skew-binary numbers (Myers, "An applicative
random-access stack", 1983). A tuple that enters between others makes leaps longer. A leap is valid as long as the tuple
to which it leads is stored: the number of a tuple's arrival identifies it.

    oldest --> t=1 <--> t=4 <--> t=4 <--> t=7 <-- youngest
                ^----------leap-----------|
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.operators.event_join.event_join_records import (
    ARRIVED,
    CLOCK,
    LEFT,
    LEFT_FINAL,
    LEFT_FREED,
    LIVE,
    LOGGED,
    NOTHING,
    RIGHT_FREED,
    TOO_LATE,
    JoinSettings,
    JoinTables,
    TimedSide,
)
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK
from sluice.engine.windows.event_time.timer_queue import due_before, postpone, replay

#: called as `tuple_arrives(tables, settings, arrivals, i)`: handles a tuple. False if the log has no room
TupleArrives = Callable[[JoinTables, JoinSettings, np.ndarray, int], bool]
#: called as `look_ahead(tables, settings, arrivals, i)`: prefetches for arrivals behind number `i`. Changes no result
LookAhead = Callable[[JoinTables, JoinSettings, np.ndarray, int], None]
#: called as `settle(tables, settings, i, p)`: removes and logs what the watermark of arrival `i` makes certain for key
#: `p`. Returns when the key is due again: not before the clock
Settle = Callable[[JoinTables, JoinSettings, int, int], int]


@inlined
def handled(
    w: JoinTables, r: JoinSettings, arrivals: np.ndarray, first: int,
    look_ahead: LookAhead, tuple_arrives: TupleArrives, settle: Settle,
) -> int:  # fmt: skip
    """Handles the arrivals from number `first` on. Returns the number of the arrival for which the log has no room, to
    continue there, or the number of arrivals if all were handled.
    """
    for i in range(first, len(arrivals)):
        look_ahead(w, r, arrivals, i)
        if arrivals[i].kind == TUPLE:
            if not tuple_arrives(w, r, arrivals, i):
                return i
        elif arrivals[i].kind == WATERMARK:
            if w.used[LOGGED] + w.scalars[LIVE] + 1 > len(w.log):
                return i
            w.scalars[CLOCK] = arrivals[i].time
            _settle_due(w, r, i, settle)
            note(w, NOTHING, NOTHING, i, NIL)
        elif arrivals[i].kind == FINAL:
            w.scalars[LEFT_FINAL + arrivals[i].port] = 1
    return len(arrivals)


@inlined
def _settle_due(w: JoinTables, r: JoinSettings, i: int, settle: Settle) -> None:
    """Settles all keys that are due before the clock."""
    first, end = due_before(w.tree, w.scalars[CLOCK], w.found)
    for k in range(first, end):
        if k + 2 * AHEAD < end:
            soon = w.tree[w.found[k + 2 * AHEAD]].partition
            _prefetch_oldest(w.left, soon)
            _prefetch_oldest(w.right, soon)
        if k + AHEAD < end:
            next_ = w.tree[w.found[k + AHEAD]].partition
            _prefetch_second(w.left, next_)
            _prefetch_second(w.right, next_)
        p = w.tree[w.found[k]].partition
        postpone(w.keys, w.tree, p, settle(w, r, i, p))
    replay(w.tree, w.found, first)


@inlined
def _prefetch_oldest(side: TimedSide, p: int) -> None:
    if side.lists[p].size:
        prefetch(side.nodes, side.lists[p].oldest)


@inlined
def _prefetch_second(side: TimedSide, p: int) -> None:
    if side.lists[p].size > 1:
        prefetch(side.nodes, side.nodes[side.lists[p].oldest].younger)


@inlined
def not_after(side: TimedSide, p: int, time: int) -> int:
    """The youngest tuple of key `p` that is not later than `time`; NIL if all are later."""
    node = side.lists[p].youngest
    while node != NIL and side.nodes[node].time > time:
        node = step_towards(side.nodes, p, node, time)
    return node  # type: ignore[no-any-return]


@inlined
def step_towards(nodes: np.ndarray, p: int, node: int, time: int) -> int:
    """A step of a search for `time` from a tuple of key `p` that is later: along its leap, unless that goes too far."""
    leap = nodes[node].leap
    valid = leap != NIL and nodes[leap].owner == p and nodes[leap].number == nodes[node].landing
    return leap if valid and nodes[leap].time > time else nodes[node].older  # type: ignore[no-any-return]


@inlined
def prefetch_entry(w: JoinTables, side: TimedSide, slot: int, p: int) -> None:
    """Prefetches what `enter` writes: the tuple's slot, and the youngest tuple of its key, which is its neighbour most
    of the time.
    """
    prefetch(side.nodes, slot)
    prefetch(w.keys, p)
    if side.lists[p].size:
        prefetch(side.nodes, side.lists[p].youngest)


@inlined
def enter(w: JoinTables, side: TimedSide, arrivals: np.ndarray, i: int, p: int) -> None:
    """Stores the tuple of arrival `i` in the list of key `p`, behind the tuples that are not later."""
    slot, time = arrivals[i].slot, arrivals[i].time
    older = not_after(side, p, time)
    node = side.nodes[slot]
    node.time = time
    node.number = w.scalars[ARRIVED]
    node.owner = p
    node.lone = arrivals[i].lone
    _aim(side.nodes, p, older, slot)
    intrusive_list.insert(side.lists, p, side.nodes, older, slot)
    side.lists[p].size += 1
    w.scalars[ARRIVED] += 1
    w.scalars[LIVE] += 1


@inlined
def _aim(nodes: np.ndarray, p: int, older: int, node: int) -> None:
    """Sets the leap: over the next two leaps if both are equally long, otherwise to the next older tuple."""
    nodes[node].leap = older
    nodes[node].span = 1
    nodes[node].landing = 0
    if older == NIL:
        return
    nodes[node].landing = nodes[older].number
    next_ = nodes[older].leap
    if next_ == NIL or nodes[next_].owner != p or nodes[next_].number != nodes[older].landing:
        return
    if nodes[older].span == nodes[next_].span and nodes[next_].leap != NIL:
        nodes[node].leap = nodes[next_].leap
        nodes[node].landing = nodes[next_].landing
        nodes[node].span = 2 * nodes[older].span + 1


@inlined
def drop_oldest(w: JoinTables, side: TimedSide, port: int, p: int) -> None:
    """Removes the oldest tuple of key `p`. It stays readable until the batch is over."""
    slot = side.lists[p].oldest
    intrusive_list.unlink(side.lists, p, side.nodes, slot)
    side.lists[p].size -= 1
    side.nodes[slot].owner = NIL
    w.scalars[LIVE] -= 1
    free(w, side, port, slot)


@inlined
def free(w: JoinTables, side: TimedSide, port: int, slot: int) -> None:
    entry = LEFT_FREED if port == LEFT else RIGHT_FREED
    side.freed[w.used[entry]] = slot
    w.used[entry] += 1


@inlined
def note(w: JoinTables, left: int, right: int, cause: int, key: int) -> None:
    entry = w.log[w.used[LOGGED]]
    entry.left = left
    entry.right = right
    entry.cause = cause
    entry.key = key
    w.used[LOGGED] += 1


@inlined
def refuse_late(w: JoinTables, side: TimedSide, arrivals: np.ndarray, i: int) -> bool:
    """Whether the tuple is before the watermark of the join less the grace (I4, U4). A late tuple is not stored."""
    if arrivals[i].time >= w.scalars[CLOCK]:
        return False
    w.late[w.used[TOO_LATE]].arrival = i
    w.late[w.used[TOO_LATE]].behind = w.scalars[CLOCK] - arrivals[i].time
    w.used[TOO_LATE] += 1
    free(w, side, arrivals[i].port, arrivals[i].slot)
    return True
