"""Which tuples leave a sliding window (reference 4.2). An eviction emits nothing (S3)."""

from __future__ import annotations

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.windows.policies import DELTA, exceeds, size_of
from sluice.engine.windows.processing_time import delta_heap, time_queue
from sluice.engine.windows.processing_time.stored_partitions import forget
from sluice.engine.windows.processing_time.window_records import EVICT, HEAD, LIVE, Window
from sluice.engine.windows.processing_time.window_steps import append_event, fill, room


@inlined
def admit(w: Window, p: int, slot: int, at: int) -> None:
    """Gives a tuple that comes in its place among the others."""
    if w.clause.chained:
        if not w.partitions[p].size:
            intrusive_list.make_empty(w.partitions, p)
        intrusive_list.append(w.partitions, p, w.chain, slot)
    if w.clause.eviction.kind == DELTA:
        delta_heap.add(w, p, slot)
    elif w.clause.expiring:
        time_queue.append(w, p, slot, at)


@inlined
def evict(w: Window, p: int, slot: int) -> None:
    """One tuple leaves, in silence (S3); under delta eviction it must be gone from values.py. Without a chain it is the
    oldest, whatever `slot` says.

    With its last tuple a partition is no longer stored; its fullness, counter and reference stay in its record (S7).
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
    """Eviction by time of the tuple at the head of the queue, which is in this row; gives its slot."""
    p, slot = w.queue[row].partition, w.queue[row].slot
    w.scalars[HEAD] += 1
    evict(w, p, slot)
    return slot  # type: ignore[no-any-return]


@inlined
def evict_exceeding(w: Window, p: int, slot: int) -> None:
    """Eviction by delta: every tuple that the new one exceeds, wherever it stands (S8); the first one makes the window
    full (4.5).
    """
    eviction = w.clause.eviction
    word, size = w.words[slot, eviction.column], size_of(eviction, w.words, slot)
    before = w.used[0]
    while w.partitions[p].size:
        least = delta_heap.least(w, p)
        if least == NIL or not exceeds(eviction, word, w.words[least, eviction.column], size):
            break
        if not w.partitions[p].full:
            fill(w, p)
            before = w.used[0]
        delta_heap.remove_least(w, p, least)
        evict(w, p, least)
    delta_heap.by_arrival(w, before)


@inlined
def expire(w: Window, now: int) -> bool:
    """Eviction by time, in every partition, whenever the clock moves (C4), before anybody looks (S5, S6).

    False where the room for events ran out.
    """
    while True:
        row = time_queue.expired(w, now)
        if row == NIL:
            return True
        if not room(w, 1, 0):
            return False
        evict_expired(w, row)
