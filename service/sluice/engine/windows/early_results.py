"""Early results: when an open window emits a result of its tuples so far (docs/reference/extensions.md, F1 to F9).

The kernels of tumbling windows, panes and sessions use these functions. A window is a row number: that of a window
partition, of a pane's slice, or of a session. Each window counts the tuples since its last result. The first of these
tuples starts the wait of `early: time(t)`. All waits are equally long and the operator clock never goes back, so the
windows that wait are in the order of their due times if each is appended to the end of a queue:

    queue     oldest --> pane 4, due at 10 --younger--> pane 9, due at 10 --younger--> pane 2, due at 13 <-- youngest

Every step costs O(1), and nothing happens for windows without new tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.columns.state_tables import Table
from sluice.engine.stream.items import EARLY_FIRING
from sluice.time_units import MAX_TIME, SECOND

#: the due time of a window that does not wait, or whose wait ends beyond the range of times
NOT_WAITING = MAX_TIME

#: one record per window: the number of tuples since its last result, the operator clock at which its early result is
#: due, its window partition, and its neighbours in the queue
EARLY = np.dtype([
    ("tuples", np.int64), ("due", np.int64), ("partition", np.int32), ("older", np.int32), ("younger", np.int32),
])  # fmt: skip
#: the ends of the queue, a list (intrusive_list.py) in a table of one row
QUEUE = np.dtype([("oldest", np.int32), ("youngest", np.int32)])


class EarlyPolicy(NamedTuple):
    """The policy as the kernels read it: `every` so many tuples, and a `wait` of so many nanoseconds; 0 where the
    policy has none.
    """

    wanted: bool
    every: int
    wait: int


class EarlyResults(NamedTuple):
    """The policy and the tables. The tables are empty if no early results are wanted."""

    policy: EarlyPolicy
    windows: np.ndarray
    queue: np.ndarray


def table(per: str) -> Table:
    """The declaration of the table of windows, whose rows are those of the row space `per`.

    The links of the queue are not saved: `queue_of` makes them from the due times.
    """
    return Table(per, EARLY, refers={"partition": "partition"}, fresh={"due": NOT_WAITING})


def queue_of(windows: np.ndarray) -> np.ndarray:
    """Links the windows that wait, in order of their due times, and returns the ends of the queue."""
    queue = np.full(1, NIL, QUEUE)
    waiting = np.flatnonzero(windows["due"] != NOT_WAITING)
    if len(waiting):
        order = waiting[np.argsort(windows["due"][waiting], kind="stable")]
        ends = np.concatenate([[NIL], order, [NIL]])
        windows["older"][order], windows["younger"][order] = ends[:-2], ends[2:]
        queue["oldest"], queue["youngest"] = order[0], order[-1]
    return queue


def next_due(windows: np.ndarray, queue: np.ndarray) -> int:
    """The operator clock at which the next early result is due; NOT_WAITING if no window waits."""
    oldest = int(queue["oldest"][0])
    return NOT_WAITING if oldest == NIL else int(windows["due"][oldest])


def shown_due(windows: np.ndarray, p: int) -> dict[str, float]:
    """A field for the inspection of a window partition: `early_due`, when its next early result is due, in seconds of
    the operator clock. Empty if no early result is due. O(windows).
    """
    due = int(windows["due"][windows["partition"] == p].min(initial=NOT_WAITING))
    return {} if due == NOT_WAITING else {"early_due": due / SECOND}


def are_early(firings: np.ndarray) -> np.ndarray:
    """A mask of the firings that give early results."""
    early: np.ndarray = firings["kind"] == EARLY_FIRING
    return early


@inlined
def count_tuple(e: EarlyResults, window: int, p: int, at: int) -> bool:
    """Counts a tuple that entered the window, which belongs to window partition `p`, at `at` (operator clock). Returns
    whether an early result is due at once, by count (F1). The first tuple since the last result starts the wait (F2).
    """
    e.windows[window].partition = p
    e.windows[window].tuples += 1
    if e.policy.wait > 0 and e.windows[window].due == NOT_WAITING:
        e.windows[window].due = later(at, e.policy.wait)
        if e.windows[window].due != NOT_WAITING:
            intrusive_list.append(e.queue, 0, e.windows, window)
    return e.policy.every > 0 and e.windows[window].tuples >= e.policy.every


@inlined
def start_again(e: EarlyResults, window: int) -> None:
    """Sets the count to 0 and ends the wait: the window has just emitted a result, or holds nothing any more (F3)."""
    if e.windows[window].due != NOT_WAITING:
        intrusive_list.unlink(e.queue, 0, e.windows, window)
        e.windows[window].due = NOT_WAITING
    e.windows[window].tuples = 0


@inlined
def due_by(e: EarlyResults, now: int) -> int:
    """The window whose early result is due first, if it is due by `now` (inclusive); else NIL (F2)."""
    window = e.queue[0].oldest
    return window if window != NIL and e.windows[window].due <= now else NIL


@inlined
def take_over(e: EarlyResults, window: int, other: int) -> None:
    """Merges the count and the wait of `other` into those of `window` (F6). The longer wait, which began first, stays.
    `other` is as new afterwards.
    """
    e.windows[window].tuples += e.windows[other].tuples
    if e.windows[other].due < e.windows[window].due:
        if e.windows[window].due != NOT_WAITING:
            intrusive_list.unlink(e.queue, 0, e.windows, window)
        intrusive_list.insert(e.queue, 0, e.windows, other, window)
        e.windows[window].due = e.windows[other].due
    start_again(e, other)
