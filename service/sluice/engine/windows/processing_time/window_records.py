"""The records that the kernel reads and writes: partitions, tuples, items, window events and firings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel, read_only
from sluice.columns.scratch_buffers import Scratch
from sluice.engine.stream.items import EMPTY_FIRING, MADE, TUPLE, WINDOW, Items
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.policies import KernelClause

#: window events. LOSE: one tuple of a sliding window's partition that leaves as a whole, before its CLEAR. FULL: the
#: partition is full for the first time (4.5)
INSERT, EVICT, FIRE, CLEAR, LOSE, FULL = range(6)
#: the scalars of a window: FIRST and LAST are the ends of the list of stored partitions, STORED is its length; HEAD and
#: TAIL are the ends of the queue under time eviction, LIVE is the number of stored tuples; TICK is when the timer is
#: due next; GROUP is the number of the last group of firings, NUMBER that of the last tuple under delta eviction,
#: INSTANT the index of the tick among the instants of an aligned timer
FIRST, LAST, STORED, HEAD, TAIL, LIVE, TICK, GROUP, NUMBER, INSTANT, SCALARS = range(11)

#: one record per window partition: its state
PARTITION = np.dtype([
    ("size", np.int64),
    # the oldest and the youngest tuple, if the tuples are chained
    ("oldest", np.int32),
    ("youngest", np.int32),
    # neighbours in the list of partitions that hold tuples
    ("following", np.int32),
    ("preceding", np.int32),
    # the value from which a delta trigger measures, or that of the first tuple of a tumbling delta window (T10, S11)
    ("reference", np.int64),
    # insertions since the count trigger last fired (S10)
    ("counter", np.int32),
    ("referenced", np.bool_),
    ("full", np.bool_),
])  # fmt: skip

#: for partitionAge: the second in which a tuple was last inserted into each partition
AGE = np.dtype([("second", np.int64)])

#: for delta eviction: the ends of each partition's row, and the root of its heap (delta_heap.py)
VALUES = np.dtype([("first", np.int32), ("last", np.int32), ("least", np.int32)])

#: one record per tuple: its neighbours in its partition
CHAIN = np.dtype([("younger", np.int32), ("older", np.int32)])

#: one record per tuple under delta eviction: its number, the next tuple in its row or among its siblings, and its first
#: child (delta_heap.py)
ORDER = np.dtype([("number", np.int64), ("next", np.int32), ("below", np.int32)])

#: one record per tuple under time eviction: when it was inserted, nanoseconds, its partition and its slot
QUEUE = np.dtype([("at", np.int64), ("partition", np.int32), ("slot", np.int32)])

#: how many entries of a partition in the queue belong to tuples that left with the partition (time_queue.py)
GONE = np.dtype([("tuples", np.int64)])

#: the items of a batch; `slot` and `partition` are those of tuples
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("source", np.int32), ("kind", np.int8), ("watermark", np.int64),
], align=True)  # fmt: skip

#: the window events of a batch, in order; the `slot` of a FIRE is the number of the firing
EVENT = np.dtype([("slot", np.int32), ("partition", np.int32), ("code", np.int32)])

#: one record per firing: when and for which partition a window fired; the firings of one tick or one mark share a
#: `group`. `stored` is the result of CountAll: the number of tuples in the partition of a tumbling window, or in all
#: partitions of a sliding one (A18). `reason` is why a tumbling window emitted the partition, NONE of other windows
FIRING = np.dtype([
    ("event", np.int64), ("at", np.int64), ("group", np.int64), ("stored", np.int64), ("watermark", np.int64),
    ("partition", np.int32), ("kind", np.int8), ("reason", np.int8),
])  # fmt: skip


class Window(NamedTuple):
    """The tables that the kernel reads and writes. A table that the window's policies do not need is empty
    (window_tables.py).
    """

    clause: KernelClause
    scalars: np.ndarray
    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    #: one row per tuple: its attributes and expressions as words
    words: np.ndarray
    #: one row per partition: a bit for each topic partition whose tuples it holds
    sources: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    #: the numbers of events and firings in use
    used: np.ndarray
    early: EarlyResults
    #: the partitions that wait from their first tuple on
    waits: EarlyResults
    #: the instants at which an aligned timer is due, from the next tick on; empty for a periodic timer
    instants: np.ndarray


def arrivals(items: Items, partition: np.ndarray, slot: np.ndarray, scratch: Scratch) -> np.ndarray:
    """Builds one record per item. `partition` and `slot` have one entry per tuple."""
    records = scratch.room(len(items), ARRIVAL)
    columns = (items.kind, items.at, items.event, items.watermark, items.source, partition, slot)
    _write(records, *map(read_only, columns))
    return records


@kernel
def _write(
    records: np.ndarray, kind: np.ndarray, at: np.ndarray, event: np.ndarray, watermark: np.ndarray, source: np.ndarray,
    partition: np.ndarray, slot: np.ndarray,
) -> None:  # fmt: skip
    row = 0
    for i in range(len(records)):
        record = records[i]
        record.kind = WINDOW if kind[i] == EMPTY_FIRING else kind[i]
        record.at, record.event, record.watermark = at[i], event[i], watermark[i]
        record.source = 0 if source[i] == MADE else source[i]
        record.partition = record.slot = 0
        if kind[i] == TUPLE:
            record.partition, record.slot = partition[row], slot[row]
            row += 1
