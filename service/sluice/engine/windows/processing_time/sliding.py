"""Sliding windows (reference section 4): what leaves, what comes in and what fires are three questions."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import EMPTY_FIRING, TIMER, WINDOW
from sluice.engine.windows.policies import COUNT, DELTA, TIME, exceeds, size_of
from sluice.engine.windows.processing_time.eviction import admit, evict_exceeding, evict_oldest
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, Window
from sluice.engine.windows.processing_time.window_steps import fill, fire, insert


@inlined
def slide(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """A tuple comes: the order of section 4.1. Delta triggers look before it is in, count triggers after (S1).

    The eviction says when the window is full, whatever the trigger (S18): with the first tuple, with the first that it
    lets go, which is behind a delta trigger of the same tuple (S20), or with as many as it counts. It stays full (S16).
    """
    eviction, trigger = w.clause.eviction, w.clause.trigger
    if trigger.kind == DELTA:
        _trigger_delta(w, p, slot, at, event)
    if eviction.kind == DELTA:
        evict_exceeding(w, p, slot)
    elif eviction.kind == TIME:
        if not w.partitions[p].full:
            fill(w, p)
    elif eviction.size > 0 and w.partitions[p].size == eviction.size:
        evict_oldest(w, p)
    if eviction.kind != COUNT or eviction.size > 0:  # S9
        admit(w, p, slot, at)
        insert(w, p, slot, at, source)
        evict_surplus(w, at, event)
        if not w.partitions[p].size:  # V15
            return
    filled = eviction.kind == COUNT and eviction.size > 0 and w.partitions[p].size == eviction.size
    if filled and not w.partitions[p].full:
        fill(w, p)
    if trigger.kind == COUNT:
        _trigger_count(w, p, at, event)


@inlined
def _trigger_count(w: Window, p: int, at: int, event: int) -> None:
    """Every so many insertions, from the first on (S10); the counter survives that the window runs empty (S7)."""
    w.partitions[p].counter += 1
    if w.partitions[p].counter == w.clause.trigger.size:
        w.partitions[p].counter = 0
        _trigger(w, p, at, event)


@inlined
def _trigger_delta(w: Window, p: int, slot: int, at: int, event: int) -> None:
    """Measures from the tuple that fired last, to begin with the first ever, which does not fire (S11, S12)."""
    trigger = w.clause.trigger
    word = w.words[slot, trigger.column]
    if not w.partitions[p].referenced:
        w.partitions[p].referenced = 1
        w.partitions[p].reference = word
    elif exceeds(trigger, word, w.partitions[p].reference, size_of(trigger, w.words, slot)):
        w.partitions[p].reference = word
        _trigger(w, p, at, event)


@inlined
def trigger_all(w: Window, at: int) -> None:
    """The timer is due: every stored partition fires (S13), or it is told that there is none (S14)."""
    evict_aged(w, at, TIMER)
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    if p == NIL and _may_speak(w):
        fire(w, NIL, at, TIMER, EMPTY_FIRING)
    while p != NIL:
        _trigger(w, p, at, TIMER)
        p = w.partitions[p].following


@inlined
def _may_speak(w: Window) -> bool:
    """Whether a window that stores nothing may speak: always, or once it was full (A5)."""
    return w.clause.incomplete or (not w.clause.partitioned and bool(w.partitions[0].full))


@inlined
def _trigger(w: Window, p: int, at: int, event: int) -> None:
    if w.partitions[p].full or w.clause.incomplete:  # S17
        fire(w, p, at, event, WINDOW)
