"""The kernel that decides when sessions begin, grow, merge and are over (docs/reference/session.md).

A tuple covers the interval from its time to its time plus its gap. Tuples whose intervals overlap are in one session
(G1, G2), so the sessions of a key are intervals that do not overlap. A new tuple can overlap the sessions before and
after its time and, if its own gap is large, further younger sessions. The oldest session of a key is always over first:
its reach is less than that of any younger session, also with a maximum duration (G9).

    key a   |--session--|      |-session-|          times of tuples, without gaps
            first    last  reach                    reach: the latest time of a tuple that can join

Where each key has a time of its own (KT1), its tuples move its watermark, and only its sessions are over then. The
queue has a key only while the clock closes its sessions: so the sessions of all keys that are idle at one instant come
out in order (G8).
"""

# The fields of an array's record are attributes, which numpy does not declare to type checkers.
# ruff: noqa: ANN401

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.session.session_list import allocate, enter, not_after, release, younger_of
from sluice.engine.operators.session.session_records import (
    FIRE,
    FORGET,
    FREE_SESSION,
    GROUP,
    INSERT,
    LAST,
    MERGE,
    SESSIONS,
    Sessions,
    SessionSettings,
)
from sluice.engine.stream.items import EARLY_FIRING, TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows import early_results
from sluice.engine.windows.event_time import key_times
from sluice.engine.windows.event_time.event_log import pass_watermark_on
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.key_times import FORGOTTEN
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule


@kernel
def run(w: Sessions, r: SessionSettings, arrivals: np.ndarray, first: int, end: int) -> int:
    """Handles the items from number `first` on. Returns the number of the item before which an output table was full,
    or the number of items + 1 if all were handled.

    Over the clock, the sessions that are over before an item are closed before the item (G12), and after all items the
    sessions that are over by `end`.
    """
    for i in range(first, len(arrivals)):
        if not _pass_time(w, r, arrivals[i].at) or not _handle(w, r, arrivals, i):
            return i
    if not _pass_time(w, r, end):
        return len(arrivals)
    return len(arrivals) + 1


@inlined
def _handle(w: Sessions, r: SessionSettings, arrivals: np.ndarray, i: int) -> bool:
    """Handles an item. Returns False if an output table is full, and it has to be handled again."""
    if arrivals[i].kind == TUPLE:
        size = w.partitions[arrivals[i].partition].size
        if not (_room(w, 3 * size + 5, size + 2) if r.keyed else _room(w, size + 3, 1)):
            return False
        _arrive(w, r, arrivals, i)
        if r.keyed:
            _move_key(w, r, arrivals, i)
    elif arrivals[i].kind == WATERMARK:
        return _end_keys(w, r, arrivals[i]) if r.keyed else _advance(w, r, arrivals[i])
    return True


@inlined
def _pass_time(w: Sessions, r: SessionSettings, now: int) -> bool:
    """Does what the operator clock causes until `now` (inclusive), in order of time: the sessions of keys that are idle
    or forgotten (KT3, KT4), early results (F2), and over the clock the sessions that are over (G12). Returns False if
    an output table is full and something remains.
    """
    if r.keyed and not _close_keys(w, r, now):
        return False
    return _fire_early_by(w, r, now) and (not r.clock or _close(w, r, now, TIMER, now))


@inlined
def _fire_early_by(w: Sessions, r: SessionSettings, now: int) -> bool:
    """Emits the early results that are due by `now` (inclusive). A session that is over when its early result is due
    has none (F3). Returns False if an output table is full and some remain.
    """
    while w.early.policy.wait > 0:
        s = early_results.due_by(w.early, now)
        if s == NIL:
            break
        due = w.early.windows[s].due
        if r.clock and not _close(w, r, due, TIMER, due):
            return False
        if w.early.windows[s].due == due:
            if not _room(w, 1, 1):
                return False
            _fire_early(w, r, s, TIMER, due)
    return True


@inlined
def _reach(r: SessionSettings, first: int, until: int) -> int:
    """The latest time of a tuple that could still join a session (G5, G9)."""
    return until if r.longest == ENDLESS else min(until, later(first, r.longest))


@inlined
def _watermark(w: Sessions, r: SessionSettings, p: int) -> int:
    """The watermark of the key: that of the stream, or its own (KT1)."""
    return w.keys.times[p].watermark if r.keyed else w.clocks[0]  # type: ignore[no-any-return]


@inlined
def _session_reach(w: Sessions, r: SessionSettings, s: int) -> int:
    return _reach(r, w.sessions[s].first, w.sessions[s].until)


@inlined
def _due(w: Sessions, r: SessionSettings, p: int) -> int:
    """The time after which the oldest session of a key is over (G5)."""
    oldest = w.partitions[p].oldest
    return later(_session_reach(w, r, oldest), r.grace) if oldest != NIL else ENDLESS


# ---- a tuple --------------------------------------------------------------------------------------------------------


