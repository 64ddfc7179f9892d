"""When the windows of slidingTime (KIP-450) exist, and when they come out.

Every kept event time of a partition is a node. For each time t there is a window that ends at it, [t - D, t] ("left"),
and one that starts behind it, [t + 1, t + 1 + D] ("right"), if something is in that; the window sets of the early draft
have only one of the two. So the windows of a partition, by their ends, are two walks along its nodes: `open` is
the node whose left window closes next, the oldest that whose right one does; with it, what only closed windows hold is
forgotten.

Stream time, and with it closing, is for each topic partition apart, as Kafka Streams has one task for each: a key
that comes from two of them has two partitions here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import prefetch
from sluice.engine.stream.items import TUPLE, WATERMARK
from sluice.engine.windows.event_time.event_log import (
    append_event,
    append_firing,
    append_insert,
    append_late,
    pass_watermark_on,
    room,
)
from sluice.engine.windows.event_time.event_records import ENDLESS, FORGET, LAST, NEVER, TAKEN, Window
from sluice.engine.windows.event_time.timed_items import look_ahead
from sluice.engine.windows.event_time.timeline import add, drop_oldest, not_after
from sluice.engine.windows.event_time.timeline_blocks import far
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule


class Shape(NamedTuple):
    """Sizes in milliseconds, and which windows there are."""

    difference: int
    grace: int
    #: whether a window ends at each time
    left: bool
    #: whether one starts at each time, or `gap` behind it
    right: bool
    gap: int
    #: whether windows come out whenever they change, not when they close
    updates: bool


@kernel
def run(w: Window, s: Shape, arrivals: np.ndarray, first: int) -> int:
    """Handles the items from number `first` on; gives the number of the item at which the room ran out, or of items.

    What is open at the end stays open (KIP E8).
    """
    looking = far(w.room)
    for i in range(first, len(arrivals)):
        if looking:
            look_ahead(w, arrivals, i)
        if arrivals[i].kind == TUPLE:
            if not w.scalars[TAKEN]:
                most = 2 * w.partitions[arrivals[i].partition].size + 4 if s.updates else 0
                if not room(w, most + 1, most):
                    return i
                _arrive(w, s, arrivals, i)
            if not _drain(w, s, arrivals, i):
                return i
        elif arrivals[i].kind == WATERMARK:
            if not room(w, 0, 1):
                return i
            pass_watermark_on(w, arrivals[i])  # only tuples move stream time (KIP T3)
    return len(arrivals)


@inlined
def _close_time(w: Window, s: Shape, source: int) -> int:
    """Windows that end before it are closed (KIP T4)."""
    return w.clocks[source] - s.grace  # type: ignore[no-any-return]


@inlined
def _left_end(s: Shape, time: int) -> int:
    """No window starts below 0: those of early times are one, [0, D] (KIP W6)."""
    return max(time, s.difference)


@inlined
def _right_end(s: Shape, time: int) -> int:
    return time + s.gap + s.difference


# ---- a tuple --------------------------------------------------------------------------------------------------------


@inlined
def _arrive(w: Window, s: Shape, arrivals: np.ndarray, i: int) -> None:
    """It advances stream time (KIP T1), is judged (KIP T5) and, if an open window holds it, kept.

    What is dropped leaves no trace (KIP W9, D4). A time that is new is a node, wherever it is among others (KIP W7),
    one that is known is not a second one (KIP W10); if its own window is closed already, that is never made (KIP W8).
    What came while a window was open is what it holds (KIP R1).
    """
    p, time = arrivals[i].partition, arrivals[i].time
    parts, nodes = w.partitions, w.nodes
    source = parts[p].source
    w.clocks[source] = max(w.clocks[source], time)
    w.scalars[TAKEN] = 1
    w.scalars[LAST] = NEVER
    close = _close_time(w, s, source)
    older = not_after(parts, nodes, p, time) if time >= close - s.difference else NIL
    if time < 0 or not _kept(w, s, p, time, older, close):
        append_late(w, i, close - time)
        return
    node, new = older, older == NIL or nodes[older].time != time
    if new:
        node = add(parts, nodes, w.room, p, older, time)
        if _left_end(s, time) >= close and (parts[p].open == NIL or time < nodes[parts[p].open].time):
            parts[p].open = node
        if node in (parts[p].oldest, parts[p].open):  # no other one is due earlier than the partition is
            schedule(parts, w.matches, w.starts[source], p, _due(w, s, p))
    append_insert(w, p, arrivals[i].slot, node)
    if s.updates:
        _update(w, s, p, node, 1 if new else 0, arrivals, i)


@inlined
def _kept(w: Window, s: Shape, p: int, time: int, older: int, close: int) -> bool:
    """Whether an open window holds the time (KIP T7, T8, T9), and none but these (KIP D3).

    `older` is the youngest node that is not later.
    """
    own = (s.left and _left_end(s, time) >= close) or (s.right and s.gap == 0 and _right_end(s, time) >= close)
    if own:
        return True
    if time < close - s.difference:  # late: no window that could hold it is open
        return False
    parts, nodes = w.partitions, w.nodes
    if s.left and parts[p].open != NIL and nodes[parts[p].open].time <= time + s.difference:
        return True
    if not (s.right and s.gap):
        return False
    if older != NIL and nodes[older].time == time:
        older = nodes[older].older
    return older != NIL and _right_end(s, nodes[older].time) >= close


@inlined
def _due(w: Window, s: Shape, p: int) -> int:
    """When the partition's next window ends, or when its oldest time may be forgotten (KIP S6)."""
    parts, nodes = w.partitions, w.nodes
    if parts[p].oldest == NIL:
        return ENDLESS
    due = _right_end(s, nodes[parts[p].oldest].time)
    return min(due, _left_end(s, nodes[parts[p].open].time)) if parts[p].open != NIL else due


