"""When sessions begin, grow, merge and are over (docs/reference/session.md).

A tuple reaches from its time to its time plus its gap. Tuples that touch are one session (G1, G2), so the sessions of a
key are stretches of time that do not touch, and a new tuple touches the two beside it, or with a large gap of its own
some behind them. The oldest session of a key is always the first that is over: it reaches less far than any younger
session, with a maximum duration, too (G9).

    key a   |--session--|      |-session-|          times of tuples, without gaps
            first    last  reach                    reach: the latest time that may join
"""

# A record of an array has its fields as attributes, which numpy tells no type checker.
# ruff: noqa: ANN401

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.session.session_list import enter, not_after, take, younger_of
from sluice.engine.operators.session.session_records import (
    FIRE,
    FORGET,
    FREE_SESSION,
    GROUP,
    INSERT,
    LAST,
    MERGE,
    SESSIONS,
    Rule,
    Sessions,
)
from sluice.engine.stream.items import TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule


@kernel
def run(w: Sessions, r: Rule, arrivals: np.ndarray, first: int, end: int) -> int:
    """Handles the items from number `first` on. Gives the number of the item at which the room ran out, or that of the
    items and one more.

    Over the clock, what is over before an item comes before it (G12), and what is over by `end` at last.
    """
    for i in range(first, len(arrivals)):
        if r.clock and not _close(w, r, arrivals[i].at, TIMER, arrivals[i].at):
            return i
        if arrivals[i].kind == TUPLE:
            if not _room(w, w.partitions[arrivals[i].partition].size + 3, 1):
                return i
            _arrive(w, r, arrivals, i)
        elif arrivals[i].kind == WATERMARK and not _advance(w, r, arrivals[i]):
            return i
    if r.clock and not _close(w, r, end, TIMER, end):
        return len(arrivals)
    return len(arrivals) + 1


@inlined
def _reach(r: Rule, first: int, until: int) -> int:
    """The latest time of a tuple that could still join a session (G5, G9)."""
    return until if r.longest == ENDLESS else min(until, first + r.longest)


@inlined
def _session_reach(w: Sessions, r: Rule, s: int) -> int:
    return _reach(r, w.sessions[s].first, w.sessions[s].until)


@inlined
def _due(w: Sessions, r: Rule, p: int) -> int:
    """The time after which the oldest session of a key is over (G5)."""
    oldest = w.partitions[p].oldest
    return _session_reach(w, r, oldest) + r.grace if oldest != NIL else ENDLESS


# ---- a tuple --------------------------------------------------------------------------------------------------------


@inlined
def _arrive(w: Sessions, r: Rule, arrivals: np.ndarray, i: int) -> None:
    """A tuple joins what it touches (G2, G3): `s` is the oldest session of that, the younger ones up to `end` merge."""
    p, time = arrivals[i].partition, arrivals[i].time
    lists, sessions = w.partitions, w.sessions
    first, last, until = time, time, time + arrivals[i].gap
    older = not_after(lists, sessions, p, time)
    y = younger_of(lists, sessions, p, older)
    s = NIL
    if (y == NIL or sessions[y].first > time) and _joins(w, r, older, time):
        s = older
        first, last = sessions[s].first, max(last, sessions[s].last)
        until = max(until, sessions[s].until)
    merging = y
    while y != NIL and _touches(w, r, y, first, last, until):
        if s == NIL:
            s = y
            merging = sessions[y].younger
        first, last = min(first, sessions[y].first), max(last, sessions[y].last)
        until = max(until, sessions[y].until)
        y = sessions[y].younger
    if not r.clock and w.clocks[0] != NEVER and _reach(r, first, until) + r.grace < w.clocks[0]:  # G7
        w.late[w.used[2]].item = i
        w.late[w.used[2]].behind = w.clocks[0] - r.grace - _reach(r, first, until)
        w.used[2] += 1
        return
    if s == NIL:
        s = _begin(w, p, older, time)
    else:
        _merge(w, p, s, merging, y)
    sessions[s].first, sessions[s].last, sessions[s].until = first, last, until
    _note(w, INSERT, s, arrivals[i].slot, last)
    if r.updates:
        w.scalars[GROUP] += 1
        _fire(w, r, p, s, arrivals[i].event, arrivals[i].at)
    due = _due(w, r, p)
    if r.clock or due < lists[p].due:
        schedule(lists, w.matches, w.starts[0], p, due)


@inlined
def _joins(w: Sessions, r: Rule, older: int, time: int) -> bool:
    """Whether a tuple joins the session that began before it: it is in reach, and not too late for the maximum (G9)."""
    if older == NIL or time > w.sessions[older].until:
        return False
    return r.longest == ENDLESS or time - w.sessions[older].first <= r.longest


