"""A queue of all tuples of a window under time eviction, in order of arrival, over all partitions.

Tuples are numbered in order of arrival. Number n is in row n modulo the length of the table, which is a power of two.
The tuples of a partition leave in this order, or all at once. If a partition leaves at once, its entries stay in the
queue until they reach the head. Such an entry is recognized because its partition counts its entries without tuples
(`gone`), or because its partition is NIL.
"""

from __future__ import annotations

import numpy as np

from sluice import time_units
from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.engine.stream.items import MAX_TIME
from sluice.engine.windows.policies import KernelClause
from sluice.engine.windows.processing_time.window_records import HEAD, TAIL, Window
from sluice.engine.windows.processing_time.window_tables import Windowed

#: a table of at most this length is never made smaller
SMALL = 1024


@inlined
def append(w: Window, p: int, slot: int, at: int) -> None:
    entry = w.queue[w.scalars[TAIL] & (len(w.queue) - 1)]
    entry.at = at
    entry.partition = p
    entry.slot = slot
    w.scalars[TAIL] += 1


@inlined
def give_up(w: Window, p: int) -> None:
    """Records that all tuples of a partition leave at once."""
    w.gone[p].tuples += w.partitions[p].size


@inlined
def expired(w: Window, now: int) -> int:
    """The row of the oldest tuple if it has been inside for longer than the window's time (S5), else NIL. Drops entries
    of tuples that left with their partition from the head.
    """
    while w.scalars[HEAD] < w.scalars[TAIL]:
        row = w.scalars[HEAD] & (len(w.queue) - 1)
        if not _left(w, w.queue[row].partition):
            return row if now > later(w.queue[row].at, w.clause.eviction.size) else NIL
        w.scalars[HEAD] += 1
    return NIL


@inlined
def _left(w: Window, p: int) -> bool:
    """Whether the head entry, of this partition, belongs to a tuple that left with its partition; if so, decrements
    that count.
    """
    if p == NIL:
        return True
    if not len(w.gone) or not w.gone[p].tuples:
        return False
    w.gone[p].tuples -= 1
    return True


def leaves(clause: KernelClause, state: Windowed) -> int:
    """The operator clock at which the oldest tuple expires, if it does not leave before; MAX_TIME if none expires."""
    if not clause.expiring or state.scalars[HEAD] == state.scalars[TAIL]:
        return MAX_TIME
    oldest = int(state.queue["at"][state.scalars[HEAD] & (len(state.queue) - 1)])
    return time_units.later(oldest, int(clause.eviction.size) + 1)


def roomy(queue: np.ndarray, scalars: np.ndarray, more: int) -> np.ndarray:
    """The queue, in a table with room for `more` additional tuples and not much more."""
    size = _power_of_two(int(scalars[TAIL] - scalars[HEAD]) + more)
    fits = size <= len(queue) <= max(4 * size, SMALL)
    return queue if fits else _placed(in_order(queue, scalars), scalars, size)


def in_order(queue: np.ndarray, scalars: np.ndarray) -> np.ndarray:
    """The entries of the queue, from its head on."""
    return queue.take(_rows(scalars, len(queue)))


def restored(entries: np.ndarray, scalars: np.ndarray) -> np.ndarray:
    """The queue that holds these entries, which `in_order` returned."""
    return _placed(entries, scalars, _power_of_two(len(entries)))


def _placed(entries: np.ndarray, scalars: np.ndarray, size: int) -> np.ndarray:
    queue = np.zeros(size, entries.dtype)
    queue[_rows(scalars, size)] = entries
    return queue


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def _rows(scalars: np.ndarray, length: int) -> np.ndarray:
    return np.arange(scalars[HEAD], scalars[TAIL]) & (length - 1)
