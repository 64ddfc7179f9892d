"""Decides which tuples leave a sliding window (reference 4.2). An eviction emits nothing (S3)."""

from __future__ import annotations

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.policies import departs
from sluice.engine.windows.processing_time import delta_heap, time_queue
from sluice.engine.windows.processing_time.stored_partitions import forget
from sluice.engine.windows.processing_time.window_records import EVICT, HEAD, LIVE, Window
from sluice.engine.windows.processing_time.window_steps import append_event, fill, room


@inlined
def admit(w: Window, p: int, slot: int, at: int) -> None:
    """Adds an arriving tuple to the chain, the queue or the heap that the eviction policy needs."""
    if w.clause.chained:
        if not w.partitions[p].size:
            intrusive_list.make_empty(w.partitions, p)
        intrusive_list.append(w.partitions, p, w.chain, slot)
    if w.clause.by_value:
        delta_heap.add(w, p, slot)
    elif w.clause.expiring:
        time_queue.append(w, p, slot, at)


@inlined
def evict(w: Window, p: int, slot: int) -> None:
    """Removes one tuple without output (S3). Under delta eviction the caller has removed it from the row or heap.
    Without a chain the tuple is the oldest one, whatever `slot` is.

    A partition without tuples is no longer stored; whether it was full, its counter and its reference stay in its
    record (S7).
    """
    if w.clause.chained:
        intrusive_list.pop_keep_links(w.partitions, p, w.chain, slot)
    w.partitions[p].size -= 1
    w.scalars[LIVE] -= 1
    append_event(w, EVICT, p, slot)
    if not w.partitions[p].size:
        forget(w, p)


@inlined
def evict_oldest(w: Window, p: int) -> None:
    """Eviction by count, before the insertion (S4)."""
    evict(w, p, w.partitions[p].oldest)


@inlined
def evict_expired(w: Window, row: int) -> int:
    """Eviction by time: removes the tuple at the head of the queue, which is in this row, and returns its slot."""
    p, slot = w.queue[row].partition, w.queue[row].slot
    w.scalars[HEAD] += 1
    evict(w, p, slot)
    return slot  # type: ignore[no-any-return]


@inlined
def evict_exceeding(w: Window, p: int, slot: int) -> None:
    """Eviction by delta: removes every tuple that the new one exceeds, at whatever position (S8). The first such
    eviction makes the window full (4.5).
    """
    eviction = w.clause.eviction
    before = w.used[0]
    while w.partitions[p].size:
        least = delta_heap.least(w, p)
        if least == NIL or not departs(eviction, w.words, slot, w.words[least, eviction.column]):
            break
        if not w.partitions[p].full:
            fill(w, p)
            before = w.used[0]
        delta_heap.remove_least(w, p, least)
        evict(w, p, least)
    delta_heap.by_arrival(w, before)


@inlined
def expire(w: Window, now: int) -> bool:
    """Eviction by time in every partition. It happens whenever the operator clock advances (C4), before the item or
    tick is handled (S5, S6).

    Returns False if the table of events is full.
    """
    while True:
        row = time_queue.expired(w, now)
        if row == NIL:
            return True
        if not room(w, 1, 0):
            return False
        evict_expired(w, row)
