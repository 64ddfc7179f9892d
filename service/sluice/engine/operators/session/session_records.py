"""The records of session windows: of a key, a session, what it holds of a group, an arriving tuple, a window event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: window events: a tuple enters a session (INSERT), a session takes over another one (MERGE), the content of a session
#: comes out (FIRE), a session is closed and forgotten (FORGET)
INSERT, MERGE, FIRE, FORGET = range(4)
#: the scalars: the number of the last group of firings; the time that this group has in common; the first free session,
#: which begins a chain of them, and how many there are with those in use; the same of contents
GROUP, LAST, FREE_SESSION, SESSIONS, FREE_CONTENT, CONTENTS, SCALARS = range(7)

#: a member of a list in order of time (session_list.py): which list it is in, its neighbours, an older member that
#: searches leap to, and how many members away that is
MEMBER = [
    ("time", np.int64), ("owner", np.int32), ("older", np.int32), ("younger", np.int32), ("leap", np.int32),
    ("span", np.int32),
]  # fmt: skip

#: a window partition, which is a key: the list of its open sessions, and when the oldest of them is over
#: (timer_queue.py: `due`, `leaf`, `source`)
PARTITION = np.dtype([
    ("due", np.int64), ("leaf", np.int32), ("source", np.int32),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32),
])  # fmt: skip

#: an open session: the times of its first and its last tuple, and the latest time that its tuples reach with their gaps
SESSION = np.dtype([*MEMBER, ("first", np.int64), ("last", np.int64), ("until", np.int64)])

#: with `group_by`, a key and a group: the list of what open sessions hold of it
CELL = np.dtype([("oldest", np.int32), ("youngest", np.int32), ("size", np.int32)])

#: the contents of a session, one for each group
CHAIN = np.dtype([("oldest", np.int32), ("youngest", np.int32)])

#: what a session holds of a group: how many tuples, the next content of the session, and where functions list tuples
#: the first and the last of them
CONTENT = np.dtype([
    *MEMBER, ("count", np.int64), ("session", np.int32), ("following", np.int32), ("first", np.int32),
    ("last", np.int32),
])  # fmt: skip

#: the tuples of a batch and those that are listed: their cell, and the next one of the same content
LINK = np.dtype([("cell", np.int32), ("next", np.int32)])

#: the items of a batch; `time`, `gap`, `slot` and `partition` are those of tuples, `time` that of watermarks, too
ARRIVAL = np.dtype([
    ("at", np.int64), ("event", np.int64), ("time", np.int64), ("gap", np.int64), ("watermark", np.int64),
    ("slot", np.int32), ("partition", np.int32), ("kind", np.int8),
])  # fmt: skip

#: window events; `other` is the slot of the tuple (INSERT), the session that is taken over (MERGE) or the number of the
#: firing (FIRE); `last` is the time of the session's last tuple
EVENT = np.dtype([("last", np.int64), ("session", np.int32), ("other", np.int32), ("code", np.int32)])


class Rule(NamedTuple):
    """The clause, in ticks."""

    #: how long a session may be; ENDLESS without a maximum
    longest: int
    grace: int
    #: whether a session comes out whenever it changes, not when it is over
    updates: bool
    #: whether times are those of the operator's clock
    clock: bool


class Sessions(NamedTuple):
    """All that the kernel works on."""

    scalars: np.ndarray
    partitions: np.ndarray
    sessions: np.ndarray
    #: which partition is due next (timer_queue.py): the nodes of the tree, and where it begins
    matches: np.ndarray
    starts: np.ndarray
    #: how far event time is: the watermark
    clocks: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    late: np.ndarray
    #: events, firings and late tuples in use
    used: np.ndarray
