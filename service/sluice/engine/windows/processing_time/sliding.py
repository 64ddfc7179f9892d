"""Sliding windows (reference section 4). Eviction, insertion and trigger are separate decisions."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import EMPTY_FIRING, TIMER, WINDOW
from sluice.engine.windows.policies import COUNT, departs
from sluice.engine.windows.processing_time.eviction import admit, evict_exceeding, evict_oldest
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, Window
from sluice.engine.windows.processing_time.window_steps import fill, fire, insert


@inlined
def slide(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """Handles a tuple in the order of section 4.1. A delta trigger fires before the tuple is inserted, a count trigger
    after (S1).

    The eviction policy decides when the window becomes full, whatever the trigger is (S18). Under time eviction it is
    full with its first tuple. Under delta eviction it is full with its first eviction, which is behind a delta trigger
    of the same tuple (S20). Under count eviction it is full with that many tuples. It stays full (S16).
    """
    eviction, trigger = w.clause.eviction, w.clause.trigger
    if trigger.column >= 0:
        _trigger_departing(w, p, slot, at, event)
    if w.clause.by_value:
        evict_exceeding(w, p, slot)
    elif w.clause.expiring:
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
    """Fires at every n-th insertion, counted from the first (S10). The counter is kept if the window becomes empty
    (S7).
    """
    w.partitions[p].counter += 1
    if w.partitions[p].counter == w.clause.trigger.size:
        w.partitions[p].counter = 0
        _trigger(w, p, at, event)


@inlined
def _trigger_departing(w: Window, p: int, slot: int, at: int, event: int) -> None:
    """Measures from the tuple that fired last. At the start it measures from the first tuple, which does not fire (S11,
    S12).
    """
    trigger = w.clause.trigger
    word = w.words[slot, trigger.column]
    if not w.partitions[p].referenced:
        w.partitions[p].referenced = 1
        w.partitions[p].reference = word
    elif departs(trigger, w.words, slot, w.partitions[p].reference):
        w.partitions[p].reference = word
        _trigger(w, p, at, event)


@inlined
def trigger_all(w: Window, at: int) -> None:
    """Handles a tick: every stored partition fires (S13). If none is stored, an empty firing is written (S14), provided
    that the window may emit a mark without stored tuples.
    """
    evict_aged(w, at, TIMER)
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    if p == NIL and _may_emit_empty_mark(w):
        fire(w, NIL, at, TIMER, EMPTY_FIRING)
    while p != NIL:
        _trigger(w, p, at, TIMER)
        p = w.partitions[p].following


@inlined
def _may_emit_empty_mark(w: Window) -> bool:
    """Whether a window that stores nothing emits a mark: always if incomplete windows fire, else if the window is not
    partitioned and was full once (A5).
    """
    return w.clause.incomplete or (not w.clause.partitioned and bool(w.partitions[0].full))


@inlined
def _trigger(w: Window, p: int, at: int, event: int) -> None:
    if w.partitions[p].full or w.clause.incomplete:  # S17
        fire(w, p, at, event, WINDOW)
