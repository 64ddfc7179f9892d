"""The records that the kernels of joins over event time read and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: the slot that means "no tuple"; it has the default tuple
NOTHING = 0
LEFT, RIGHT = 0, 1
#: the scalars: the watermark less the grace, before which a tuple is late; the number of tuples received, which numbers
#: the next one; the number of stored tuples; whether the final mark of each side came; the watermark of each side
CLOCK, ARRIVED, LIVE, LEFT_FINAL, RIGHT_FINAL, LEFT_REACHED, RIGHT_REACHED, SCALARS = range(8)
#: entries of `used`: log entries, late tuples, and freed slots of each side
LOGGED, TOO_LATE, LEFT_FREED, RIGHT_FREED, KINDS = range(5)

#: a key of the equalities: when it has something to do next (`due`, `leaf`, `source`: see timer_queue.py)
KEY = np.dtype([("due", np.int64), ("leaf", np.int32), ("source", np.int32)])
#: the stored tuples of one side with this key, in order of their event times; equal times in order of arrival
LIST = np.dtype([("oldest", np.int32), ("youngest", np.int32), ("size", np.int32)])
#: a stored tuple. `number` is that of its arrival. `leap` is an older tuple of the list, to which searches leap,
#: `landing` the number of that tuple, by which a leap to a tuple that left is recognized, and `span` counts the tuples
#: that the leap passes. `lone`: its key equals no other key (J16)
NODE = np.dtype([
    ("time", np.int64), ("number", np.int64), ("landing", np.int64), ("older", np.int32), ("younger", np.int32),
    ("leap", np.int32), ("span", np.int32), ("owner", np.int32), ("matched", np.bool_), ("lone", np.bool_),
])  # fmt: skip

#: an item of either port. `time` is that of a tuple, or the watermark of the join less the grace; `watermark` is the
#: watermark of the output; `item` is the number of the item at its port, `place` its number among the items of one
#: event; `ahead` is scratch memory of `interval_kernel`
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("time", np.int64), ("watermark", np.int64), ("slot", np.int32),
    ("key", np.int32), ("item", np.int32), ("place", np.int32), ("ahead", np.int32), ("kind", np.int8),
    ("port", np.int8), ("lone", np.bool_),
])  # fmt: skip

#: a log entry: a pair of slots; a tuple that leaves, with NOTHING on the other side; or a watermark, with NOTHING on
#: both. `cause` is the index of the arrival, `key` the code of the key
ENTRY = np.dtype([("left", np.int32), ("right", np.int32), ("cause", np.int32), ("key", np.int32)])

#: a late tuple: the index of its arrival, and how late it was, in nanoseconds
LATE_ARRIVAL = np.dtype([("arrival", np.int64), ("behind", np.int64)])


class TimedSide(NamedTuple):
    """One side of the join."""

    lists: np.ndarray
    nodes: np.ndarray
    #: the slots that became free in this batch
    freed: np.ndarray
    #: whether tuples that leave without ever having had a partner are emitted
    outer: bool
    #: whether they are emitted on a port of their own
    apart: bool


class JoinTables(NamedTuple):
    """The tables that a kernel reads and writes."""

    left: TimedSide
    right: TimedSide
    keys: np.ndarray
    #: the queue of keys by the time at which they are due (timer_queue.py), and as many numbers of scratch memory
    tree: np.ndarray
    found: np.ndarray
    scalars: np.ndarray
    log: np.ndarray
    late: np.ndarray
    used: np.ndarray


class JoinSettings(NamedTuple):
    """The sizes of the window clause, in nanoseconds."""

    #: of an interval: a right tuple may be earlier by `before`, and later by `after`
    before: int
    after: int
    #: of an as-of join: the maximum age of the partner; ENDLESS without one
    age: int
