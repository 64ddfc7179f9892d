"""When tuples enter and leave a window and when it fires: SPL's window events, for every policy (reference 3 and 4).

The kernel walks the items of a batch in order, and the ticks of the operator's timer between them, and writes down what
happens to each partition: a tuple is inserted (INSERT), evicted (EVICT), the content is handed to the operator (FIRE),
all of it leaves (CLEAR). It knows nothing of aggregates; who reads these events (contents.py) knows nothing of
policies.

A partition is stored while it holds tuples. What S7 keeps beyond that, its fullness, counter and reference, stays in
its record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.engine.bits import as_real
from service.engine.items import LONE, TIMER, TUPLE, WATERMARK, WINDOW
from service.engine.kernel import inlined, kernel
from service.engine.policies import COUNT, DELTA, PUNCT, TIME, Clause, exceeds

#: window events
INSERT, EVICT, FIRE, CLEAR = range(4)
#: entries of `Partitions.first` and the other scalars
NOBODY = -1
FIRST, LAST, STORED, LIVE, TICK, GROUP, SCALARS = range(7)


#: the state of each window partition, one record each
PARTITION = np.dtype([
    ("size", np.int64),
    ("oldest", np.int32),
    ("youngest", np.int32),
    # neighbours among the partitions that hold tuples
    ("following", np.int32),
    ("preceding", np.int32),
    # the tuple that a delta trigger measures from, or the oldest of a tumbling delta (T10, S11)
    ("reference", np.int64),
    # insertions since the count trigger last fired (S10)
    ("counter", np.int32),
    ("referenced", np.bool_),
    ("full", np.bool_),
    # whether no tuple came in that was smaller than the youngest (S8a)
    ("ordered", np.bool_),
])  # fmt: skip

#: the tuples of a sliding window: when they came, and their neighbours in the partition
ROW = np.dtype([("at", np.int64), ("younger", np.int32), ("older", np.int32)])

#: the items of a batch; `slot` and `partition` count for tuples only
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("source", np.int32), ("kind", np.int8), ("watermark", np.int64),
])  # fmt: skip

#: the window events of a batch, in order; the `slot` of a FIRE is the number of the firing
EVENT = np.dtype([("slot", np.int32), ("partition", np.int32), ("code", np.int32)])

#: when and for whom a window fired; those of one tick or one mark share a `group`. `stored`: what CountAll sees, the
#: tuples of its own partition where it tumbles, else of all (A18)
FIRING = np.dtype([
    ("event", np.int64), ("at", np.int64), ("group", np.int64), ("stored", np.int64), ("watermark", np.int64),
    ("partition", np.int32), ("kind", np.int8),
])  # fmt: skip


class Window(NamedTuple):
    """All that the kernel works on."""

    clause: Clause
    scalars: np.ndarray
    partitions: np.ndarray
    rows: np.ndarray
    #: the words of every tuple
    words: np.ndarray
    #: one bit per partition and topic partition whose tuples it holds
    sources: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    #: events and firings in use
    used: np.ndarray


@kernel
def run(w: Window, arrivals: np.ndarray, end: int, first: int) -> int:
    """Handles the items from number `first` on, then the ticks that are due by `end`.

    Gives the number of the item before which the room for events ran out, or the number of items + 1 when all is done.
    """
    count = len(arrivals)
    for i in range(first, count + 1):
        until = arrivals[i].at if i < count else end
        while w.clause.period > 0 and w.scalars[TICK] <= until:
            if not _room(w, w.scalars[LIVE], w.scalars[STORED]):
                return i
            _tick(w, w.scalars[TICK])
            w.scalars[TICK] += w.clause.period
        if i == count:
            break
        if arrivals[i].kind == TUPLE:
            leaving = 1 if w.clause.eviction.kind == COUNT else w.partitions[arrivals[i].partition].size
            if not _room(w, leaving, 1):
                return i
            arrive(w, arrivals, i)
        elif arrivals[i].kind == WINDOW and w.clause.eviction.kind == PUNCT:
            if not _room(w, 0, w.scalars[STORED]):
                return i
            _mark(w, arrivals, i)
        elif arrivals[i].kind == WATERMARK:
            if not _room(w, 0, 0):
                return i
            w.scalars[GROUP] += 1
            _fire(w, NOBODY, arrivals[i].at, arrivals[i].event, WATERMARK)  # it goes on behind all before it (E6)
            w.firings[w.used[1] - 1].watermark = arrivals[i].watermark
    return count + 1


@inlined
def _room(w: Window, tuples: int, partitions: int) -> bool:
    """Whether there is room for what may happen when as many tuples leave and as many partitions fire."""
    events = len(w.events) - w.used[0]
    firings = len(w.firings) - w.used[1]
    return events >= tuples + 2 * partitions + 4 and firings >= partitions + 2  # type: ignore[no-any-return]


# ---- what may come --------------------------------------------------------------------------------------------------


@inlined
def arrive(w: Window, arrivals: np.ndarray, i: int) -> None:
    p, slot, at, event = arrivals[i].partition, arrivals[i].slot, arrivals[i].at, arrivals[i].event
    w.scalars[GROUP] += 1
    if w.clause.sliding:
        _slide(w, p, slot, at, event, arrivals[i].source)
    else:
        _tumble(w, p, slot, at, event, arrivals[i].source)


@inlined
def _tumble(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """A tuple comes to a tumbling window: count fires with it (T1), delta without it (T10)."""
    eviction = w.clause.eviction
    if eviction.kind == COUNT and eviction.size <= 0:  # T3
        return
    if eviction.kind == DELTA:
        word = w.words[slot, eviction.column]
        if w.partitions[p].size and exceeds(eviction, word, w.partitions[p].reference):
            _flush(w, p, at, event)
        if not w.partitions[p].size:
            w.partitions[p].reference = word
    _insert(w, p, slot, at, source)
    if eviction.kind == COUNT and w.partitions[p].size == eviction.size:
        _flush(w, p, at, event)


@inlined
def _slide(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """A tuple comes to a sliding window: the order of section 4.1."""
    parts, eviction, trigger = w.partitions, w.clause.eviction, w.clause.trigger
    if eviction.kind == TIME:
        _expire(w, p, at)
    if trigger.kind == DELTA:
        word = w.words[slot, trigger.column]
        if not parts[p].referenced:
            parts[p].referenced = 1
            parts[p].reference = word
        elif exceeds(trigger, word, parts[p].reference):
            parts[p].reference = word
            _trigger(w, p, at, event)
    if eviction.kind == DELTA:
        _evict_exceeding(w, p, slot)
    elif eviction.kind == TIME:
        parts[p].full = 1
    elif eviction.size > 0 and parts[p].size == eviction.size:
        evict(w, p, parts[p].oldest)
    if eviction.kind != COUNT or eviction.size > 0:  # S9
        _insert(w, p, slot, at, source)
    if eviction.kind == COUNT and eviction.size > 0 and parts[p].size == eviction.size:
        parts[p].full = 1
    if trigger.kind == COUNT:
        parts[p].counter += 1
        if parts[p].counter == trigger.size:
            parts[p].counter = 0
            _trigger(w, p, at, event)


@inlined
def _tick(w: Window, at: int) -> None:
    """The timer is due: a tumbling window flushes (T6), a sliding one triggers (S13), every stored partition of it."""
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    if p == NOBODY and not w.clause.sliding:  # T7
        _fire(w, NOBODY, at, TIMER, LONE)
    while p != NOBODY:
        following = w.partitions[p].following
        if not w.clause.sliding:
            _flush(w, p, at, TIMER)
        else:
            if w.clause.eviction.kind == TIME:
                _expire(w, p, at)
            if w.partitions[p].size:
                _trigger(w, p, at, TIMER)
        p = following
    if w.clause.sliding and w.scalars[FIRST] == NOBODY and _had_been_full(w):  # S14
        _fire(w, NOBODY, at, TIMER, LONE)


@inlined
def _had_been_full(w: Window) -> bool:
    """Whether a window that stores nothing may speak: always, or once it was full (A5)."""
    return w.clause.incomplete or (not w.clause.partitioned and bool(w.partitions[0].full))


@inlined
def _mark(w: Window, arrivals: np.ndarray, i: int) -> None:
    """A window mark: every partition that holds a tuple of its topic partition is flushed (T18), or one mark (T19)."""
    at, event, source = arrivals[i].at, arrivals[i].event, arrivals[i].source
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    nobody = True
    while p != NOBODY:
        following = w.partitions[p].following
        if w.sources[p, source >> 6] >> (source & 63) & 1:
            _flush(w, p, at, event)
            nobody = False
        p = following
    if nobody:
        _fire(w, NOBODY, at, event, LONE)


# ---- what happens then ----------------------------------------------------------------------------------------------


@inlined
def _note(w: Window, code: int, p: int, slot: int) -> None:
    event = w.events[w.used[0]]
    event.code = code
    event.partition = p
    event.slot = slot
    w.used[0] += 1


@inlined
def _fire(w: Window, p: int, at: int, event: int, kind: int) -> None:
    firing = w.firings[w.used[1]]
    firing.event = event
    firing.at = at
    firing.kind = kind
    firing.partition = p
    firing.group = w.scalars[GROUP]
    if p != NOBODY:
        firing.stored = w.scalars[LIVE] if w.clause.sliding else w.partitions[p].size
        _note(w, FIRE, p, w.used[1])
    w.used[1] += 1


@inlined
def _trigger(w: Window, p: int, at: int, event: int) -> None:
    if w.partitions[p].full or w.clause.incomplete:  # S17
        _fire(w, p, at, event, WINDOW)


@inlined
def _flush(w: Window, p: int, at: int, event: int) -> None:
    _fire(w, p, at, event, WINDOW)
    _note(w, CLEAR, p, NOBODY)
    w.scalars[LIVE] -= w.partitions[p].size
    w.partitions[p].size = 0
    _forget(w, p)


@inlined
def _insert(w: Window, p: int, slot: int, at: int, source: int) -> None:
    parts, rows = w.partitions, w.rows
    if not parts[p].size:
        _remember(w, p)
    if w.clause.eviction.kind == PUNCT:
        w.sources[p, source >> 6] |= np.int64(1) << (source & 63)
    if w.clause.sliding:
        youngest = parts[p].youngest
        rows[slot].at = at
        rows[slot].younger = NOBODY
        rows[slot].older = youngest
        if youngest == NOBODY:
            parts[p].oldest = slot
        else:
            rows[youngest].younger = slot
        parts[p].youngest = slot
    parts[p].size += 1
    w.scalars[LIVE] += 1
    _note(w, INSERT, p, slot)


@inlined
def evict(w: Window, p: int, slot: int) -> None:
    parts, rows = w.partitions, w.rows
    older, younger = rows[slot].older, rows[slot].younger
    if older == NOBODY:
        parts[p].oldest = younger
    else:
        rows[older].younger = younger
    if younger == NOBODY:
        parts[p].youngest = older
    else:
        rows[younger].older = older
    parts[p].size -= 1
    w.scalars[LIVE] -= 1
    _note(w, EVICT, p, slot)
    if not parts[p].size:
        _forget(w, p)


@inlined
def _expire(w: Window, p: int, now: int) -> None:
    """Evicts what has been inside for more than the time (S5), before anybody looks (S6)."""
    while w.partitions[p].size and now - w.rows[w.partitions[p].oldest].at > w.clause.eviction.size:
        evict(w, p, w.partitions[p].oldest)


@inlined
def _evict_exceeding(w: Window, p: int, slot: int) -> None:
    """Evicts every tuple that the new one exceeds, wherever it stands (S8); the first one makes the window full."""
    parts, rows, eviction = w.partitions, w.rows, w.clause.eviction
    new = w.words[slot, eviction.column]
    if not parts[p].size:
        parts[p].ordered = 1
        return
    if not _reaches(w, new, w.words[parts[p].youngest, eviction.column]):
        parts[p].ordered = 0
    old = parts[p].oldest
    while old != NOBODY:
        younger = rows[old].younger
        if exceeds(eviction, new, w.words[old, eviction.column]):
            parts[p].full = 1
            evict(w, p, old)
        elif parts[p].ordered:
            return
        old = younger


@inlined
def _reaches(w: Window, new: int, other: int) -> bool:
    """Whether a delta's value is not smaller than another one; NaN reaches nothing."""
    if w.clause.eviction.floating:
        return as_real(new) >= as_real(other)
    return new >= other


@inlined
def _remember(w: Window, p: int) -> None:
    last = w.scalars[LAST]
    w.partitions[p].oldest = w.partitions[p].youngest = NOBODY
    w.partitions[p].preceding = last
    w.partitions[p].following = NOBODY
    if last == NOBODY:
        w.scalars[FIRST] = p
    else:
        w.partitions[last].following = p
    w.scalars[LAST] = p
    w.scalars[STORED] += 1


@inlined
def _forget(w: Window, p: int) -> None:
    preceding, following = w.partitions[p].preceding, w.partitions[p].following
    if preceding == NOBODY:
        w.scalars[FIRST] = following
    else:
        w.partitions[preceding].following = following
    if following == NOBODY:
        w.scalars[LAST] = preceding
    else:
        w.partitions[following].preceding = preceding
    for word in range(w.sources.shape[1]):
        w.sources[p, word] = 0
    w.scalars[STORED] -= 1
