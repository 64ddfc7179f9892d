"""The records that the kernel of a Barrier reads and writes: key, queue, waiting tuple, and the log of what left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: a key: the time at which its next tuple waits no longer (`due`, `leaf`, `source`: timer_queue.py), how many of its
#: inputs have a tuple, and how many tuples wait
PARTITION = np.dtype([
    ("due", np.int64), ("leaf", np.int32), ("source", np.int32), ("ready", np.int32), ("size", np.int64),
])  # fmt: skip
#: the tuples of one key and input that wait, in order of arrival
QUEUE = np.dtype([("oldest", np.int64), ("youngest", np.int64), ("size", np.int64)])
#: a tuple that waits: the next one of its queue, the operator clock when it came, its topic partition
WAITING = np.dtype([("younger", np.int64), ("at", np.int64), ("source", np.int64)])
#: an item of an input
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("watermark", np.int64), ("partition", np.int64), ("slot", np.int64),
    ("kind", np.int8), ("port", np.int32), ("source", np.int32),
])  # fmt: skip

#: why a tuple left: in a set; there was no room; it waited for too long; the final mark came
SET, FULL, EXPIRED, LEFT = range(4)
#: a tuple that left: the number of the arrival that caused it, or before which the clock did; the tuples of a set
#: follow one another in the order of the inputs
ENTRY = np.dtype([
    ("what", np.int8), ("cause", np.int64), ("due", np.int64), ("partition", np.int64), ("port", np.int32),
    ("slot", np.int64),
])  # fmt: skip


class BarrierTables(NamedTuple):
    """The tables of the kernel. `used` is the number of entries of the log; `held` the number of waiting tuples."""

    partitions: np.ndarray
    queues: np.ndarray
    waiting: np.ndarray
    matches: np.ndarray
    starts: np.ndarray
    log: np.ndarray
    used: np.ndarray
    held: np.ndarray


class BarrierSettings(NamedTuple):
    """The parameters of the operator. `timeout` in nanoseconds; ENDLESS: tuples wait for ever."""

    ports: int
    buffer: int
    timeout: int
