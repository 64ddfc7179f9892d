"""The steps of all kinds of windows: append an event, fire, insert a tuple, remove all tuples of a partition."""

from __future__ import annotations

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import EARLY_FIRING, WINDOW
from sluice.engine.windows import early_results
from sluice.engine.windows.policies import ALL, EARLY_RESULT, NONE, PARTITION_AGE
from sluice.engine.windows.processing_time.stored_partitions import forget, refresh, remember
from sluice.engine.windows.processing_time.window_records import CLEAR, FIRE, FULL, GROUP, INSERT, LIVE, Window
from sluice.time_units import SECOND


@inlined
def room(w: Window, tuples: int, partitions: int) -> bool:
    """Whether the output tables have room for what happens if `tuples` tuples leave and `partitions`
    partitions fire.
    """
    events = len(w.events) - w.used[0]
    firings = len(w.firings) - w.used[1]
    return events >= tuples + 2 * partitions + 4 and firings >= partitions + 2  # type: ignore[no-any-return]


@inlined
def append_event(w: Window, code: int, p: int, slot: int) -> None:
    event = w.events[w.used[0]]
    event.code = code
    event.partition = p
    event.slot = slot
    w.used[0] += 1


@inlined
def fire(w: Window, p: int, at: int, event: int, kind: int) -> None:
    """Appends a firing. `stored` is the result of CountAll: the tuples of all partitions, or of this partition in a
    tumbling window (A18).
    """
    firing = w.firings[w.used[1]]
    firing.event = event
    firing.at = at
    firing.kind = kind
    firing.partition = p
    firing.group = w.scalars[GROUP]
    firing.watermark = 0
    firing.reason = NONE
    if p != NIL:
        firing.stored = w.scalars[LIVE] if w.clause.sliding else w.partitions[p].size
        append_event(w, FIRE, p, w.used[1])
    w.used[1] += 1


@inlined
def insert(w: Window, p: int, slot: int, at: int, source: int) -> None:
    """Inserts a tuple. Its position among the other tuples is set in eviction.py, if the eviction policy needs it."""
    if not w.partitions[p].size:
        remember(w, p)
        if w.waits.policy.wanted:
            early_results.count_tuple(w.waits, p, p, at)
    elif w.clause.leaving.kind != ALL:
        refresh(w, p)
    if w.clause.leaving.kind == PARTITION_AGE:
        w.ages[p].second = at // SECOND
    if w.clause.marked:
        w.sources[p, source >> 6] |= np.int64(1) << (source & 63)
    w.partitions[p].size += 1
    w.scalars[LIVE] += 1
    append_event(w, INSERT, p, slot)


@inlined
def fill(w: Window, p: int) -> None:
    """Marks the partition as full from now on (S16)."""
    w.partitions[p].full = 1
    append_event(w, FULL, p, NIL)


@inlined
def flush(w: Window, p: int, at: int, event: int, reason: int) -> None:
    """Emits the content of a partition, which then leaves (section 3). `reason` is the kind of the policy (H4)."""
    fire(w, p, at, event, WINDOW)
    w.firings[w.used[1] - 1].reason = reason
    clear(w, p)


@inlined
def fire_early(w: Window, p: int, at: int, event: int) -> None:
    """Emits the content of a partition so far; it stays (F1)."""
    w.scalars[GROUP] += 1
    fire(w, p, at, event, EARLY_FIRING)
    w.firings[w.used[1] - 1].reason = EARLY_RESULT
    early_results.start_again(w.early, p)


@inlined
def clear(w: Window, p: int) -> None:
    """Removes all tuples of a partition at once. It no longer exists (T2), and partition eviction does not count it
    (V4, V11). Its count and wait for an early result go with it (F9).
    """
    append_event(w, CLEAR, p, NIL)
    if w.early.policy.wanted:
        early_results.start_again(w.early, p)
    if w.waits.policy.wanted:
        early_results.start_again(w.waits, p)
    w.scalars[LIVE] -= w.partitions[p].size
    w.partitions[p].size = 0
    for word in range(w.sources.shape[1]):
        w.sources[p, word] = 0
    forget(w, p)