@inlined
def _arrive(w: Sessions, r: SessionSettings, arrivals: np.ndarray, i: int) -> None:
    """Handles a tuple: it joins the sessions that it overlaps (G2, G3). `s` is the oldest of them. The younger ones,
    from `merging` up to `y` (exclusive), are merged into it.
    """
    p, time = arrivals[i].partition, arrivals[i].time
    lists, sessions = w.partitions, w.sessions
    first, last, until = time, time, later(time, arrivals[i].gap)
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
    now = _watermark(w, r, p)
    if not r.clock and now != NEVER and later(_reach(r, first, until), r.grace) < now:  # G7
        w.late[w.used[2]].item = i
        w.late[w.used[2]].behind = now - r.grace - _reach(r, first, until)
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
        _fire(w, r, WINDOW, p, s, arrivals[i].event, arrivals[i].at)
    elif w.early.policy.wanted and early_results.count_tuple(w.early, s, p, arrivals[i].at):
        _fire_early(w, r, s, arrivals[i].event, arrivals[i].at)
    due = _due(w, r, p)
    if r.clock or (not r.keyed and due < lists[p].due):
        schedule(lists, w.matches, w.starts[0], p, due)


@inlined
def _joins(w: Sessions, r: SessionSettings, older: int, time: int) -> bool:
    """Whether a tuple joins `older`, the session that began before it: the tuple is at most the gap after the session,
    and the session does not become longer than the maximum (G9).
    """
    if older == NIL or time > w.sessions[older].until:
        return False
    return r.longest == ENDLESS or time <= later(w.sessions[older].first, r.longest)


@inlined
def _touches(w: Sessions, r: SessionSettings, y: int, first: int, last: int, until: int) -> bool:
    """Whether session `y` begins by `until`, and both sessions together are not longer than the maximum (G9)."""
    if w.sessions[y].first > until:
        return False
    begin, end = min(first, w.sessions[y].first), max(last, w.sessions[y].last)
    return r.longest == ENDLESS or end <= later(begin, r.longest)


@inlined
def _begin(w: Sessions, p: int, older: int, time: int) -> int:
    """Adds a session behind `older`. Returns its number."""
    s = allocate(w.scalars, w.sessions, FREE_SESSION, SESSIONS)
    enter(w.partitions, w.sessions, p, older, s, time)
    return s


@inlined
def _merge(w: Sessions, p: int, s: int, y: int, end: int) -> None:
    """Merges the sessions from `y` up to `end` (exclusive) into `s` (G3)."""
    while y != end:
        following = w.sessions[y].younger
        _note(w, MERGE, s, y, 0)
        if w.early.policy.wanted:
            early_results.take_over(w.early, s, y)
        _free(w, p, y)
        y = following


@inlined
def _free(w: Sessions, p: int, s: int) -> None:
    release(w.scalars, w.partitions, w.sessions, FREE_SESSION, p, s)


# ---- time -----------------------------------------------------------------------------------------------------------


@inlined
def _advance(w: Sessions, r: SessionSettings, item: Any) -> bool:
    """Handles a watermark: emits the sessions that are over, then the watermark (G6). Returns False if an output table
    is full; the watermark can then be handled again.
    """
    advances = w.clocks[0] == NEVER or item.time > w.clocks[0]
    if advances and not _close(w, r, item.time, item.event, item.at):
        return False
    if not _room(w, 0, 1):
        return False
    pass_watermark_on(w, item)
    if advances:
        w.clocks[0] = item.time
    return True


@inlined
def _close(w: Sessions, r: SessionSettings, now: int, event: int, at: int) -> bool:
    """Emits and removes the sessions that are over at `now`, in the order in which they were over (G8).

    Over the clock, the time of an output is 1 ns after the reach of the session. Over event time, the queue may have
    too early a time for a key, because tuples that prolong a session do not update the queue; the time is then
    corrected here. Returns False if an output table is full; the call can then be repeated.
    """
    start = w.starts[0]
    while w.matches[start + ROOT].due < now:
        if not _room(w, 2, 1):
            return False
        p = w.matches[start + ROOT].partition
        due = _due(w, r, p)
        if due != w.partitions[p].due:
            schedule(w.partitions, w.matches, start, p, due)
            continue
        _end_oldest(w, r, p, event, due + 1 if r.clock else at)
        schedule(w.partitions, w.matches, start, p, _due(w, r, p))
    return True


@inlined
def _end_oldest(w: Sessions, r: SessionSettings, p: int, event: int, at: int) -> None:
    """Emits and removes the oldest session of a key, which is over."""
    s, due = w.partitions[p].oldest, _due(w, r, p)
    if not r.updates:
        if w.scalars[LAST] != due:
            w.scalars[LAST] = due
            w.scalars[GROUP] += 1
        _fire(w, r, WINDOW, p, s, event, at)
    if w.early.policy.wanted:
        early_results.start_again(w.early, s)
    _note(w, FORGET, s, NIL, 0)
    _free(w, p, s)


# ---- a time of each key ---------------------------------------------------------------------------------------------


