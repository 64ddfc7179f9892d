"""The kernel that decides which tuples of a Dedup are duplicates (docs/reference/extensions.md, rules Z1 to Z12).

The first tuple of a key begins a period. Each tuple of the key that is less than the length of a period away from the
first one, in either direction, belongs to this period. So the periods of a key begin at least one length apart:

    time         a-------)      b-------)  c-------)          a, b, c: the first tuples of three periods
    belongs to  a: (a - size, a + size)                       a tuple between a and b that is near to both belongs to a

Over the operator clock, tuples come in order of time, and a key has at most one period.
"""

from __future__ import annotations

import numpy as np

from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.dedup.dedup_records import FREE_PERIOD, PERIODS, DedupSettings, Periods
from sluice.engine.operators.session.session_list import allocate, enter, not_after, release, younger_of
from sluice.engine.stream.items import TUPLE, WATERMARK, WINDOW
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule

#: the indices of `used`
EMITTED_COUNT, FREED_COUNT, LATE_COUNT = range(3)


@kernel
def run(w: Periods, r: DedupSettings, arrivals: np.ndarray, end: int) -> None:
    """Handles all items, and over the clock the periods that are over by `end`.

    The output tables have room: `emitted` for the periods in use and one for each item, the others for each item.
    """
    for i in range(len(arrivals)):
        if r.clock:
            _advance(w, r, arrivals[i].at, i)
        w.passes[i] = arrivals[i].kind != TUPLE
        if arrivals[i].kind == TUPLE:
            _arrive(w, r, arrivals, i)
        elif arrivals[i].kind == WINDOW and r.flushing:
            _forget_all(w)
        elif arrivals[i].kind == WATERMARK and not (r.clock or r.by_tuples):
            _advance(w, r, arrivals[i].time, i)
    if r.clock:
        _advance(w, r, end, len(arrivals))


@kernel
def queue(w: Periods, r: DedupSettings, partitions: int) -> None:
    """Lets keys wait until they are forgotten (Z10), in a state in which `clocks` has the greatest value instead."""
    for p in range(partitions):
        s = w.partitions[p].oldest
        if s != NIL and w.partitions[p].due == ENDLESS:
            _wait(w, r, p, w.periods[s].time)
    if w.clocks[0] != NEVER:
        _forget_below(w, w.clocks[0])
    w.clocks[0] = NEVER


@kernel
def prune(w: Periods, r: DedupSettings, partitions: int) -> None:
    """Removes the periods of all keys that are over."""
    for p in range(partitions):
        _forget(w, r, p)


@kernel
def drain(w: Periods, r: DedupSettings, partitions: int, cause: int) -> None:
    """Emits the newest tuple of each period of each key, before the item `cause`, and removes the periods
    (Z8).

    `emitted` has room for the periods in use.
    """
    for p in range(partitions):
        while w.partitions[p].oldest != NIL:
            s = w.partitions[p].oldest
            _emit(w, p, s, later(w.periods[s].time, r.size), cause)
        schedule(w.partitions, w.matches, w.starts[0], p, ENDLESS)


@inlined
def _arrive(w: Periods, r: DedupSettings, arrivals: np.ndarray, i: int) -> None:
    """Handles a tuple: it is late, belongs to a period (Z4), or begins one."""
    p, time = arrivals[i].partition, arrivals[i].time
    if time < w.clocks[0] and not r.by_tuples:
        w.late[w.used[LATE_COUNT]].item = i
        w.late[w.used[LATE_COUNT]].behind = w.clocks[0] - time
        w.used[LATE_COUNT] += 1
        if r.holding:
            _free_slot(w, arrivals[i].slot)
        return
    if r.by_value:
        _forget_below(w, time)
    elif not r.holding:
        _forget(w, r, p)
    older = not_after(w.partitions, w.periods, p, time)
    period = _period_of(w, r, p, older, time)
    if period == NIL:
        _begin(w, r, p, older, time, arrivals[i].slot)
        w.passes[i] = not r.holding
    elif r.holding:
        _replace(w, period, time, arrivals[i].slot)
    elif r.extending:
        w.periods[period].time = time
    if r.by_tuples:
        _follow(w, r, p, time, period == NIL or r.extending)


