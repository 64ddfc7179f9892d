"""What the kernel reads and writes: records of partitions, tuples, items, window events and firings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.engine.windows.policies import Clause

#: window events. Of a partition that leaves as a whole a sliding window LOSEs each tuple before the CLEAR; FULL: it is
#: full for the first time (4.5)
INSERT, EVICT, FIRE, CLEAR, LOSE, FULL = range(6)
#: the scalars of a window: the ends of the list of stored partitions and their number, the ends of the queue of tuples
#: under time eviction and the number of tuples, when the timer is due next, the number of the last group of firings,
#: under delta eviction that of the last tuple, and the place of the tick among the instants of an aligned timer
FIRST, LAST, STORED, HEAD, TAIL, LIVE, TICK, GROUP, NUMBER, INSTANT, SCALARS = range(11)

#: the state of each window partition, one record each
PARTITION = np.dtype([
    ("size", np.int64),
    # the ends of its tuples in order of arrival, where they are chained
    ("oldest", np.int32),
    ("youngest", np.int32),
    # neighbours among the partitions that hold tuples
    ("following", np.int32),
    ("preceding", np.int32),
    # the tuple that a delta trigger measures from, or the oldest of a tumbling delta (T10, S11)
    ("reference", np.int64),
    # insertions since the count trigger last fired (S10)
    ("counter", np.int32),
    ("referenced", np.bool_),
    ("full", np.bool_),
])  # fmt: skip

#: in which second a tuple was last inserted into each partition, for partitionAge
AGE = np.dtype([("second", np.int64)])

#: where delta eviction finds the least tuple of each partition (values.py)
VALUES = np.dtype([("first", np.int32), ("last", np.int32), ("least", np.int32)])

#: the neighbours of each tuple in its partition
CHAIN = np.dtype([("younger", np.int32), ("older", np.int32)])

#: of each tuple its number, the next in its row or among its siblings, and the first of those below it (values.py)
ORDER = np.dtype([("number", np.int64), ("next", np.int32), ("below", np.int32)])

#: under time eviction: when each tuple came in, its partition and its slot
QUEUE = np.dtype([("at", np.int64), ("partition", np.int32), ("slot", np.int32)])

#: how many of the tuples in the queue left with their partition (queue.py)
GONE = np.dtype([("tuples", np.int64)])

#: the items of a batch; `slot` and `partition` count for tuples only
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("source", np.int32), ("kind", np.int8), ("watermark", np.int64),
], align=True)  # fmt: skip

#: the window events of a batch, in order; the `slot` of a FIRE is the number of the firing
EVENT = np.dtype([("slot", np.int32), ("partition", np.int32), ("code", np.int32)])

#: when and for whom a window fired; those of one tick or one mark share a `group`. `stored`: what CountAll sees, the
#: tuples of its own partition where it tumbles, else of all (A18)
FIRING = np.dtype([
    ("event", np.int64), ("at", np.int64), ("group", np.int64), ("stored", np.int64), ("watermark", np.int64),
    ("partition", np.int32), ("kind", np.int8),
])  # fmt: skip


class Window(NamedTuple):
    """All that the kernel works on. A table that the window's policies do not need is empty (tables.py)."""

    clause: Clause
    scalars: np.ndarray
    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    #: the words of every tuple
    words: np.ndarray
    #: of each partition one bit per topic partition whose tuples it holds
    sources: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    #: events and firings in use
    used: np.ndarray
    #: of an aligned timer the instants at which it is due, from the next tick on; empty for one that is periodic
    instants: np.ndarray
