"""Decides which partitions leave as a whole (reference section 6)."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import WINDOW
from sluice.engine.windows.policies import PARTITION, PARTITION_AGE, PARTITION_COUNT, TUPLE_COUNT
from sluice.engine.windows.processing_time import time_queue
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, LIVE, LOSE, STORED, Window
from sluice.engine.windows.processing_time.window_steps import append_event, clear, fire
from sluice.time_units import SECOND


@inlined
def aged(w: Window, at: int) -> bool:
    """Whether the oldest partition is older than the limit, in whole seconds; at the limit it is not (V6, V8)."""
    if w.clause.leaving.kind != PARTITION_AGE or w.scalars[FIRST] == NIL:
        return False
    return w.ages[w.scalars[FIRST]].second + w.clause.leaving.size < at // SECOND  # type: ignore[no-any-return]


@inlined
def evict_aged(w: Window, at: int, event: int) -> None:
    """Eviction by `partitionAge`. It happens before each insertion, each tick and each mark that finds content (V7),
    never by time alone (V2).

    If the oldest partition is older than the limit, every partition that is as old as the limit or older leaves (V8).
    """
    if aged(w, at):
        while w.scalars[FIRST] != NIL and w.ages[w.scalars[FIRST]].second <= at // SECOND - w.clause.leaving.size:
            evict_partition(w, w.scalars[FIRST], at, event)


@inlined
def evict_surplus(w: Window, at: int, event: int) -> None:
    """Eviction by count, after each insertion and before a trigger or flush (T4, S2). The partitions least recently
    inserted into leave until the number of partitions (V10) or of tuples in all partitions (V12, V13) is within the
    limit. The partition of the arriving tuple may leave too (V14).
    """
    leaving = w.clause.leaving
    while (leaving.kind == PARTITION_COUNT and w.scalars[STORED] > leaving.size) or (
        leaving.kind == TUPLE_COUNT and w.scalars[LIVE] > leaving.size
    ):
        evict_partition(w, w.scalars[FIRST], at, event)


@inlined
def evict_partition(w: Window, p: int, at: int, event: int) -> None:
    """Removes a partition with its tuples and its record (V3), without output (V5), or after a last firing if the
    clause says so (V16).
    """
    if w.clause.evicted:
        w.scalars[GROUP] += 1
        fire(w, p, at, event, WINDOW)
        w.firings[w.used[1] - 1].reason = PARTITION
        w.scalars[GROUP] += 1
    if w.clause.expiring:
        time_queue.give_up(w, p)
    if w.clause.chained:
        _lose(w, p)
    clear(w, p)
    w.partitions[p].counter = 0
    w.partitions[p].referenced = 0
    w.partitions[p].full = 0


@inlined
def _lose(w: Window, p: int) -> None:
    slot = w.partitions[p].oldest
    while slot != NIL:
        append_event(w, LOSE, p, slot)
        slot = w.chain[slot].younger
