"""Decides which windows of slidingTime (KIP-450) exist, and when they fire.

Each stored event time of a partition is a node. For each time t there is a left window, which ends at it: [t - D, t].
There is also a right window, which starts behind it, [t + 1, t + 1 + D], if it contains a tuple. The window sets of the
draft of the KIP have only one of the two. So the windows of a partition, in order of their ends, come from two walks
along its nodes: `open` is the node whose left window closes next, `oldest` the node whose right window closes next. A
node is dropped when its right window closes, because no open window can contain it then.

Each topic partition has its own stream time, by which windows close, because Kafka Streams has one task for each. A key
that comes from two topic partitions has two window partitions here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import prefetch
from sluice.engine.stream.items import STEP, TUPLE, WATERMARK
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


class SlidingSizes(NamedTuple):
    """The sizes of a window in milliseconds, and which windows exist."""

    difference: int
    grace: int
    #: whether each time has a window that ends at it
    left: bool
    #: whether each time has a window that starts `gap` (0 or 1) behind it
    right: bool
    gap: int
    #: whether a window fires whenever it changes, instead of once when it closes
    updates: bool
    #: whether watermarks advance stream time, too: those of a stream whose watermark follows the clock
    follows: bool


@kernel
def run(w: Window, s: SlidingSizes, arrivals: np.ndarray, first: int) -> int:
    """Handles the items from number `first` on. Returns the number of the item at which an output table was full, or
    the number of items if all were handled.

    A window that is open at the end never fires (KIP E8). Only tuples advance stream time (KIP T3), also those of
    other buckets, unless the stream's watermark follows the clock (Q5).
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
            if not _drain(w, s, w.partitions[arrivals[i].partition].source, arrivals, i):
                return i
        elif arrivals[i].kind == STEP and not _reach(w, s, arrivals, i):
            return i
        elif arrivals[i].kind == WATERMARK:
            if (s.follows and not _advance(w, s, arrivals, i)) or not room(w, 0, 1):
                return i
            pass_watermark_on(w, arrivals[i])
    return len(arrivals)


@inlined
def _close_time(w: Window, s: SlidingSizes, source: int) -> int:
    """A window that ends before this time is closed (KIP T4)."""
    return w.clocks[source] - s.grace  # type: ignore[no-any-return]


@inlined
def _left_end(s: SlidingSizes, time: int) -> int:
    """The end of the left window of a time. No window starts below 0: times up to D share the window [0, D]
    (KIP W6).
    """
    return max(time, s.difference)


@inlined
def _right_end(s: SlidingSizes, time: int) -> int:
    return time + s.gap + s.difference


# ---- a tuple --------------------------------------------------------------------------------------------------------