# ---- closing --------------------------------------------------------------------------------------------------------


@inlined
def _drain(w: Window, s: Shape, arrivals: np.ndarray, i: int) -> bool:
    """The windows that are closed now come out, by their ends (KIP E2), once and for all (KIP E4).

    None is where stream time stands still (KIP E3). False: the room ran out.
    """
    source = w.partitions[arrivals[i].partition].source
    close = _close_time(w, s, source)
    start = w.starts[source]
    while w.matches[start + ROOT].due < close:
        if not room(w, 2, 1):
            return False
        p = w.matches[start + ROOT].partition
        _step(w, s, p, arrivals, i)
        schedule(w.partitions, w.matches, start, p, _due(w, s, p))
        _bring_near(w, w.partitions[p].oldest)
        _bring_near(w, w.partitions[p].open)
    w.scalars[TAKEN] = 0
    return True


@inlined
def _bring_near(w: Window, node: int) -> None:
    """The time behind that of a node, whose turn is next: it came long ago, and is far away."""
    if node != NIL and w.nodes[node].younger != NIL:
        prefetch(w.nodes, w.nodes[node].younger)


@inlined
def _step(w: Window, s: Shape, p: int, arrivals: np.ndarray, i: int) -> None:
    """The window that ends when partition `p` is due closes: a left one, a right one that holds something (KIP W3), or
    both in one (KIP W5): no two hold the same (KIP W2).
    """
    parts, nodes = w.partitions, w.nodes
    end, right = parts[p].due, parts[p].oldest
    closes = False
    while parts[p].open != NIL and _left_end(s, nodes[parts[p].open].time) == end:
        closes |= s.left
        parts[p].open = nodes[parts[p].open].younger
    passed = _right_end(s, nodes[right].time) == end
    if passed and s.right:
        younger = nodes[right].younger
        closes |= s.gap == 0 or (younger != NIL and nodes[younger].time <= end)
    if closes and not s.updates:
        append_firing(w, p, arrivals[i], end - s.difference, end, end, 0)
    if passed:
        append_event(w, FORGET, p, NIL, nodes[right].time, nodes[right].time)
        drop_oldest(parts, nodes, w.room, p)


# ---- updates --------------------------------------------------------------------------------------------------------


@inlined
def _update(w: Window, s: Shape, p: int, node: int, is_new: int, arrivals: np.ndarray, i: int) -> None:
    """Every open window that holds the tuple at `node`, and the one behind it if it is new (KIP E1), by their starts;
    one that is both a left and a right one comes once (KIP D7).

    `left` goes over the times whose left windows hold it, `right` over those whose right windows do.
    """
    nodes, d, close = w.nodes, s.difference, _close_time(w, s, w.partitions[p].source)
    time = nodes[node].time
    left = node if s.left else NIL
    while left != NIL and _left_end(s, nodes[left].time) < close:
        left = nodes[left].younger
    right = _first_right(w, s, node, close) if s.right else NIL
    while True:
        start = ENDLESS
        if left != NIL and nodes[left].time <= time + d:
            start = _left_end(s, nodes[left].time) - d
        if right != NIL and nodes[right].time <= time - s.gap:
            start = min(start, nodes[right].time + s.gap)
        if start == ENDLESS:
            break
        while left != NIL and _left_end(s, nodes[left].time) - d == start:  # of early times there are several
            left = nodes[left].younger
        if right != NIL and nodes[right].time + s.gap == start:  # it may be the left one too (KIP W5)
            right = nodes[right].younger
        append_firing(w, p, arrivals[i], start, start + d, start + d, 0)
    if is_new and s.right and s.gap and _comes_into_being(w, s, node):
        end = _right_end(s, time)
        append_firing(w, p, arrivals[i], end - d, end, end, 0)


@inlined
def _first_right(w: Window, s: Shape, node: int, close: int) -> int:
    """The oldest time whose right window is open and reaches `node`."""
    nodes = w.nodes
    least = max(nodes[node].time, close)
    right = node
    while nodes[right].older != NIL and _right_end(s, nodes[nodes[right].older].time) >= least:
        right = nodes[right].older
    if _right_end(s, nodes[right].time) < close:
        right = nodes[right].younger
    return right


@inlined
def _comes_into_being(w: Window, s: Shape, node: int) -> bool:
    """Whether the right window of a new time holds something, and was no left window before (KIP W5)."""
    nodes, end = w.nodes, _right_end(s, w.nodes[node].time)
    younger = nodes[node].younger
    if younger == NIL or nodes[younger].time > end:
        return False
    while younger != NIL and nodes[younger].time < end:
        younger = nodes[younger].younger
    return bool(younger == NIL or nodes[younger].time != end)
