"""The records that the kernel of a Dedup reads and writes: key, period, emitted tuple."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.engine.operators.session.session_records import MEMBER

#: the scalars: the first period in the chain of free ones, and the number of periods ever used
FREE_PERIOD, PERIODS, SCALARS = range(3)

#: a key: the list of its periods, and the time at which the oldest of them is over (`due`, `leaf`, `source`: see
#: timer_queue.py)
PARTITION = np.dtype([
    ("due", np.int64), ("leaf", np.int32), ("source", np.int32),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32),
])  # fmt: skip

#: a period, which begins at the time of its first tuple (`time`). With `keep: last` also the newest tuple: its time and
#: its slot
PERIOD = np.dtype([*MEMBER, ("last", np.int64), ("slot", np.int32)])

#: an emitted tuple: the number of the item before which it is emitted, the end of its period, its key, its slot
EMITTED = np.dtype([("cause", np.int64), ("due", np.int64), ("partition", np.int32), ("slot", np.int32)])


class DedupSettings(NamedTuple):
    """The parameters of the operator."""

    #: the length of a period in ticks
    size: int
    #: whether the newest tuple of a period is emitted when the period is over; else its first tuple is emitted at once
    holding: bool
    #: whether times are times of the operator clock
    clock: bool
    #: whether times are numbers or values of tuples, so that no tuple is late, and a lower one is a duplicate (Z9, Z10)
    by_tuples: bool
    #: whether times are values, which may go back, so that each key waits in the queue until it is forgotten (Z10)
    by_value: bool
    #: whether a duplicate begins the period anew (Z11), and whether a window mark forgets all keys (Z12)
    extending: bool
    flushing: bool


class Periods(NamedTuple):
    """The tables of the kernel."""

    scalars: np.ndarray
    partitions: np.ndarray
    periods: np.ndarray
    #: the queue of keys by the time at which they are due (timer_queue.py): the nodes of the tree, and its start
    matches: np.ndarray
    starts: np.ndarray
    #: the watermark, the time of the operator clock, or the number of the last tuple (one element)
    clocks: np.ndarray
    #: for each item whether it passes: a mark, or the first tuple of a period
    passes: np.ndarray
    emitted: np.ndarray
    #: the slots of tuples that are no longer needed
    freed: np.ndarray
    late: np.ndarray
    #: the number of periods (one element)
    held: np.ndarray
    #: the numbers of emitted tuples, freed slots and late tuples written
    used: np.ndarray
