"""What the kernels of event time work on: one record each per partition, time, event and firing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.engine.windows.event_time.timeline_blocks import Room

#: window events
INSERT, FIRE, FORGET = range(3)
#: earlier than every time, later than every time; with all sizes added, no time comes near them (ticks.py)
NEVER, ENDLESS = -(2**63), 2**63 - 1
#: the scalars: groups of firings, the end of the window that fired last, whether the item in hand has been taken in,
#: the number of the next watermark, and where the panes that fired are in their table
GROUP, LAST, TAKEN, EPOCH, FIRST_PANE, PANES, SCALARS = range(7)

#: a window partition: its times, and when something is due
PARTITION = np.dtype([
    # due.py: the earliest time that something is to be done at, and the partition's place in its tree
    ("due", np.int64), ("leaf", np.int32),
    # timeInterval: whether the partition took part in the completion of a pane (E34)
    ("full", np.bool_),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32), ("spare", np.int32),
    # timeInterval: the oldest slice of a pane that is not complete, and the oldest that a late tuple came to
    # slidingTime: the time whose left window closes next
    ("open", np.int32), ("fresh", np.int32),
    # the topic partition (slidingTime), and the code of the key
    ("source", np.int32), ("key", np.int32),
    # timeInterval: the end of the next pane to fire; the epoch of `fresh`
    ("fire", np.int64), ("epoch", np.int64),
])  # fmt: skip

#: the fields of whatever is at a time (timeline.py) beside its own: its neighbours, the older node that it leaps to,
#: the time of that, which says whether it was dropped, and how many nodes away it is, as the leaps count
MEMBER = [
    ("time", np.int64), ("older", np.int32), ("younger", np.int32),
    ("landing", np.int64), ("leap", np.int32), ("span", np.int32),
]  # fmt: skip

#: slidingTime: a time at which a partition has tuples
TIME = np.dtype(MEMBER)
#: timeInterval: a slice, named by its first time; the epoch of the last tuple that came late to it, and how far it is
#: behind the start of a pane
SLICE = np.dtype([*MEMBER, ("epoch", np.int64), ("phase", np.int64)])

#: the items of a batch; all but `at` and `event` count for tuples only, `time` is also that of a watermark
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("time", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("kind", np.int8), ("watermark", np.int64),
])  # fmt: skip

#: window events: a tuple comes in at `begin`, which is `node` and behind `older` (INSERT); the content of `begin` to
#: `end`, both inside, is handed over (FIRE; `slot` is the number of the firing); what is not later than `end` leaves
#: (FORGET)
EVENT = np.dtype([
    ("begin", np.int64), ("end", np.int64), ("slot", np.int32), ("partition", np.int32), ("code", np.int32),
    ("node", np.int32), ("older", np.int32),
])  # fmt: skip

#: when and for whom a window fired; those that start together at one item share a `group`
FIRING = np.dtype([
    ("event", np.int64), ("at", np.int64), ("group", np.int64), ("partition", np.int32), ("kind", np.int8),
    ("start", np.int64), ("end", np.int64), ("index", np.int64), ("watermark", np.int64),
])  # fmt: skip

#: a pane that fired: its end, how often, and the number of the watermark at which it did last
PANE = np.dtype([("end", np.int64), ("count", np.int64), ("epoch", np.int64)])

#: tuples that came too late: the number of the item, and by how much
LATE = np.dtype([("item", np.int64), ("behind", np.int64)])


class Window(NamedTuple):
    """All that a kernel works on."""

    scalars: np.ndarray
    partitions: np.ndarray
    nodes: np.ndarray
    room: Room
    #: which partition is due next, of each topic partition (due.py): the nodes of all trees, and where each begins
    matches: np.ndarray
    starts: np.ndarray
    #: how far event time is: of each topic partition (slidingTime), or the watermark (timeInterval)
    clocks: np.ndarray
    panes: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    late: np.ndarray
    #: events, firings and late tuples in use
    used: np.ndarray