@inlined
def _move_key(w: Sessions, r: SessionSettings, arrivals: np.ndarray, i: int) -> None:
    """Moves the time of the key of a tuple: its sessions that are over come out (KT2)."""
    k, p = w.keys, arrivals[i].partition
    w.scalars[LAST] = NEVER
    key_times.wait_anew(k, p, arrivals[i].at)
    if key_times.gives_watermark(k, p, i):
        if k.marks[i].watermark > k.times[p].watermark:
            while _due(w, r, p) < k.marks[i].watermark:
                _end_oldest(w, r, p, arrivals[i].event, arrivals[i].at)
            key_times.advance(k, p, i)
        k.times[p].made = k.marks[i].made


@inlined
def _close_keys(w: Sessions, r: SessionSettings, now: int) -> bool:
    """Emits the sessions of the keys that are idle or forgotten by `now` (inclusive), and early results before them.
    Returns False if an output table is full and some remain.
    """
    k = w.keys
    while True:
        if k.instant[0] == NEVER:
            due = key_times.next_instant(k, now)
            if due == ENDLESS:
                return True
            if not _fire_early_by(w, r, due - 1):
                return False
            _begin_to_close(w, r, due)
        if not _end_aimed(w, r, TIMER, k.instant[0]):
            return False
        k.instant[0] = NEVER


@inlined
def _begin_to_close(w: Sessions, r: SessionSettings, instant: int) -> None:
    """All keys whose wait is over at this instant get a goal: behind their sessions, or the end if they are
    forgotten.
    """
    w.keys.instant[0], w.scalars[LAST] = instant, NEVER
    while True:
        p = key_times.next_waiting(w.keys.idle, instant)
        if p == NIL:
            break
        youngest = w.partitions[p].youngest
        _aim(w, r, p, later(_session_reach(w, r, youngest), r.grace) + 1 if youngest != NIL else NEVER)
    while True:
        p = key_times.next_waiting(w.keys.forgotten, instant)
        if p == NIL:
            break
        _aim(w, r, p, FORGOTTEN)


@inlined
def _aim(w: Sessions, r: SessionSettings, p: int, goal: int) -> None:
    """The key is to reach the watermark `goal`, FORGOTTEN if it is forgotten then."""
    w.keys.times[p].goal = max(goal, w.keys.times[p].watermark)
    _go_on(w, r, p)


@inlined
def _go_on(w: Sessions, r: SessionSettings, p: int) -> None:
    """The key waits in the queue until its sessions are over at its goal, and then reaches it."""
    due = _due(w, r, p)
    if due < w.keys.times[p].goal:
        schedule(w.partitions, w.matches, w.starts[0], p, due)
    else:
        schedule(w.partitions, w.matches, w.starts[0], p, ENDLESS)
        key_times.reach_goal(w.keys, p)


@inlined
def _end_aimed(w: Sessions, r: SessionSettings, event: int, at: int) -> bool:
    """Ends the sessions of all keys that have a goal, in order. Returns False if an output table is full."""
    start = w.starts[0]
    while w.matches[start + ROOT].due != ENDLESS:
        if not _room(w, 2, 1):
            return False
        p = w.matches[start + ROOT].partition
        _end_oldest(w, r, p, event, at)
        _go_on(w, r, p)
    return True


@inlined
def _end_keys(w: Sessions, r: SessionSettings, item: Any) -> bool:
    """Handles the maximum watermark, the only one of a stream whose keys have times of their own: the sessions of all
    keys are over (KT5). Returns False, and does nothing, without room for all of them.
    """
    count = 0
    for p in range(len(w.partitions)):
        count += w.partitions[p].size
    if not _room(w, 2 * count, count + 1):
        return False
    w.scalars[LAST] = NEVER
    for p in range(len(w.partitions)):
        if w.partitions[p].size:
            _aim(w, r, p, item.time)
    _end_aimed(w, r, item.event, item.at)
    pass_watermark_on(w, item)
    return True


# ---- output tables --------------------------------------------------------------------------------------------------


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
def _fire_early(w: Sessions, r: SessionSettings, s: int, event: int, at: int) -> None:
    """Emits what an open session holds so far (F1)."""
    w.scalars[GROUP] += 1
    _fire(w, r, EARLY_FIRING, w.sessions[s].owner, s, event, at)
    early_results.start_again(w.early, s)


@inlined
def _fire(w: Sessions, r: SessionSettings, kind: int, p: int, s: int, event: int, at: int) -> None:
    """Writes a firing of the session. Its field `watermark` has the reach, by which the results of one watermark (G8)
    and the early results of one instant (F5) are sorted.
    """
    _note(w, FIRE, s, w.used[1], w.sessions[s].last)
    firing = w.firings[w.used[1]]
    firing.event = event
    firing.at = at
    firing.kind = kind
    firing.partition = p
    firing.group = w.scalars[GROUP]
    firing.start = w.sessions[s].first
    firing.end = w.sessions[s].last
    firing.index = 0
    firing.watermark = _session_reach(w, r, s)
    w.used[1] += 1
