"""The kernel: the items of a batch and the ticks between them, in order."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.stream.items import TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows.policies import ALL, DELTA, PUNCT
from sluice.engine.windows.processing_time.eviction import expire
from sluice.engine.windows.processing_time.partition_eviction import evict_aged
from sluice.engine.windows.processing_time.sliding import slide, trigger_all
from sluice.engine.windows.processing_time.tumbling import flush_all, mark, tumble
from sluice.engine.windows.processing_time.window_records import GROUP, INSTANT, LIVE, STORED, TICK, Window
from sluice.engine.windows.processing_time.window_steps import fire, room

#: ticks that find nothing stored, each of which gives a mark (T7), in one move of the clock: a record of long ago and
#: the present are some hundred million seconds apart
MOST_VOID = 1_000_000
#: partitions that are near anyway
NEAR = 1024


@kernel
def run(w: Window, arrivals: np.ndarray, end: int, first: int) -> int:
    """Handles the items from number `first` on, then the ticks that are due by `end`.

    The first tick is one period after the start, and none is missed or late (C3, T5). One at the time of an item comes
    before it (T8).

    Gives the number of the item before which the room for events ran out, or the number of items + 1 when all is done.
    """
    count, far = len(arrivals), len(w.partitions) > NEAR
    for i in range(first, count + 1):
        if far:
            _look_ahead(w, arrivals, i)
        until = arrivals[i].at if i < count else end
        while w.clause.period > 0 and w.scalars[TICK] <= until:
            if not _void(w, until) and not _tick(w, w.scalars[TICK]):
                return i
            _wind(w)
        if i == count:
            break
        if not _handle(w, arrivals, i):
            return i
    return count + 1


@inlined
def _look_ahead(w: Window, arrivals: np.ndarray, i: int) -> None:
    """First what is known of a partition, then the tuples at its ends."""
    if i + 2 * AHEAD < len(arrivals):
        prefetch(w.partitions, arrivals[i + 2 * AHEAD].partition)
        if w.clause.chained:
            p = arrivals[i + AHEAD].partition
            if w.partitions[p].size:
                prefetch(w.chain, w.partitions[p].oldest)
                prefetch(w.chain, w.partitions[p].youngest)


@kernel
def expire_tuples(w: Window, now: int) -> bool:
    """What has been inside for too long by now leaves. False: the room ran out, and some is left."""
    return expire(w, now)


@kernel
def skip_empty_ticks(w: Window, until: int) -> None:
    """The timer is set behind the void ticks up to this time."""
    while w.clause.period > 0 and w.scalars[TICK] <= until and _void(w, until):
        _wind(w)


@inlined
def _void(w: Window, until: int) -> bool:
    """Whether nothing is stored, and the next tick is so far behind the clock that it is passed over in silence."""
    return bool(w.scalars[STORED] == 0 and (until - w.scalars[TICK]) // w.clause.period >= MOST_VOID)


@inlined
def _handle(w: Window, arrivals: np.ndarray, i: int) -> bool:
    """One item. False, and nothing but what is repeatable was done: the room ran out."""
    kind, at, event = arrivals[i].kind, arrivals[i].at, arrivals[i].event
    if kind == TUPLE:
        return _arrive(w, arrivals, i)
    if (
        kind == WINDOW and w.clause.eviction.kind == PUNCT
    ):  # others swallow it (P2), and what they make are marks of their own (P6)
        if not room(w, 0, w.scalars[STORED]):
            return False
        mark(w, arrivals[i].source, at, event)
    elif kind == WATERMARK:
        if not room(w, 0, 0):
            return False
        w.scalars[GROUP] += 1
        fire(w, NIL, at, event, WATERMARK)  # it goes on behind all before it (E6)
        w.firings[w.used[1] - 1].watermark = arrivals[i].watermark
    return True


@inlined
def _wind(w: Window) -> None:
    """The timer is set for its next tick."""
    if len(w.instants):
        w.scalars[INSTANT] += 1
        w.scalars[TICK] = w.instants[w.scalars[INSTANT]]
    else:
        w.scalars[TICK] += w.clause.period


@inlined
def _tick(w: Window, at: int) -> bool:
    """The timer of all partitions is due (C1). False, and nothing but what is repeatable was done: the room ran out."""
    if w.clause.expiring and not expire(w, at):
        return False
    if not room(w, w.scalars[LIVE] if w.clause.leaving.kind != ALL else 0, w.scalars[STORED]):
        return False
    if w.clause.sliding:
        trigger_all(w, at)
    else:
        flush_all(w, at, TIMER)
    return True


@inlined
def _arrive(w: Window, arrivals: np.ndarray, i: int) -> bool:
    """A tuple comes. False, and nothing but what is repeatable was done: the room ran out."""
    p, at = arrivals[i].partition, arrivals[i].at
    if w.clause.expiring and not expire(w, at):
        return False
    tuples, partitions = w.partitions[p].size if w.clause.eviction.kind == DELTA else 1, 2
    if w.clause.leaving.kind != ALL:
        tuples, partitions = tuples + w.scalars[LIVE] + 1, w.scalars[STORED] + 2
    if not room(w, tuples, partitions):
        return False
    arrive(w, arrivals, i)
    return True


@inlined
def arrive(w: Window, arrivals: np.ndarray, i: int) -> None:
    """A tuple comes, where nothing is to expire and there is room for all that may happen."""
    p, slot, at, event = arrivals[i].partition, arrivals[i].slot, arrivals[i].at, arrivals[i].event
    evict_aged(w, at, event)  # V9, S2
    w.scalars[GROUP] += 1
    if w.clause.sliding:
        slide(w, p, slot, at, event, arrivals[i].source)
    else:
        tumble(w, p, slot, at, event, arrivals[i].source)
