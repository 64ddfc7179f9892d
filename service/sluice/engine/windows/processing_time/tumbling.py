"""Tumbling windows (reference section 3). A partition exists from its first tuple to its flush (T2)."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.stream.items import ALL, EMPTY_FIRING, TIMER
from sluice.engine.windows import early_results
from sluice.engine.windows.policies import COUNT, END, PUNCT, SINCE_FIRST, TIME, departs
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, Window
from sluice.engine.windows.processing_time.window_steps import fire, fire_early, flush, insert


@inlined
def tumble(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """Handles a tuple. Under count it is stored and may flush its partition (T1); under delta it may flush its
    partition before it is stored (T10). Only its own partition is flushed (T16). Under time and punct it is only stored
    (T18). A window with several policies has all of these effects (H2); count(0) ignores the tuple (H3). A tuple that
    flushes nothing may cause an early result (F1).
    """
    eviction = w.clause.eviction
    if w.clause.most == 0:  # T3
        return
    if eviction.column >= 0:
        if w.partitions[p].size and departs(eviction, w.words, slot, w.partitions[p].reference):
            flush(w, p, at, event, eviction.kind)
        if not w.partitions[p].size:
            w.partitions[p].reference = w.words[slot, eviction.column]
    insert(w, p, slot, at, source)
    evict_surplus(w, at, event)
    if w.partitions[p].size == w.clause.most:
        flush(w, p, at, event, COUNT)
    elif w.early.policy.wanted and w.partitions[p].size and early_results.count_tuple(w.early, p, p, at):  # V14
        fire_early(w, p, at, event)


@inlined
def flush_all(w: Window, at: int, event: int) -> None:
    """Handles a tick: partitions over the age limit leave (T9), then every other stored partition is flushed (T6). If
    none is stored, one mark is emitted (T7).
    """
    evict_aged(w, at, event)
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    if p == NIL:
        fire(w, NIL, at, event, EMPTY_FIRING)
    while p != NIL:
        following = w.partitions[p].following
        flush(w, p, at, event, TIME)
        p = following


@kernel
def flush_rest(w: Window, at: int, event: int) -> None:
    """Flushes all stored partitions at the end of the stream (H6). The output tables have room for all of them."""
    w.scalars[GROUP] += 1
    while w.scalars[FIRST] != NIL:
        flush(w, w.scalars[FIRST], at, event, END)


@inlined
def flush_waiting(w: Window, p: int, due: int) -> None:
    """Flushes a partition whose wait from its first tuple on is over at `due` (H5). The partitions that are due at one
    time are one group, as the partitions of a tick are.
    """
    last = w.used[1] - 1
    if last < 0 or w.firings[last].at != due or w.firings[last].reason != SINCE_FIRST:
        w.scalars[GROUP] += 1
    flush(w, p, due, TIMER, SINCE_FIRST)


@inlined
def mark(w: Window, source: int, at: int, event: int) -> None:
    """Handles a window mark: every partition that holds a tuple of the mark's topic partition is flushed; an aligned
    mark flushes every partition (T18). If there is no such partition, one mark is emitted (T19). Whether there is one
    is decided before the partitions over the age limit leave (T20, V17).
    """
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    while p != NIL and not _holds(w, p, source):
        p = w.partitions[p].following
    if p == NIL:
        fire(w, NIL, at, event, EMPTY_FIRING)
        return
    evict_aged(w, at, event)
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    while p != NIL:
        following = w.partitions[p].following
        if _holds(w, p, source):
            flush(w, p, at, event, PUNCT)
        p = following


@inlined
def mark_one(w: Window, p: int, at: int, event: int) -> None:
    """Handles a window mark for one partition, which is flushed if it holds a tuple. Otherwise nothing is emitted (B8).
    Partitions over the age limit leave before (T20).
    """
    if not w.partitions[p].size:
        return
    w.scalars[GROUP] += 1
    evict_aged(w, at, event)
    w.scalars[GROUP] += 1
    if w.partitions[p].size:
        flush(w, p, at, event, PUNCT)


@inlined
def _holds(w: Window, p: int, source: int) -> bool:
    """Whether a mark of this topic partition, or of ALL, flushes the partition (B1, B2)."""
    return source == ALL or (w.sources[p, source >> 6] >> (source & np.int64(63))) & 1 == 1
