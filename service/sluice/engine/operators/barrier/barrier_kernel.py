"""The kernel of a Barrier: queues of waiting tuples, one for each key and input (BA1, BA4, BA5)."""

from __future__ import annotations

import numpy as np

from sluice.columns.due_times import later
from sluice.columns.kernel import inlined, kernel
from sluice.engine.operators.barrier.barrier_records import EXPIRED, FULL, LEFT, SET, BarrierSettings, BarrierTables
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.engine.windows.event_time.timer_queue import ROOT, schedule


@kernel
def run(w: BarrierTables, r: BarrierSettings, arrivals: np.ndarray, end: int) -> None:
    """Handles all arrivals, and the tuples that wait no longer by `end`.

    The log has room for each waiting tuple and each arrival.
    """
    for i in range(len(arrivals)):
        _expire(w, r, arrivals[i].at, i)
        if arrivals[i].kind == TUPLE:
            _arrive(w, r, arrivals, i)
    _expire(w, r, end, len(arrivals))


@kernel
def drain(w: BarrierTables, r: BarrierSettings, partitions: int, cause: int) -> None:
    """Removes all waiting tuples (BA7)."""
    for p in range(partitions):
        for port in range(r.ports):
            while w.queues[p * r.ports + port].size > 0:
                _pop(w, r, p, port, LEFT, cause, 0)
        _schedule(w, r, p)


@inlined
def _arrive(w: BarrierTables, r: BarrierSettings, arrivals: np.ndarray, i: int) -> None:
    """A tuple is refused, or waits; if each input has one now, these are a set (BA1)."""
    p, port, slot = arrivals[i].partition, arrivals[i].port, arrivals[i].slot
    q = p * r.ports + port
    w.waiting[slot].at = arrivals[i].at
    w.waiting[slot].source = arrivals[i].source
    if w.queues[q].size >= r.buffer:
        _log(w, FULL, i, 0, p, port, slot)
        return
    if w.queues[q].size == 0:
        w.queues[q].oldest = slot
        w.partitions[p].ready += 1
    else:
        w.waiting[w.queues[q].youngest].younger = slot
    w.queues[q].youngest = slot
    w.queues[q].size += 1
    w.partitions[p].size += 1
    w.held[0] += 1
    if w.partitions[p].ready == r.ports:
        for other in range(r.ports):
            _pop(w, r, p, other, SET, i, 0)
    _schedule(w, r, p)


@inlined
def _expire(w: BarrierTables, r: BarrierSettings, now: int, cause: int) -> None:
    """Removes the tuples that have waited for the timeout (BA5)."""
    start = w.starts[0]
    while w.matches[start + ROOT].due <= now:
        p = w.matches[start + ROOT].partition
        due = w.partitions[p].due
        for port in range(r.ports):
            q = p * r.ports + port
            while w.queues[q].size > 0 and later(w.waiting[w.queues[q].oldest].at, r.timeout) <= due:
                _pop(w, r, p, port, EXPIRED, cause, due)
        _schedule(w, r, p)


@inlined
def _pop(w: BarrierTables, r: BarrierSettings, p: int, port: int, what: int, cause: int, due: int) -> None:
    """Removes the oldest tuple of a queue."""
    q = p * r.ports + port
    slot = w.queues[q].oldest
    _log(w, what, cause, due, p, port, slot)
    w.queues[q].oldest = w.waiting[slot].younger
    w.queues[q].size -= 1
    w.partitions[p].size -= 1
    w.held[0] -= 1
    if w.queues[q].size == 0:
        w.partitions[p].ready -= 1


@inlined
def _log(w: BarrierTables, what: int, cause: int, due: int, p: int, port: int, slot: int) -> None:
    entry = w.log[w.used[0]]
    entry.what = what
    entry.cause = cause
    entry.due = due
    entry.partition = p
    entry.port = port
    entry.slot = slot
    w.used[0] += 1


@inlined
def _schedule(w: BarrierTables, r: BarrierSettings, p: int) -> None:
    """Sets the time at which the first tuple of a key waits no longer."""
    if r.timeout == ENDLESS:
        return
    due = ENDLESS
    for port in range(r.ports):
        q = p * r.ports + port
        if w.queues[q].size > 0:
            due = min(due, later(w.waiting[w.queues[q].oldest].at, r.timeout))
    schedule(w.partitions, w.matches, w.starts[0], p, due)