@inlined
def _touches(w: Sessions, r: Rule, y: int, first: int, last: int, until: int) -> bool:
    """Whether the next younger session is in reach, and both together are not too long (G9)."""
    if w.sessions[y].first > until:
        return False
    both = max(last, w.sessions[y].last) - min(first, w.sessions[y].first)
    return r.longest == ENDLESS or both <= r.longest


@inlined
def _begin(w: Sessions, p: int, older: int, time: int) -> int:
    """A new session, in a record that is free."""
    s = w.scalars[FREE_SESSION]
    if s == NIL:
        s = w.scalars[SESSIONS]
        w.scalars[SESSIONS] += 1
    else:
        w.scalars[FREE_SESSION] = w.sessions[s].younger
    enter(w.partitions, w.sessions, p, older, s, time)
    return s  # type: ignore[no-any-return]


@inlined
def _merge(w: Sessions, p: int, s: int, y: int, end: int) -> None:
    """The sessions from `y` up to `end`, which stays, become part of `s` (G3)."""
    while y != end:
        following = w.sessions[y].younger
        _note(w, MERGE, s, y, 0)
        _free(w, p, y)
        y = following


@inlined
def _free(w: Sessions, p: int, s: int) -> None:
    take(w.partitions, w.sessions, p, s)
    w.sessions[s].younger = w.scalars[FREE_SESSION]
    w.scalars[FREE_SESSION] = s


# ---- time -----------------------------------------------------------------------------------------------------------


@inlined
def _advance(w: Sessions, r: Rule, item: Any) -> bool:
    """A watermark: what is over comes out, then the watermark goes on (G6). False: the room ran out."""
    advances = w.clocks[0] == NEVER or item.time > w.clocks[0]
    if advances and not _close(w, r, item.time, item.event, item.at):
        return False
    if not _room(w, 0, 1):
        return False
    w.scalars[GROUP] += 1
    firing = w.firings[w.used[1]]
    firing.event = item.event
    firing.at = item.at
    firing.kind = WATERMARK
    firing.partition = NIL
    firing.watermark = item.watermark
    firing.group = w.scalars[GROUP]
    w.used[1] += 1
    if advances:
        w.clocks[0] = item.time
    return True


@inlined
def _close(w: Sessions, r: Rule, now: int, event: int, at: int) -> bool:
    """The sessions that are over at `now` come out, in the order in which that happened (G8), and are forgotten.

    Over the clock each comes out a nanosecond behind the last time that could have joined it. Over event time the queue
    may have an earlier time for a key: tuples that prolong a session do not change it. False: the room ran out.
    """
    start = w.starts[0]
    while w.matches[start + ROOT].due < now:
        if not _room(w, 2, 1):
            return False
        p = w.matches[start + ROOT].partition
        s, due = w.partitions[p].oldest, _due(w, r, p)
        if due != w.partitions[p].due:
            schedule(w.partitions, w.matches, start, p, due)
            continue
        if not r.updates:
            if w.scalars[LAST] != due:
                w.scalars[LAST] = due
                w.scalars[GROUP] += 1
            _fire(w, r, p, s, event, due + 1 if r.clock else at)
        _note(w, FORGET, s, NIL, 0)
        _free(w, p, s)
        schedule(w.partitions, w.matches, start, p, _due(w, r, p))
    return True


# ---- what is written down -------------------------------------------------------------------------------------------


@inlined
def _room(w: Sessions, events: int, firings: int) -> bool:
    return w.used[0] + events <= len(w.events) and w.used[1] + firings <= len(w.firings)  # type: ignore[no-any-return]


@inlined
def _note(w: Sessions, code: int, s: int, other: int, last: int) -> None:
    event = w.events[w.used[0]]
    event.code = code
    event.session = s
    event.other = other
    event.last = last
    w.used[0] += 1


@inlined
def _fire(w: Sessions, r: Rule, p: int, s: int, event: int, at: int) -> None:
    """A session comes out. `watermark` tells sessions apart that one watermark fires: they come by their reach."""
    _note(w, FIRE, s, w.used[1], w.sessions[s].last)
    firing = w.firings[w.used[1]]
    firing.event = event
    firing.at = at
    firing.kind = WINDOW
    firing.partition = p
    firing.group = w.scalars[GROUP]
    firing.start = w.sessions[s].first
    firing.end = w.sessions[s].last
    firing.index = 0
    firing.watermark = _session_reach(w, r, s)
    w.used[1] += 1
