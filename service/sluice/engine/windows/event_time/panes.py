"""Decides when the panes of a timeInterval window fire (reference section 5).

A pane consists of slices of gcd(period, duration) ticks, so a tuple is stored in one slice however many panes contain
it. Where panes do not overlap, a slice is a whole pane. Only advancing watermarks make panes fire (E22). Each partition
stores the end of its next pane. A priority queue (timer_queue.py) orders these ends, so a watermark costs O(panes that
fire), however many partitions exist.

At each watermark, all complete panes with something new fire. So a pane that was complete before has something new
exactly if a tuple came to one of its slices since the last watermark (`epoch`). A pane that becomes complete has
something new exactly if it has slices.

With results of empty panes (EP1) a partition also stores the end of the next pane that may come out empty, and what is
due next is the earlier one of both. So empty panes come out in the same order, at the same watermarks.

Where each key has a time of its own (KT1), its tuples move its watermark, and only its panes fire then. The queue has a
partition only while the clock closes its panes: so the panes of all keys that are idle at one instant fire in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.stream.items import TIMER, TUPLE, WATERMARK
from sluice.engine.windows import early_results
from sluice.engine.windows.event_time import key_times
from sluice.engine.windows.event_time.event_log import (
    append_early_firing,
    append_event,
    append_firing,
    append_insert,
    append_late,
    pass_watermark_on,
    room,
)
from sluice.engine.windows.event_time.event_records import (
    ANEW,
    EMPTY,
    ENDLESS,
    EPOCH,
    FIRST_PANE,
    FORGET,
    LAST,
    LEFT_OUT,
    NEVER,
    PANES,
    TAKEN,
    Window,
)
from sluice.engine.windows.event_time.key_times import FORGOTTEN
from sluice.engine.windows.event_time.timed_items import look_ahead
from sluice.engine.windows.event_time.timeline import add, drop_oldest, not_after
from sluice.engine.windows.event_time.timeline_blocks import far
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule

#: takes the place of a tuple's lateness if no pane can contain the tuple
NO_PANE = -1


class Grid(NamedTuple):
    """The panes [offset + k * period, offset + k * period + duration) of all integers k, in ticks. Slices have `slice`
    ticks, and the first one of a pane begins with it.

    If they are `cumulating`, the panes are [start, start + k * period) for each k from 1 on, up to start + duration;
    the starts are offset + n * duration, and a slice has `period` ticks (CU1).
    """

    duration: int
    period: int
    discard_age: int
    offset: int
    slice: int
    #: duration modulo period: how far the end of a pane is behind the latest start of another pane
    rest: int
    cumulating: bool
    #: whether distances of ticks are no lengths of time: what `discard_age` means comes with the arrivals (ARRIVAL)
    dated: bool
    #: how long a key lives behind its latest pane with tuples (EP2); -1: empty panes have no results
    forget: int
    #: whether the lengths of lives come with the arrivals, as distances of ticks are no lengths of time
    spanned: bool
    #: a watermark from here on is the maximum
    latest: int
    #: how many empty panes that follow each other one watermark gives at most (EP6)
    most: int
    #: whether each key has a time of its own (KT1)
    keyed: bool


@kernel
def run(w: Window, g: Grid, arrivals: np.ndarray, end: int, first: int) -> int:
    """Handles the items from number `first` on, then what is due by `end` (operator clock).

    Returns the number of the item at which an output table was full, or the number of items + 1 if all were handled.
    """
    looking = far(w.room)
    for i in range(first, len(arrivals) + 1):
        if not _pass_time(w, g, arrivals[i].at if i < len(arrivals) else end):
            return i
        if i == len(arrivals):
            break
        if looking:
            look_ahead(w, arrivals, i)
        if not _handle(w, g, arrivals, i):
            return i
    return len(arrivals) + 1


@inlined
def _handle(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> bool:
    """Handles an item. Returns False if an output table is full, and it has to be handled again."""
    if arrivals[i].kind == TUPLE:
        return _take(w, g, arrivals, i) and (not g.keyed or _move_key(w, g, arrivals, i))
    if arrivals[i].kind == WATERMARK:
        return _end_keys(w, g, arrivals, i) if g.keyed else _advance(w, g, arrivals, i)
    return True


@inlined
def _take(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> bool:
    """Takes a tuple in, unless that was done before. Returns False if an output table is full."""
    if g.keyed and w.scalars[TAKEN]:
        return True
    if not room(w, 2, 1):
        return False
    _arrive(w, g, arrivals, i)
    return True


# ---- the grid -------------------------------------------------------------------------------------------------------


@inlined
def phase_of(g: Grid, time: int) -> int:
    """The distance of a time from the last start of a pane at or before it, never negative. All bounds of panes follow
    from it without another division by a size that is not a step, which is the slowest instruction here.
    """
    return (time - g.offset) % (g.duration if g.cumulating else g.period)


@inlined
def _next_end(g: Grid, time: int, phase: int) -> int:
    """The end of the first pane that ends after `time`."""
    if g.cumulating:
        return time - phase % g.period + g.period
    since = phase - g.rest
    return time + g.period - (since if since >= 0 else since + g.period)


@inlined
def first_end(g: Grid, time: int, phase: int) -> int:
    """The end of the first pane that contains the slice that starts at `time` (E12). No pane extends across 0 (E13)."""
    end = _next_end(g, time, phase)
    return end if time < 0 or g.cumulating else max(end, g.offset + g.duration)


@inlined
def last_end(g: Grid, time: int, phase: int) -> int:
    """The end of the last pane that contains the slice that starts at `time` (E11, CU2)."""
    end = time - phase + g.duration
    return end if time >= 0 or g.cumulating else min(end, _next_end(g, 0, phase_of(g, 0)) - g.period)


@inlined
def start_of(g: Grid, end: int) -> int:
    """The start of the pane that ends at `end`."""
    return end - 1 - phase_of(g, end - 1) if g.cumulating else end - g.duration


@inlined
def _watermark(w: Window, g: Grid, p: int) -> int:
    """The watermark of the partition: that of the stream, or its own (KT1)."""
    return w.keys.times[p].watermark if g.keyed else w.clocks[0]  # type: ignore[no-any-return]


@inlined
def _epoch(w: Window, g: Grid, p: int) -> int:
    """A number that changes whenever panes of the partition may have fired."""
    return w.keys.times[p].epoch if g.keyed else w.scalars[EPOCH]  # type: ignore[no-any-return]


@inlined
def _late_before(w: Window, g: Grid, p: int) -> int:
    """The time before which a tuple is late, and at which a pane that ends then is closed (E18, E28). Not for `dated`
    panes of keys with times of their own.
    """
    return w.drop[0] if g.dated else _watermark(w, g, p) - g.discard_age


@inlined
def _behind(w: Window, g: Grid, p: int, i: int, time: int) -> int:
    """How far the tuple of item `i` is behind the time before which tuples are late; positive if it is late."""
    if g.dated and g.keyed:
        return _watermark(w, g, p) - w.keys.marks[i].aged  # type: ignore[no-any-return]
    return _late_before(w, g, p) - time


# ---- tuples ---------------------------------------------------------------------------------------------------------


@inlined
def _arrive(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> None:
    p, time = arrivals[i].partition, arrivals[i].time
    watermark = _watermark(w, g, p)
    # E18, E19, CU4: lateness depends on the tuple's time, not on a pane's end; before the first watermark nothing is
    # late (E21)
    if watermark != NEVER and _behind(w, g, p, i, time) > 0:
        append_late(w, i, _behind(w, g, p, i, time))
        return
    phase = phase_of(g, time)
    if phase >= g.duration:  # E15: in a gap between panes
        return
    parts, nodes = w.partitions, w.nodes
    inside = phase % g.slice
    time, phase = time - inside, phase - inside
    end = first_end(g, time, phase)
    if end > last_end(g, time, phase):  # E14
        append_late(w, i, NO_PANE)
        return
    node = _slice_at(w, g, p, time, phase, arrivals[i].drop)
    if g.spanned:
        w.spans[node] = w.lives[i]
    append_insert(w, p, arrivals[i].slot, node)
    if w.early.policy.wanted:
        _count_early(w, g, node, end, arrivals, i)
    if watermark != NEVER and end <= watermark:  # late: a pane is complete already (E20)
        _freshen(w, g, p, node)
    if parts[p].open == NIL or time < nodes[parts[p].open].time:
        parts[p].open = node
    if end < parts[p].fire or node == parts[p].oldest:
        parts[p].fire = min(parts[p].fire, end)
        if not g.keyed:
            schedule(parts, w.matches, w.starts[0], p, _due(w, g, p))


@inlined
def _freshen(w: Window, g: Grid, p: int, node: int) -> None:
    """A late tuple came to the slice `node`, so its complete panes fire again at the next watermark."""
    parts, nodes, epoch = w.partitions, w.nodes, _epoch(w, g, p)
    nodes[node].epoch = epoch
    if parts[p].epoch != epoch or parts[p].fresh == NIL or nodes[node].time < nodes[parts[p].fresh].time:
        parts[p].epoch = epoch
        parts[p].fresh = node


@inlined
def _slice_at(w: Window, g: Grid, p: int, time: int, phase: int, closing: int) -> int:
    """The slice of the partition that begins at `time`; a new one if it has none."""
    nodes, node = w.nodes, not_after(w.partitions, w.nodes, p, time)
    if node != NIL and nodes[node].time == time:
        return node
    node = add(w.partitions, nodes, w.room, p, node, time)
    nodes[node].epoch = NEVER
    nodes[node].phase = phase
    if g.dated:
        w.closings[node] = closing
    return node


@inlined
def _count_early(w: Window, g: Grid, node: int, end: int, arrivals: np.ndarray, i: int) -> None:
    """Counts a tuple of the pane that is the slice `node`, if the pane is not complete yet (F7)."""
    watermark = _watermark(w, g, arrivals[i].partition)
    is_open = watermark == NEVER or watermark < end
    if is_open and early_results.count_tuple(w.early, node, arrivals[i].partition, arrivals[i].at):
        _fire_early(w, g, node, arrivals[i].event, arrivals[i].at)


@inlined
def _fire_early_by(w: Window, g: Grid, now: int) -> bool:
    """Emits the early results that are due by `now` (inclusive), at their due times (F2). Returns False if an output
    table is full and some remain.
    """
    while True:
        node = early_results.due_by(w.early, now)
        if node == NIL:
            return True
        if not room(w, 1, 1):
            return False
        _fire_early(w, g, node, TIMER, w.early.windows[node].due)


@inlined
def _fire_early(w: Window, g: Grid, node: int, event: int, at: int) -> None:
    """Emits what the pane of a slice holds so far. The firing does not count as one of the pane (F7)."""
    start = w.nodes[node].time
    end = start + g.duration
    append_early_firing(w, w.early.windows[node].partition, event, at, start, end, end - 1)
    early_results.start_again(w.early, node)


@inlined
def _first_end(w: Window, g: Grid, node: int) -> int:
    return first_end(g, w.nodes[node].time, w.nodes[node].phase)


@inlined
def _last_end(w: Window, g: Grid, node: int) -> int:
    return last_end(g, w.nodes[node].time, w.nodes[node].phase)


@inlined
def _due(w: Window, g: Grid, p: int) -> int:
    """When the next pane of the partition fires, or comes out empty, or its oldest slice can be dropped; ENDLESS if
    none of this happens.
    """
    oldest, due = w.partitions[p].oldest, ENDLESS
    if oldest != NIL:
        due = min(w.partitions[p].fire, _closed(w, g, oldest))
    if g.forget >= 0 and w.fillings[p].next <= w.fillings[p].until:
        due = min(due, w.fillings[p].next)
    return due


@inlined
def _closed(w: Window, g: Grid, node: int) -> int:
    """The time at which the last pane of a slice is closed (E28)."""
    return w.closings[node] if g.dated else _last_end(w, g, node) + g.discard_age


# ---- watermarks -----------------------------------------------------------------------------------------------------


@inlined
def _advance(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> bool:
    """Handles a watermark: panes become complete, fire and close (E23), in order of their ends. Returns False if an
    output table is full.
    """
    now = arrivals[i].time
    if w.clocks[0] != NEVER and now <= w.clocks[0]:  # E22
        if room(w, 0, 1):
            pass_watermark_on(w, arrivals[i])
            return True
        return False
    if not w.scalars[TAKEN]:
        w.scalars[TAKEN] = 1
        w.scalars[LAST] = NEVER
    start, looking = w.starts[0], far(w.room)
    while w.matches[start + ROOT].due <= now:
        if not room(w, 2, 1) or w.scalars[FIRST_PANE] + w.scalars[PANES] == len(w.panes):
            return False
        p = w.matches[start + ROOT].partition
        if looking:
            _bring_near(w, p + AHEAD)
        _step(w, g, p, arrivals[i].event, arrivals[i].at, now)
        schedule(w.partitions, w.matches, start, p, _due(w, g, p))
    if not room(w, 0, 1):
        return False
    pass_watermark_on(w, arrivals[i])
    w.scalars[TAKEN] = 0
    w.clocks[0] = now
    if g.dated:
        w.drop[0] = arrivals[i].drop
    w.scalars[EPOCH] += 1
    _close(w, g)
    return True


@inlined
def _bring_near(w: Window, p: int) -> None:
    """Prefetches the slices that `_step` reads for partition `p`. Partitions that are due together are handled in order
    of their numbers, so the partition some numbers ahead comes soon.
    """
    if p < len(w.partitions) and w.partitions[p].size:
        prefetch(w.nodes, w.partitions[p].oldest)
        if w.partitions[p].open != NIL:
            prefetch(w.nodes, w.partitions[p].open)


@inlined
def _step(w: Window, g: Grid, p: int, event: int, at: int, now: int) -> None:
    """Does what is due for partition `p` at the watermark `now`: its next pane fires, its oldest slice is dropped, or
    both. `event` and `at` are those of the firing.

    A partition that took part in no completed pane fires like the others (E34, O15).
    """
    parts = w.partitions
    end, due, node = parts[p].fire, parts[p].due, parts[p].oldest
    if node == NIL or end > due:
        if g.forget >= 0 and w.fillings[p].next <= min(w.fillings[p].until, due):
            _fill(w, g, p, event, at, now)
    else:
        index = 0 if g.keyed else _fired_before(w, g, end)
        if g.forget >= 0:
            if g.keyed and w.fillings[p].until == NEVER:
                index = ANEW
            _live_on(w, g, p, end)
        append_firing(w, p, event, at, start_of(g, end), end, end - 1, index)
        if w.early.policy.wanted and parts[p].open != NIL and w.nodes[parts[p].open].time + g.duration == end:
            early_results.start_again(w.early, parts[p].open)  # F3
        parts[p].fire = _next(w, g, p, end)
    if node != NIL and _closed(w, g, node) <= due:
        if parts[p].open == node:
            parts[p].open = w.nodes[node].younger
        if parts[p].fresh == node:
            parts[p].fresh = w.nodes[node].younger
        append_event(w, FORGET, p, NIL, w.nodes[node].time, w.nodes[node].time)
        drop_oldest(parts, w.nodes, w.room, p)


@inlined
def _next(w: Window, g: Grid, p: int, end: int) -> int:
    """The end of the partition's first pane behind `end` in which something is new (E16, E24, E25, CU3); ENDLESS if
    there is none.
    """
    parts, nodes, watermark, next_end = w.partitions, w.nodes, _watermark(w, g, p), ENDLESS
    epoch = _epoch(w, g, p)
    if parts[p].epoch == epoch:
        node = parts[p].fresh
        while node != NIL and (nodes[node].epoch != epoch or _last_end(w, g, node) <= end):
            node = nodes[node].younger
            if node != NIL and _first_end(w, g, node) > watermark:
                node = NIL
        parts[p].fresh = node
        if node != NIL:
            late = max(end + g.period, _first_end(w, g, node))
            if late <= watermark:
                next_end = late
    beyond = end if watermark == NEVER else max(end, watermark)
    node = parts[p].open
    while node != NIL and _last_end(w, g, node) <= beyond:
        node = nodes[node].younger
    parts[p].open = node
    if node != NIL:
        following = end + g.period if beyond == end else _next_end(g, beyond, phase_of(g, beyond))
        next_end = min(next_end, max(following, _first_end(w, g, node)))
    return next_end


# ---- a time of each key ---------------------------------------------------------------------------------------------


@inlined
def _move_key(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> bool:
    """Moves the time of the key of a tuple, whose panes fire (KT2). Returns False if an output table is full; the tuple
    itself is then taken in.
    """
    k, p = w.keys, arrivals[i].partition
    if not w.scalars[TAKEN]:
        w.scalars[TAKEN], w.scalars[LAST] = 1, NEVER
        key_times.wait_anew(k, p, arrivals[i].at)
    if key_times.gives_watermark(k, p, i):
        if k.marks[i].watermark > k.times[p].watermark:
            if not _fire_key(w, g, p, arrivals[i].event, arrivals[i].at, k.marks[i].watermark):
                return False
            key_times.advance(k, p, i)
        k.times[p].made = k.marks[i].made
    w.scalars[TAKEN] = 0
    return True


@inlined
def _fire_key(w: Window, g: Grid, p: int, event: int, at: int, now: int) -> bool:
    """Does all that is due for the partition by `now`. Returns False if an output table is full."""
    while True:
        due = _due(w, g, p)
        if due > now:
            return True
        if not room(w, 2, 1):
            return False
        w.partitions[p].due = due
        _step(w, g, p, event, at, now)
        w.partitions[p].due = ENDLESS


@inlined
def _pass_time(w: Window, g: Grid, now: int) -> bool:
    """Does what the operator clock causes until `now` (inclusive), in order of time: early results (F2), and the panes
    of keys that are idle, or forgotten, close (KT3, KT4). A pane that fires has no early result of the same instant.
    Returns False if an output table is full and something remains.
    """
    k = w.keys
    while g.keyed:
        if k.instant[0] == NEVER:
            due = key_times.next_instant(k, now)
            if due == ENDLESS:
                break
            if w.early.policy.wait > 0 and not _fire_early_by(w, g, due - 1):
                return False
            _begin_to_close(w, g, due)
        if not _fire_aimed(w, g, TIMER, k.instant[0]):
            return False
        k.instant[0] = NEVER
    return w.early.policy.wait <= 0 or _fire_early_by(w, g, now)


@inlined
def _begin_to_close(w: Window, g: Grid, instant: int) -> None:
    """All keys whose wait is over at this instant get a goal: behind their panes, or the end if they are forgotten."""
    w.keys.instant[0], w.scalars[LAST] = instant, NEVER
    while True:
        p = key_times.next_waiting(w.keys.idle, instant)
        if p == NIL:
            break
        youngest = w.partitions[p].youngest
        _aim(w, g, p, _last_end(w, g, youngest) if youngest != NIL else NEVER)
    while True:
        p = key_times.next_waiting(w.keys.forgotten, instant)
        if p == NIL:
            break
        _aim(w, g, p, FORGOTTEN)


@inlined
def _aim(w: Window, g: Grid, p: int, goal: int) -> None:
    """Plans the watermark `goal` for the partition; FORGOTTEN: the partition is to be forgotten."""
    key_time = w.keys.times[p]
    key_time.goal = max(goal, key_time.watermark)
    due = _due(w, g, p)
    if due <= key_time.goal:
        schedule(w.partitions, w.matches, w.starts[0], p, due)
    else:
        _reach(w, p)


@inlined
def _reach(w: Window, p: int) -> None:
    """The partition has reached its goal."""
    if key_times.reach_goal(w.keys, p) and len(w.fillings):
        w.fillings[p].next = NEVER + 1
        w.fillings[p].until = NEVER


@inlined
def _fire_aimed(w: Window, g: Grid, event: int, at: int) -> bool:
    """Fires the panes of all partitions that have a goal. Returns False if an output table is full."""
    start = w.starts[0]
    while w.matches[start + ROOT].due != ENDLESS:
        if not room(w, 2, 1):
            return False
        p = w.matches[start + ROOT].partition
        goal = w.keys.times[p].goal
        _step(w, g, p, event, at, goal)
        due = _due(w, g, p)
        schedule(w.partitions, w.matches, start, p, due if due <= goal else ENDLESS)
        if due > goal:
            _reach(w, p)
    return True


@inlined
def _end_keys(w: Window, g: Grid, arrivals: np.ndarray, i: int) -> bool:
    """Handles the maximum watermark, the only one of a stream whose keys have times of their own: the panes of all keys
    fire (KT5). Returns False if an output table is full.
    """
    if not w.scalars[TAKEN]:
        w.scalars[TAKEN], w.scalars[LAST] = 1, NEVER
        for p in range(len(w.partitions)):
            if w.partitions[p].size:
                _aim(w, g, p, arrivals[i].time)
    if not _fire_aimed(w, g, arrivals[i].event, arrivals[i].at) or not room(w, 0, 1):
        return False
    pass_watermark_on(w, arrivals[i])
    w.scalars[TAKEN] = 0
    return True


# ---- panes without tuples -------------------------------------------------------------------------------------------


@inlined
def _existing(g: Grid, end: int) -> int:
    """`end`, or the end of the first pane behind 0 if that pane would extend across 0 (E13)."""
    return end if end <= 0 or g.cumulating else max(end, g.offset + g.duration)


@inlined
def _panes_until(g: Grid, end: int, last: int) -> int:
    """How many panes end from `end` to `last`, both inclusive. `end` is that of a pane."""
    if end > 0 or last <= 0:
        return (last - end) // g.period + 1
    before_zero = -end // g.period + 1
    first = _existing(g, end + before_zero * g.period)
    return before_zero + max((last - first) // g.period + 1, 0)


@inlined
def _live_on(w: Window, g: Grid, p: int, end: int) -> None:
    """A pane with tuples fires: the key lives from its end on (EP2). No pane comes out empty that is not later than
    one that came out before.
    """
    filling = w.fillings[p]
    until = _span(w, p, end - g.duration) if g.spanned else end + g.forget
    filling.until = max(filling.until, until)
    filling.next = max(filling.next, _existing(g, end + g.period))


@inlined
def _span(w: Window, p: int, start: int) -> int:
    """The end of the life that the pane from `start` on gives, where a pane is a slice."""
    node = w.partitions[p].open
    if node == NIL or w.nodes[node].time != start:
        node = not_after(w.partitions, w.nodes, p, start)
    return w.spans[node]  # type: ignore[no-any-return]


@inlined
def _fill(w: Window, g: Grid, p: int, event: int, at: int, now: int) -> None:
    """The next empty pane comes out (EP1), or is left out: if the end of the stream completes it (EP7), or if too many
    follow it at this watermark (EP6).
    """
    filling = w.fillings[p]
    end, fire = filling.next, w.partitions[p].fire if w.partitions[p].oldest != NIL else ENDLESS
    if now >= g.latest and fire == ENDLESS:
        filling.until = end - 1
        return
    left_out = _panes_until(g, end, min(now, filling.until, fire - 1)) - g.most
    if left_out > 0:
        w.scalars[LEFT_OUT] += left_out
        behind = max(left_out - _panes_until(g, end, 0), 0) if end <= 0 else 0  # of them, how many are behind 0
        filling.next = _existing(g, end + (left_out - behind) * g.period) + behind * g.period
        return
    append_firing(w, p, event, at, start_of(g, end), end, end - 1, EMPTY)
    filling.next = _existing(g, end + g.period)


# ---- how often a pane has fired -------------------------------------------------------------------------------------


@inlined
def _fired_before(w: Window, g: Grid, end: int) -> int:
    """How often the pane fired before this watermark, in any partition (E29); this includes a partition that joins late
    (E31). 0 for a new pane (E30). Counts the firing that happens now.
    """
    if g.discard_age == 0:  # E26
        return 0
    low, high = w.scalars[FIRST_PANE], w.scalars[FIRST_PANE] + w.scalars[PANES]
    last = high
    while low < high:
        middle = (low + high) // 2
        if w.panes[middle].end < end:
            low = middle + 1
        else:
            high = middle
    if low == last or w.panes[low].end != end:
        for k in range(last, low, -1):
            w.panes[k] = w.panes[k - 1]
        w.panes[low].end = end
        w.panes[low].count = 0
        w.panes[low].epoch = NEVER
        w.scalars[PANES] += 1
    if w.panes[low].epoch != w.scalars[EPOCH]:
        w.panes[low].epoch = w.scalars[EPOCH]
        w.panes[low].count += 1
    return w.panes[low].count - 1  # type: ignore[no-any-return]


@inlined
def _close(w: Window, g: Grid) -> None:
    """Drops the counters of closed panes: those whose end plus discard age the watermark has reached (E28)."""
    while w.scalars[PANES] and w.panes[w.scalars[FIRST_PANE]].end <= _late_before(w, g, 0):
        w.scalars[FIRST_PANE] += 1
        w.scalars[PANES] -= 1
    first, count = w.scalars[FIRST_PANE], w.scalars[PANES]
    if first > count:  # moves the panes to the front: amortized O(1) for each pane that left
        for k in range(count):
            w.panes[k] = w.panes[first + k]
        w.scalars[FIRST_PANE] = 0
