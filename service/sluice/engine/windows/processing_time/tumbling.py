"""Tumbling windows (reference section 3): a partition lives from its first tuple to its flush (T2)."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import ALL, EMPTY_FIRING
from sluice.engine.windows.policies import COUNT, DELTA, exceeds, size_of
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, Window
from sluice.engine.windows.processing_time.window_steps import fire, flush, insert


@inlined
def tumble(w: Window, p: int, slot: int, at: int, event: int, source: int) -> None:
    """A tuple comes: count fires with it (T1), delta without it (T10), each of its own partition only (T16); time
    and punct store it (T18).
    """
    eviction = w.clause.eviction
    if eviction.kind == COUNT and eviction.size <= 0:  # T3
        return
    if eviction.kind == DELTA:
        word = w.words[slot, eviction.column]
        if w.partitions[p].size and exceeds(
            eviction, word, w.partitions[p].reference, size_of(eviction, w.words, slot)
        ):
            flush(w, p, at, event)
        if not w.partitions[p].size:
            w.partitions[p].reference = word
    insert(w, p, slot, at, source)
    evict_surplus(w, at, event)
    if eviction.kind == COUNT and w.partitions[p].size == eviction.size:
        flush(w, p, at, event)


@inlined
def flush_all(w: Window, at: int, event: int) -> None:
    """The timer is due: those over age leave (T9), every other stored partition is flushed (T6), else one mark comes
    (T7).
    """
    evict_aged(w, at, event)
    w.scalars[GROUP] += 1
    p = w.scalars[FIRST]
    if p == NIL:
        fire(w, NIL, at, event, EMPTY_FIRING)
    while p != NIL:
        following = w.partitions[p].following
        flush(w, p, at, event)
        p = following


@inlined
def mark(w: Window, source: int, at: int, event: int) -> None:
    """A window mark: every partition that holds a tuple of its topic partition is flushed, by an aligned one every
    partition (T18), or one mark comes (T19). Whether there is one is asked before those over age leave (T20, V17).
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
            flush(w, p, at, event)
        p = following


@inlined
def _holds(w: Window, p: int, source: int) -> bool:
    return source == ALL or (w.sources[p, source >> 6] >> (source & np.int64(63))) & 1 == 1
