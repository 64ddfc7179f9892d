"""The kernel of tumbling and sliding windows: handles the items of a batch, and the ticks between them, in order."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sluice.columns.due_times import distance, later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.stream.items import KEY_MARK, TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows import early_results
from sluice.engine.windows.policies import ALL, KernelClause
from sluice.engine.windows.processing_time.eviction import expire
from sluice.engine.windows.processing_time.partition_eviction import evict_aged
from sluice.engine.windows.processing_time.sliding import slide, trigger_all
from sluice.engine.windows.processing_time.tumbling import flush_all, flush_waiting, mark, mark_one, tumble
from sluice.engine.windows.processing_time.window_records import GROUP, INSTANT, LIVE, STORED, TICK, Window
from sluice.engine.windows.processing_time.window_steps import fire, fire_early, room

#: if nothing is stored and at least so many ticks are due, ticks are skipped until fewer are due. Each tick would emit
#: a mark (T7), and the clock may jump by some hundred million seconds, from an old record to the present
MAX_EMPTY_TICKS = 1_000_000
#: a table of at most so many partitions stays in the cache without prefetching
PREFETCH_THRESHOLD = 1024


@kernel
def run(w: Window, arrivals: np.ndarray, end: int, first: int) -> int:
    """Handles the items from number `first` on, then the ticks that are due by `end`.

    The first tick is one period after the start, and no tick is missed or late (C3, T5). A tick at the time of an item
    precedes it (T8), and so does what a partition waits for. A tick at the same time flushes all partitions, so that
    there is no early result (F3) and no other flush (H5).

    Returns the number of the item before which an output table was full, or the number of items + 1 if all were
    handled.
    """
    count, far = len(arrivals), len(w.partitions) > PREFETCH_THRESHOLD
    for i in range(first, count + 1):
        if far:
            _look_ahead(w, arrivals, i)
        until = arrivals[i].at if i < count else end
        while w.clause.period > 0 and w.scalars[TICK] <= until:
            if not _fire_waiting(w, w.scalars[TICK] - 1):
                return i
            if _skips_tick(w, until):
                _skip_ticks(w, until)
            elif _tick(w, w.scalars[TICK]):
                advance_timer(w)
            else:
                return i
        if not _fire_waiting(w, until):
            return i
        if i == count:
            break
        if not _handle(w, arrivals, i):
            return i
    return count + 1


@inlined
def _look_ahead(w: Window, arrivals: np.ndarray, i: int) -> None:
    """Prefetches for later items: the partition of item `i` + 2 AHEAD, and the first and last tuple in the partition of
    item `i` + AHEAD.
    """
    if i + 2 * AHEAD < len(arrivals):
        prefetch(w.partitions, arrivals[i + 2 * AHEAD].partition)
        if w.clause.chained:
            p = arrivals[i + AHEAD].partition
            if w.partitions[p].size:
                prefetch(w.chain, w.partitions[p].oldest)
                prefetch(w.chain, w.partitions[p].youngest)


@kernel
def expire_tuples(w: Window, now: int) -> bool:
    """Evicts the tuples that expire by `now`. Returns False if the table of events is full and tuples
    remain to evict.
    """
    return expire(w, now)


class Ticking(Protocol):
    """Windows with a timer."""

    @property
    def clause(self) -> KernelClause: ...

    @property
    def scalars(self) -> np.ndarray: ...

    @property
    def instants(self) -> np.ndarray: ...


@kernel
def skip_empty_ticks(w: Ticking, until: int) -> None:
    """Sets the timer behind the ticks up to this time that are skipped."""
    while w.clause.period > 0 and w.scalars[TICK] <= until and _skips_tick(w, until):
        _skip_ticks(w, until)


@inlined
def _skips_tick(w: Ticking, until: int) -> bool:
    """Whether nothing is stored and the next tick is at least MAX_EMPTY_TICKS periods behind the clock, so that it is
    skipped without a mark.
    """
    return bool(w.scalars[STORED] == 0 and _ticks_until(w, until) >= MAX_EMPTY_TICKS)


@inlined
def _skip_ticks(w: Ticking, until: int) -> None:
    """Skips ticks: the next one of a wall-clock timer, all that are too many of a periodic timer."""
    if len(w.instants):
        advance_timer(w)
    else:
        w.scalars[TICK] += (_ticks_until(w, until) - MAX_EMPTY_TICKS + 1) * w.clause.period


@inlined
def _ticks_until(w: Ticking, until: int) -> int:
    """The number of whole periods from the next tick until a time that is not before it."""
    return np.int64(distance(w.scalars[TICK], until) // np.uint64(w.clause.period))  # type: ignore[return-value]


@inlined
def _handle(w: Window, arrivals: np.ndarray, i: int) -> bool:
    """Handles one item. Returns False if an output table is full; the item can then be handled again."""
    kind, at, event = arrivals[i].kind, arrivals[i].at, arrivals[i].event
    if kind == TUPLE:
        return _arrive(w, arrivals, i)
    if kind == WINDOW and w.clause.marked:  # other windows drop the mark (P2) and emit marks of their own (P6)
        if not room(w, 0, w.scalars[STORED]):
            return False
        mark(w, arrivals[i].source, at, event)
    elif kind == KEY_MARK and w.clause.marked:
        if not room(w, w.scalars[LIVE], w.scalars[STORED]):
            return False
        mark_one(w, arrivals[i].partition, at, event)
    elif kind == WATERMARK:
        if not room(w, 0, 0):
            return False
        w.scalars[GROUP] += 1
        fire(w, NIL, at, event, WATERMARK)  # it is passed on behind all earlier output (E6)
        w.firings[w.used[1] - 1].watermark = arrivals[i].watermark
    return True


@inlined
def advance_timer(w: Ticking) -> None:
    """Sets the timer to its next tick."""
    if len(w.instants):
        w.scalars[INSTANT] += 1
        w.scalars[TICK] = w.instants[w.scalars[INSTANT]]
    else:
        w.scalars[TICK] = later(w.scalars[TICK], w.clause.period)


@inlined
def _tick(w: Window, at: int) -> bool:
    """Handles a tick of the timer, which all partitions share (C1). Returns False if an output table is full; the tick
    can then be handled again.
    """
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
def _fire_waiting(w: Window, now: int) -> bool:
    """Flushes the partitions whose wait from their first tuple is over by `now` (inclusive, H5), and emits the early
    results that are due (F2), in order of the times at which they are due; at one time the flushes first. Returns False
    if an output table is full and some remain.
    """
    while w.waits.policy.wait > 0 or w.early.policy.wait > 0:
        over, early = early_results.due_by(w.waits, now), early_results.due_by(w.early, now)
        if over == NIL and early == NIL:
            return True
        if not room(w, 0, 1):
            return False
        if over != NIL and (early == NIL or w.waits.windows[over].due <= w.early.windows[early].due):
            flush_waiting(w, over, w.waits.windows[over].due)
        else:
            fire_early(w, early, w.early.windows[early].due, TIMER)
    return True


@inlined
def _arrive(w: Window, arrivals: np.ndarray, i: int) -> bool:
    """Handles a tuple. Returns False if an output table is full; the tuple can then be handled again."""
    p, at = arrivals[i].partition, arrivals[i].at
    if w.clause.expiring and not expire(w, at):
        return False
    tuples, partitions = w.partitions[p].size if w.clause.several else 1, 2
    if w.clause.leaving.kind != ALL:
        tuples, partitions = tuples + w.scalars[LIVE] + 1, w.scalars[STORED] + 2
    if not room(w, tuples, partitions):
        return False
    arrive(w, arrivals, i)
    return True


@inlined
def arrive(w: Window, arrivals: np.ndarray, i: int) -> None:
    """Handles a tuple. The caller has evicted the expired tuples and made room in the output tables."""
    p, slot, at, event = arrivals[i].partition, arrivals[i].slot, arrivals[i].at, arrivals[i].event
    evict_aged(w, at, event)  # V9, S2
    w.scalars[GROUP] += 1
    if w.clause.sliding:
        slide(w, p, slot, at, event, arrivals[i].source)
    else:
        tumble(w, p, slot, at, event, arrivals[i].source)