@inlined
def _arrive(w: Window, s: SlidingSizes, arrivals: np.ndarray, i: int) -> None:
    """Handles a tuple: it advances stream time (KIP T1), then its lateness is decided (KIP T5), and it is stored if an
    open window contains it. So a window contains the tuples that arrived while it was open (KIP R1).

    A dropped tuple creates no window and splits none later (KIP W9, D4). A new time becomes a node, in or out of order
    (KIP W7); a known time creates no window (KIP W10). If the left window of a new time is closed already, it is never
    created (KIP W8).
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
        if node in (parts[p].oldest, parts[p].open):  # other nodes do not change when the partition is due
            schedule(parts, w.matches, w.starts[source], p, _due(w, s, p))
    append_insert(w, p, arrivals[i].slot, node)
    if s.updates:
        _update(w, s, p, node, 1 if new else 0, arrivals, i)


@inlined
def _kept(w: Window, s: SlidingSizes, p: int, time: int, older: int, close: int) -> bool:
    """Whether an open window contains the time (KIP T7, T8, T9). A window that does not contain the time does not count
    (KIP D3).

    `older` is the youngest node that is not later than `time`.
    """
    is_needed = (s.left and _left_end(s, time) >= close) or (s.right and s.gap == 0 and _right_end(s, time) >= close)
    if is_needed:
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
def _due(w: Window, s: SlidingSizes, p: int) -> int:
    """The end of the next window of the partition, or of the right window of its oldest node, which can be dropped then
    (KIP S6); ENDLESS without nodes.
    """
    parts, nodes = w.partitions, w.nodes
    if parts[p].oldest == NIL:
        return ENDLESS
    due = _right_end(s, nodes[parts[p].oldest].time)
    return min(due, _left_end(s, nodes[parts[p].open].time)) if parts[p].open != NIL else due


# ---- closing --------------------------------------------------------------------------------------------------------


@inlined
def _advance(w: Window, s: SlidingSizes, arrivals: np.ndarray, i: int) -> bool:
    """Handles a watermark of a stream whose watermark follows the clock: no stream time is below it (Q5). Windows
    close, by topic partitions: firings of two topic partitions do not share a group. Returns False if an output table
    is full.
    """
    for source in range(len(w.clocks)):
        if w.clocks[source] < arrivals[i].time:
            w.clocks[source] = arrivals[i].time
            w.scalars[LAST] = NEVER
        if not _drain(w, s, source, arrivals, i):
            return False
    return True


@inlined
def _reach(w: Window, s: SlidingSizes, arrivals: np.ndarray, i: int) -> bool:
    """Handles the time of a tuple that another bucket has: it moves the stream time of its topic partition (ET2).
    Returns False if an output table is full.
    """
    source = arrivals[i].slot if len(w.clocks) > 1 else 0
    if w.clocks[source] < arrivals[i].time:
        w.clocks[source] = arrivals[i].time
        w.scalars[LAST] = NEVER
    return _drain(w, s, source, arrivals, i)


@inlined
def _drain(w: Window, s: SlidingSizes, source: int, arrivals: np.ndarray, i: int) -> bool:
    """Fires the windows that are closed now, in order of their ends (KIP E2). A window fires once (KIP E4), and none
    fires if stream time has not advanced (KIP E3). Returns False if an output table is full.
    """
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
    """Prefetches the node behind this one, which is used next and was stored long ago."""
    if node != NIL and w.nodes[node].younger != NIL:
        prefetch(w.nodes, w.nodes[node].younger)


@inlined
def _step(w: Window, s: SlidingSizes, p: int, arrivals: np.ndarray, i: int) -> None:
    """Closes the window that ends when partition `p` is due: a left window, a right one that contains a tuple (KIP W3),
    or both as one window (KIP W5). So no two windows contain the same tuples (KIP W2).
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
        append_firing(w, p, arrivals[i].event, arrivals[i].at, end - s.difference, end, end, 0)
    if passed:
        append_event(w, FORGET, p, NIL, nodes[right].time, nodes[right].time)
        drop_oldest(parts, nodes, w.room, p)


# ---- updates --------------------------------------------------------------------------------------------------------


@inlined
def _update(w: Window, s: SlidingSizes, p: int, node: int, is_new: int, arrivals: np.ndarray, i: int) -> None:
    """Fires every open window that contains the tuple at `node`, and the right window of a new node (KIP E1), in order
    of their starts. A window that is both a left and a right window fires once (KIP D7).

    `left` walks along the nodes whose left windows contain the tuple, `right` along those whose right windows do.
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
        while left != NIL and _left_end(s, nodes[left].time) - d == start:  # early times share one window
            left = nodes[left].younger
        if right != NIL and nodes[right].time + s.gap == start:  # it can be a left window too (KIP W5)
            right = nodes[right].younger
        append_firing(w, p, arrivals[i].event, arrivals[i].at, start, start + d, start + d, 0)
    if is_new and s.right and s.gap and _comes_into_being(w, s, node):
        end = _right_end(s, time)
        append_firing(w, p, arrivals[i].event, arrivals[i].at, end - d, end, end, 0)


@inlined
def _first_right(w: Window, s: SlidingSizes, node: int, close: int) -> int:
    """The oldest node whose right window is open and extends to `node`; NIL if there is none."""
    nodes = w.nodes
    least = max(nodes[node].time, close)
    right = node
    while nodes[right].older != NIL and _right_end(s, nodes[nodes[right].older].time) >= least:
        right = nodes[right].older
    if _right_end(s, nodes[right].time) < close:
        right = nodes[right].younger
    return right


@inlined
def _comes_into_being(w: Window, s: SlidingSizes, node: int) -> bool:
    """Whether the right window of a new node contains a tuple and is not also the left window of another
    node (KIP W5).
    """
    nodes, end = w.nodes, _right_end(s, w.nodes[node].time)
    younger = nodes[node].younger
    if younger == NIL or nodes[younger].time > end:
        return False
    while younger != NIL and nodes[younger].time < end:
        younger = nodes[younger].younger
    return bool(younger == NIL or nodes[younger].time != end)
