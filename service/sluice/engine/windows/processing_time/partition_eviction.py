"""Which partitions leave as a whole (reference section 6)."""

from __future__ import annotations

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import WINDOW
from sluice.engine.windows.policies import PARTITION_AGE, PARTITION_COUNT, TUPLE_COUNT
from sluice.engine.windows.processing_time import time_queue
from sluice.engine.windows.processing_time.window_records import FIRST, GROUP, LIVE, LOSE, STORED, Window
from sluice.engine.windows.processing_time.window_steps import append_event, clear, fire
from sluice.time_units import SECOND


@inlined
def aged(w: Window, at: int) -> bool:
    """Whether the oldest partition is over age: by whole seconds, strictly (V6, V8)."""
    if w.clause.leaving.kind != PARTITION_AGE or w.scalars[FIRST] == NIL:
        return False
    return w.ages[w.scalars[FIRST]].second + w.clause.leaving.size < at // SECOND  # type: ignore[no-any-return]


@inlined
def evict_aged(w: Window, at: int, event: int) -> None:
    """Before each insertion, each tick and each mark that finds content (V7), never by itself (V2).

    With the oldest all go that are as old as the limit, which is not strict for them (V8).
    """
    if aged(w, at):
        while w.scalars[FIRST] != NIL and w.ages[w.scalars[FIRST]].second <= at // SECOND - w.clause.leaving.size:
            evict_partition(w, w.scalars[FIRST], at, event)


@inlined
def evict_surplus(w: Window, at: int, event: int) -> None:
    """After each insertion, before any trigger or flush (T4, S2): what has not been inserted into for longest goes,
    until partitions (V10) or the tuples of all of them (V12, V13) are no more than allowed, perhaps to the last (V14).
    """
    leaving = w.clause.leaving
    while (leaving.kind == PARTITION_COUNT and w.scalars[STORED] > leaving.size) or (
        leaving.kind == TUPLE_COUNT and w.scalars[LIVE] > leaving.size
    ):
        evict_partition(w, w.scalars[FIRST], at, event)


@inlined
def evict_partition(w: Window, p: int, at: int, event: int) -> None:
    """Its tuples leave and all that is known of it (V3), in silence (V5) or seen once more, where wanted (V16)."""
    if w.clause.evicted:
        w.scalars[GROUP] += 1
        fire(w, p, at, event, WINDOW)
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
