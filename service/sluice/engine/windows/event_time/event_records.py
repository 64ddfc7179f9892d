"""The records and tables of the event-time kernels: partitions, times, items, window events and firings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time.timeline_blocks import NodeAllocation

#: window events
INSERT, FIRE, FORGET = range(3)
#: NEVER is earlier than every time, ENDLESS is later. No sum of a time and all sizes reaches them (event_ticks.py)
NEVER, ENDLESS = -(2**63), 2**63 - 1
#: the scalars: GROUP is the number of the last group of firings, LAST the end of the window that fired last, TAKEN
#: whether the current item was taken in, EPOCH the number of the next watermark; FIRST_PANE and PANES are the index of
#: the first pane in `panes` and the number of panes there, LEFT_OUT the number of empty panes that were left out (EP6)
GROUP, LAST, TAKEN, EPOCH, FIRST_PANE, PANES, LEFT_OUT, SCALARS = range(8)

#: one record per window partition: its times, and when it has something to do
PARTITION = np.dtype([
    # timer_queue.py: the earliest time at which the partition has something to do, and the number of its leaf in the
    # tree
    ("due", np.int64), ("leaf", np.int32),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32), ("spare", np.int32),
    # timeInterval: `open` is the oldest slice of an incomplete pane, `fresh` the oldest slice that got a late tuple;
    # slidingTime: `open` is the time whose left window closes next
    ("open", np.int32), ("fresh", np.int32),
    # the topic partition (slidingTime), and the code of the key
    ("source", np.int32), ("key", np.int32),
    # timeInterval: the end of the next pane to fire, and the epoch to which `fresh` belongs
    ("fire", np.int64), ("epoch", np.int64),
])  # fmt: skip

#: the fields of a node of a timeline (timeline.py): its time, its neighbours, and its leap to an older node: `landing`
#: is the time of that node, by which a leap to a dropped node is recognized, and `span` counts the nodes that the leap
#: passes
MEMBER = [
    ("time", np.int64), ("older", np.int32), ("younger", np.int32),
    ("landing", np.int64), ("leap", np.int32), ("span", np.int32),
]  # fmt: skip

#: slidingTime: a node is a time at which a partition has tuples
TIME = np.dtype(MEMBER)
#: timeInterval: a node is a slice, whose time is its first time; `epoch` is that of the last tuple that came late to
#: it, `phase` is the distance of its time from the start of a pane, in ticks
SLICE = np.dtype([*MEMBER, ("epoch", np.int64), ("phase", np.int64)])

#: the items of a batch; `slot` and `partition` are those of tuples, `time` is that of tuples and watermarks
FIELDS = [
    ("at", np.int64), ("event", np.int64), ("time", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("kind", np.int8), ("watermark", np.int64),
]  # fmt: skip
#: `drop`, for panes of the calendar that stay open for late tuples: of a tuple, the watermark at which the last pane
#: that contains it closes; of a watermark, the time before which tuples are late
ARRIVAL = np.dtype([*FIELDS, ("drop", np.int64)])

#: window events. INSERT: a tuple is inserted at the time `begin`, which is that of `node`, behind the node `older`.
#: FIRE: the tuples from `begin` to `end`, both inclusive, are emitted; `slot` is the number of the firing. FORGET: the
#: tuples up to `end`, inclusive, leave
EVENT = np.dtype([
    ("begin", np.int64), ("end", np.int64), ("slot", np.int32), ("partition", np.int32), ("code", np.int32),
    ("node", np.int32), ("older", np.int32),
])  # fmt: skip

#: one record per firing: when and for which partition a window fired; firings at one item whose windows end together
#: share a `group`
FIRING = np.dtype([
    ("event", np.int64), ("at", np.int64), ("group", np.int64), ("partition", np.int32), ("kind", np.int8),
    ("start", np.int64), ("end", np.int64), ("index", np.int64), ("watermark", np.int64),
])  # fmt: skip

#: a pane that fired: its end, how often it fired, and the number of the watermark at which it fired last
PANE = np.dtype([("end", np.int64), ("count", np.int64), ("epoch", np.int64)])

#: with results of empty panes, one record per window partition: the end of the next pane that may come out empty, the
#: end of the last one for which the key lives, and the end of the pane whose result is the one
#: before (EP2, EP4). Nothing comes out if `next` is behind `until`
FILLING = np.dtype([("next", np.int64), ("until", np.int64), ("last", np.int64)])
#: where each key has a time of its own, one record per window partition (KT1): its watermark in ticks, the last one
#: that was computed from its tuples in nanoseconds, `drop`, the watermark at which its windows fire as the clock closes
#: them, and how often panes may have fired. Nothing reads `drop`: without it, earlier checkpoints could not be read
KEY_TIME = np.dtype([
    ("watermark", np.int64), ("made", np.int64), ("drop", np.int64), ("goal", np.int64), ("epoch", np.int64),
])  # fmt: skip
#: the watermark that each tuple of a batch gives its key and, for panes of the calendar that stay open for late tuples,
#: the time that is the discardAge behind the tuple: the tuple is late if the watermark is behind that
KEY_MARK = np.dtype([("watermark", np.int64), ("made", np.int64), ("aged", np.int64)])
#: the `index` of the firing of an empty pane, and, with results of empty panes, of the first pane of a key whose time
#: begins, perhaps anew (KT4)
EMPTY, ANEW = -1, -2

#: late tuples: the number of the item, and how late the tuple was, in ticks
LATE = np.dtype([("item", np.int64), ("behind", np.int64)])


class KeyTimes(NamedTuple):
    """The times of keys, where each key has its own (KT1); else the tables are empty."""

    times: np.ndarray
    #: by item of the batch
    marks: np.ndarray
    #: the partitions that wait until they are idle, and until they are forgotten
    idle: EarlyResults
    forgotten: EarlyResults
    #: the minimum distance of two watermarks, in nanoseconds
    gap: int
    #: the time at which the clock closes windows of keys, while it does so (one element); else NEVER
    instant: np.ndarray


class Window(NamedTuple):
    """The tables that a kernel reads and writes."""

    scalars: np.ndarray
    partitions: np.ndarray
    nodes: np.ndarray
    room: NodeAllocation
    #: the nodes of the tournament trees of all topic partitions, and the index at which each tree begins
    #: (timer_queue.py)
    matches: np.ndarray
    starts: np.ndarray
    #: the event time so far: the stream time of each topic partition (slidingTime), or the watermark (timeInterval)
    clocks: np.ndarray
    panes: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    late: np.ndarray
    #: the numbers of events, firings and late tuples in use
    used: np.ndarray
    #: timeInterval: a row for each slice
    early: EarlyResults
    #: for panes of the calendar that stay open for late tuples: the watermark at which the last pane of each slice
    #: closes, and the time before which tuples are late (one element); else empty
    closings: np.ndarray
    drop: np.ndarray
    #: with results of empty panes: a row for each partition; and for panes of the calendar until when a key lives that
    #: has a tuple, by item of the batch and by slice
    fillings: np.ndarray
    lives: np.ndarray
    spans: np.ndarray
    keys: KeyTimes
