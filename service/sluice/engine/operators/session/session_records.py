"""The records that the session kernels read and write: key, session, content, arrival, window event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.event_time import event_records
from sluice.engine.windows.event_time.event_records import KeyTimes

#: window events: a tuple enters a session (INSERT), a session takes over another one (MERGE), the content of a session
#: is emitted (FIRE), a session is closed and removed (FORGET)
INSERT, MERGE, FIRE, FORGET = range(4)
#: the scalars: the number of the last group of firings (at the same index as in event_records.py), and the common time
#: of this group; the first session in the chain of free ones, and the number of sessions ever used; the same two
#: numbers for contents
GROUP, LAST, FREE_SESSION, SESSIONS, FREE_CONTENT, CONTENTS, SCALARS = range(7)

#: a member of a list in order of time (session_list.py): the number of its list, its neighbours, an older member to
#: which searches leap, and the distance of that member
MEMBER = [
    ("time", np.int64), ("owner", np.int32), ("older", np.int32), ("younger", np.int32), ("leap", np.int32),
    ("span", np.int32),
]  # fmt: skip

#: a window partition, which is a key: the list of its open sessions, and the time at which the oldest of them is over
#: (`due`, `leaf`, `source`: see timer_queue.py)
PARTITION = np.dtype([
    ("due", np.int64), ("leaf", np.int32), ("source", np.int32),
    ("oldest", np.int32), ("youngest", np.int32), ("size", np.int32),
])  # fmt: skip

#: an open session: the times of its first and last tuple, and the maximum over its tuples of time plus gap (`until`)
SESSION = np.dtype([*MEMBER, ("first", np.int64), ("last", np.int64), ("until", np.int64)])

#: a group of a key (used with `group_by`): the list of its contents in open sessions
GROUP_RECORD = np.dtype([("oldest", np.int32), ("youngest", np.int32), ("size", np.int32)])

#: the contents of a session, one for each group
CHAIN = np.dtype([("oldest", np.int32), ("youngest", np.int32)])

#: a content, which is the part of a session that belongs to one group: the number of tuples, the next content of the
#: session and, if functions list tuples, the first and the last tuple
CONTENT = np.dtype([
    *MEMBER, ("count", np.int64), ("session", np.int32), ("following", np.int32), ("first", np.int32),
    ("last", np.int32),
])  # fmt: skip

#: a tuple of the batch, or a listed tuple: its group, and the next tuple of the same content
LINK = np.dtype([("group", np.int32), ("next", np.int32)])

#: an item of the batch; a tuple has a gap
ARRIVAL = np.dtype([*event_records.FIELDS, ("gap", np.int64)])

#: window events; `other` is the slot of the tuple (INSERT), the session that is taken over (MERGE) or the number of the
#: firing (FIRE); `last` is the time of the session's last tuple
EVENT = np.dtype([("last", np.int64), ("session", np.int32), ("other", np.int32), ("code", np.int32)])


class SessionSettings(NamedTuple):
    """The parameters of the window clause. Durations are in ticks."""

    #: the maximum duration of a session; ENDLESS without a maximum
    longest: int
    grace: int
    #: whether a session is emitted at each change (`emit: updates`), not when it is over
    updates: bool
    #: whether times are times of the operator clock
    clock: bool
    #: whether each key has a time of its own (KT1)
    keyed: bool


class Sessions(NamedTuple):
    """The tables of the kernel."""

    scalars: np.ndarray
    partitions: np.ndarray
    sessions: np.ndarray
    #: the queue of partitions by the time at which they are due (timer_queue.py): the nodes of the tree, and its start
    matches: np.ndarray
    starts: np.ndarray
    #: the watermark (one element)
    clocks: np.ndarray
    events: np.ndarray
    firings: np.ndarray
    late: np.ndarray
    #: the numbers of events, firings and late tuples written
    used: np.ndarray
    #: a row for each session
    early: EarlyResults
    keys: KeyTimes