@inlined
def _period_of(w: Periods, r: DedupSettings, p: int, older: int, time: int) -> int:
    """The period to which a tuple belongs, the older one of two (Z4); NIL if it begins one. By tuples, a later period
    has it in any case (Z10).
    """
    if older != NIL and time < later(w.periods[older].time, r.size):
        return older
    younger = younger_of(w.partitions, w.periods, p, older)
    if younger != NIL and (r.by_tuples or w.periods[younger].time < later(time, r.size)):
        return younger
    return NIL


@inlined
def _forget_all(w: Periods) -> None:
    """Forgets all keys (Z12)."""
    for p in range(len(w.partitions)):
        while w.partitions[p].oldest != NIL:
            _end(w, p)


@inlined
def _follow(w: Periods, r: DedupSettings, p: int, time: int, anew: bool) -> None:  # noqa: FBT001 - numba
    """Follows the numbers of tuples (Z9), or the value with which a key is remembered `anew` (Z10)."""
    if not r.by_value:
        w.clocks[0] = max(w.clocks[0], time)
    elif anew:
        _wait(w, r, p, time)


@inlined
def _wait(w: Periods, r: DedupSettings, p: int, time: int) -> None:
    """The key, which is remembered with this value, waits until a value is that far above it (Z10)."""
    schedule(w.partitions, w.matches, w.starts[0], p, later(time, r.size))


@inlined
def _forget_below(w: Periods, time: int) -> None:
    """Forgets the keys that are remembered with values too far below this one (Z10)."""
    start = w.starts[0]
    while w.matches[start + ROOT].due <= time:
        _end(w, w.matches[start + ROOT].partition)


@inlined
def _end(w: Periods, p: int) -> None:
    """Removes the oldest period of a key, which waits for nothing from then on."""
    _free(w, p, w.partitions[p].oldest)
    schedule(w.partitions, w.matches, w.starts[0], p, ENDLESS)


@inlined
def _replace(w: Periods, s: int, time: int, slot: int) -> None:
    """The tuple becomes the newest one of the period, unless the period has one with a later time."""
    if time < w.periods[s].last:
        _free_slot(w, slot)
        return
    _free_slot(w, w.periods[s].slot)
    w.periods[s].last = time
    w.periods[s].slot = slot


@inlined
def _begin(w: Periods, r: DedupSettings, p: int, older: int, time: int, slot: int) -> None:
    """Adds a period behind `older` (Z2)."""
    s = allocate(w.scalars, w.periods, FREE_PERIOD, PERIODS)
    enter(w.partitions, w.periods, p, older, s, time)
    w.held[0] += 1
    w.periods[s].last = time
    w.periods[s].slot = slot
    if r.holding and older == NIL:
        schedule(w.partitions, w.matches, w.starts[0], p, later(time, r.size))


@inlined
def _forget(w: Periods, r: DedupSettings, p: int) -> None:
    """Removes the periods of a key that are over."""
    s = w.partitions[p].oldest
    while s != NIL and w.clocks[0] != NEVER and later(w.periods[s].time, r.size) <= w.clocks[0]:
        following = w.periods[s].younger
        _free(w, p, s)
        s = following


@inlined
def _free(w: Periods, p: int, s: int) -> None:
    w.held[0] -= 1
    release(w.scalars, w.partitions, w.periods, FREE_PERIOD, p, s)


@inlined
def _free_slot(w: Periods, slot: int) -> None:
    w.freed[w.used[FREED_COUNT]] = slot
    w.used[FREED_COUNT] += 1


@inlined
def _advance(w: Periods, r: DedupSettings, now: int, cause: int) -> None:
    """Moves the time forward. With `keep: last`, emits the newest tuples of the periods that are over (Z3)."""
    if w.clocks[0] != NEVER and now <= w.clocks[0]:
        return
    w.clocks[0] = now
    start = w.starts[0]
    while w.matches[start + ROOT].due <= now:
        p = w.matches[start + ROOT].partition
        _emit(w, p, w.partitions[p].oldest, w.partitions[p].due, cause)
        oldest = w.partitions[p].oldest
        due = later(w.periods[oldest].time, r.size) if oldest != NIL else ENDLESS
        schedule(w.partitions, w.matches, start, p, due)


@inlined
def _emit(w: Periods, p: int, s: int, due: int, cause: int) -> None:
    emitted = w.emitted[w.used[EMITTED_COUNT]]
    emitted.cause = cause
    emitted.due = due
    emitted.partition = p
    emitted.slot = w.periods[s].slot
    w.used[EMITTED_COUNT] += 1
    _free(w, p, s)
