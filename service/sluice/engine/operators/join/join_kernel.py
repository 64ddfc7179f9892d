"""The kernels of Join: which tuples of two windows match, and which leave unmatched (section 8.1 of the reference).

`probe` processes the arrivals of both sides in order. It logs every candidate pair, found through the chain of stored
tuples with an equal key, and every tuple of an outer side that leaves its window. The caller then evaluates the
condition for all candidates. `emit_matches` reads the log, marks the tuples that matched, and writes the outputs: the
matching pairs and the unmatched tuples.

Each side has a window of its own (engine/windows/). An arrival changes only the window of its own side (J7).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.stream.items import CLEAR, FINAL, TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows.processing_time import (
    EVICT,
    INSERT,
    LIVE,
    LOSE,
    Window,
    arrive,
    evict_expired,
    evict_oldest,
    expired,
)

LEFT, RIGHT = 0, 1
#: entries of `Side.state`
FROZEN, FREED, REACHED = range(3)
#: the number of arrivals that are prefetched together, and the most candidates that are prefetched for each
GROUP, AHEAD = 16, 64
#: the slot that means "no tuple"; it has the default tuple
NOTHING = 0

#: an arrival: a tuple, clearing or final mark of one port, or a watermark of the join. `bucket` is the list of equal
#: keys, NIL if the key equals no other (J16); `key` is NIL without equalities; `ahead` is scratch memory of
#: `_look_ahead`. `deletes`: the tuple deletes the row of its key in a table (M4)
MATCH_STATE = np.dtype([
    ("at", np.int64), ("event", np.int64), ("watermark", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("source", np.int32), ("bucket", np.int32), ("key", np.int32), ("place", np.int32), ("ahead", np.int32),
    ("kind", np.int8), ("port", np.int8), ("deletes", np.bool_),
])  # fmt: skip

#: a stored tuple: its key, its neighbours in the list of its side's tuples with this key, and whether it matched (J12)
STORED_TUPLE = np.dtype([
    ("bucket", np.int32), ("key", np.int32), ("older", np.int32), ("younger", np.int32), ("matched", np.bool_),
])  # fmt: skip

#: the list of one side's stored tuples with an equal key
BUCKET = np.dtype([("oldest", np.int32), ("youngest", np.int32), ("count", np.int64)])

#: a log entry: a candidate pair of slots; a tuple that leaves, with NOTHING on the other side; or a watermark, with
#: NOTHING on both. `cause` is the index of the arrival; for a tuple that expired it is ~row, the row of the window's
#: queue, which stays readable until the batch is over
ENTRY = np.dtype([("left", np.int32), ("right", np.int32), ("cause", np.int32)])

#: entries of `Port.used`; TIED: some neighbouring items have the same event and time, but different causes
ITEMS, ROWS, TIED, SENT = range(4)

#: the number of a key within a batch; valid only if `batch` is the number of the current batch
NAME = np.dtype([("batch", np.int64), ("number", np.int32)])


class Side(NamedTuple):
    """One side of a join."""

    window: Window
    stored_tuples: np.ndarray
    buckets: np.ndarray
    #: the slots that became free in this batch; entry FREED of `state` is their number
    freed: np.ndarray
    #: FROZEN: whether the final mark came, after which no tuple leaves (J18); FREED: see above; REACHED: the watermark
    state: np.ndarray
    #: whether tuples are stored: false for count(0) (J17)
    storing: bool
    #: whether tuples that leave unmatched are emitted
    outer: bool
    #: whether unmatched tuples are emitted on a port of their own (J14)
    apart: bool


class Port(NamedTuple):
    """The outputs on one port, as the columns of `Items`, and the pair of slots behind each tuple."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    left: np.ndarray
    right: np.ndarray
    #: the numbers of ITEMS and of ROWS, whether items are TIED, and the cause of the last tuple (SENT)
    used: np.ndarray


class KeyNumbers(NamedTuple):
    """The keys that occur in the outputs of a batch, numbered in order of their first occurrence."""

    table: np.ndarray
    found: np.ndarray
    #: the number of the batch, and the number of its keys
    used: np.ndarray


@kernel
def merge(left: np.ndarray, right: np.ndarray, same: bool, into: np.ndarray) -> None:  # noqa: FBT001
    """Merges the arrivals of both ports in order of time, then event, then port.

    `same`: both ports read the same stream; then the arrivals of one event alternate, left before right.
    """
    i, j = 0, 0
    for k in range(len(into)):
        if j == len(right) or (i < len(left) and _first(left, i, right, j, same)):
            into[k] = left[i]
            i += 1
        else:
            into[k] = right[j]
            j += 1


@inlined
def _first(left: np.ndarray, i: int, right: np.ndarray, j: int, same: bool) -> bool:  # noqa: FBT001
    if left[i].at != right[j].at:
        return bool(left[i].at < right[j].at)
    if left[i].event != right[j].event:  # TIMER is less than all events: timers come first
        return bool(left[i].event < right[j].event)
    return not same or bool(left[i].place <= right[j].place)


# ---- candidates ------------------------------------------------------------------------------------------------------


@kernel
def probe(
    left: Side, right: Side, arrivals: np.ndarray, end: int, first: int, log: np.ndarray, used: np.ndarray
) -> int:
    """Processes the arrivals from index `first` on, then the tuples that expire by `end`, and writes the log.

    Returns the index of the arrival for which the log had no room, to continue there, or the number of arrivals + 1
    when all is done. `used[0]` is the number of log entries.
    """
    count = len(arrivals)
    for i in range(first, count + 1):
        _look_ahead(left, right, arrivals, i)
        if not _expire(left, right, arrivals[i].at if i < count else end, log, used):
            return i
        if i == count:
            break
        port = arrivals[i].port
        if arrivals[i].kind == FINAL:
            side = left if port == LEFT else right
            side.state[FROZEN] = 1
        elif arrivals[i].kind == WATERMARK:
            if used[0] == len(log):
                return i
            _note(log, used, NOTHING, NOTHING, i)
        elif port == LEFT:
            if not _meet(left, right, arrivals, i, log, used):
                return i
        elif not _meet(right, left, arrivals, i, log, used):
            return i
    return count + 1


@inlined
def _look_ahead(left: Side, right: Side, arrivals: np.ndarray, i: int) -> None:
    """Prefetches the candidates of the next GROUP arrivals into the CPU's cache. It changes no result.

    Each step along a chain waits for memory. The chains of several arrivals are followed in turn, so that these waits
    overlap.
    """
    if i % GROUP == 0:
        _go_along(right, arrivals, LEFT, i)
        _go_along(left, arrivals, RIGHT, i)


@inlined
def _go_along(y: Side, arrivals: np.ndarray, port: int, i: int) -> None:
    group = range(i, min(i + GROUP, len(arrivals)))
    for j in group:
        arrival = arrivals[j]
        meets = (
            arrival.port == port and arrival.kind == TUPLE and arrival.bucket != NIL and y.buckets[arrival.bucket].count
        )
        arrival.ahead = y.buckets[arrival.bucket].oldest if meets else NIL
    for _ in range(AHEAD):
        moved = False
        for j in group:
            if arrivals[j].ahead != NIL:
                arrivals[j].ahead = y.stored_tuples[arrivals[j].ahead].younger
                moved = True
        if not moved:
            break


@inlined
def _expire(left: Side, right: Side, now: int, log: np.ndarray, used: np.ndarray) -> bool:
    """Removes the tuples that have expired by `now` from both windows, in order of time (S5).

    This happens before an arrival is compared with the windows (S6, J21). Returns False if the log is full.
    """
    while True:
        a, b = _expired(left, now), _expired(right, now)
        if a == NIL and b == NIL:
            return True
        if used[0] == len(log):
            return False
        if b == NIL or (a != NIL and _leaves_at(left, a) <= _leaves_at(right, b)):
            slot = _let_go(left, a)
            if left.outer:
                _note(log, used, slot, NOTHING, ~a)
        else:
            slot = _let_go(right, b)
            if right.outer:
                _note(log, used, NOTHING, slot, ~b)


@inlined
def _expired(side: Side, now: int) -> int:
    """The queue row of the oldest tuple if it has expired, else NIL. After its final mark a side keeps its tuples (J18,
    P15).
    """
    if not side.window.clause.expiring or side.state[FROZEN]:
        return NIL
    return expired(side.window, now)


@inlined
def _leaves_at(side: Side, row: int) -> int:
    """The first nanosecond at which the tuple in this queue row is no longer in the window."""
    return later(side.window.queue[row].at, side.window.clause.eviction.size + 1)


@inlined
def _let_go(side: Side, row: int) -> int:
    slot = evict_expired(side.window, row)
    side.window.used[0] = 0
    _unlink(side, slot)
    return slot


@kernel
def _meet(x: Side, y: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> bool:
    """Processes a tuple, or the clearing of a table, that arrives at side x: the steps of section 8.1. Returns
    False if the log may lack room.

    First the tuple is paired with the stored tuples of side y that have an equal key, in whatever partition they are
    (J10); window y does not change (J7). Then the tuple enters its own window. Only partitions of side x age with it
    (J22). The tuples that it evicts from its window are logged last (J8).
    """
    if arrivals[i].kind == CLEAR:
        _clear(x, arrivals, i, log, used)
        return True
    if arrivals[i].deletes:
        _delete(x, arrivals, i, log, used)
        return True
    port, slot, bucket = arrivals[i].port, arrivals[i].slot, arrivals[i].bucket
    candidates = y.buckets[bucket].count if bucket != NIL else 0
    leaving = x.window.scalars[LIVE] if x.outer and x.window.clause.several else 1
    if len(log) - used[0] < candidates + leaving:
        return False
    if candidates:  # J9: oldest candidate first
        other = y.buckets[bucket].oldest
        while other != NIL:
            _pair(log, used, port, slot, other, i)
            other = y.stored_tuples[other].younger
    x.stored_tuples[slot].matched = 0  # V19
    x.stored_tuples[slot].key = arrivals[i].key
    if not x.storing:  # J17
        _free(x, slot)
        if x.outer:
            _pair(log, used, port, slot, NOTHING, i)
        return True
    x.window.used[0] = 0
    arrive(x.window, arrivals, i)
    _follow(x, arrivals, i, log, used)
    return True


@inlined
def _delete(table: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> None:
    """Removes the row of the arrival's key from a table, if there is one (M4). Nothing is emitted."""
    p = arrivals[i].partition
    _free(table, arrivals[i].slot)
    if table.window.partitions[p].size:
        table.window.used[0] = 0
        evict_oldest(table.window, p)
        _follow(table, arrivals, i, log, used)


@inlined
def _clear(table: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> None:
    """Removes all rows from a table (EN4). Nothing is emitted."""
    for p in range(len(table.window.partitions)):
        if table.window.partitions[p].size:
            table.window.used[0] = 0
            evict_oldest(table.window, p)
            _follow(table, arrivals, i, log, used)


@inlined
def _follow(x: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> None:
    """Applies the window events of an arrival. Tuples that are evicted with their partition are not logged (V18)."""
    for k in range(x.window.used[0]):
        event = x.window.events[k]
        if event.code == INSERT:
            _link(x, arrivals[i].slot, arrivals[i].bucket)
        elif event.code == EVICT or event.code == LOSE:  # noqa: PLR1714
            _unlink(x, event.slot)
            if x.outer and event.code == EVICT:
                _pair(log, used, arrivals[i].port, event.slot, NOTHING, i)


@inlined
def _pair(log: np.ndarray, used: np.ndarray, port: int, own: int, other: int, cause: int) -> None:
    if port == LEFT:
        _note(log, used, own, other, cause)
    else:
        _note(log, used, other, own, cause)


@inlined
def _note(log: np.ndarray, used: np.ndarray, left: int, right: int, cause: int) -> None:
    entry = log[used[0]]
    entry.left = left
    entry.right = right
    entry.cause = cause
    used[0] += 1


@inlined
def _link(side: Side, slot: int, bucket: int) -> None:
    side.stored_tuples[slot].bucket = bucket
    if bucket == NIL:
        return
    if not side.buckets[bucket].count:
        intrusive_list.make_empty(side.buckets, bucket)
    intrusive_list.append(side.buckets, bucket, side.stored_tuples, slot)
    side.buckets[bucket].count += 1


@inlined
def _unlink(side: Side, slot: int) -> None:
    _free(side, slot)
    bucket = side.stored_tuples[slot].bucket
    if bucket == NIL:
        return
    intrusive_list.unlink(side.buckets, bucket, side.stored_tuples, slot)
    side.buckets[bucket].count -= 1


@inlined
def _free(side: Side, slot: int) -> None:
    side.freed[side.state[FREED]] = slot
    side.state[FREED] += 1


# ---- outputs ---------------------------------------------------------------------------------------------------------


@kernel
def emit_matches(
    left: Side, right: Side, arrivals: np.ndarray, log: np.ndarray, holds: np.ndarray, names: KeyNumbers,
    joined: Port, left_alone: Port, right_alone: Port,
) -> None:  # fmt: skip
    """Writes the outputs that follow from the log. `holds` has the condition of each candidate pair in order; one entry
    stands for all pairs.

    A tuple is emitted unmatched if it leaves without ever having matched (J12). On the joint port a window mark follows
    the outputs of each arrival that has any (J11). Tuples that expire get no mark and do not change which arrivals get
    one (J19, J20), and neither do tuples on a port of their own (P7).
    """
    pair, step = 0, int(len(holds) > 1)
    for k in range(len(log)):
        a, b, cause = log[k].left, log[k].right, log[k].cause
        if a != NOTHING and b != NOTHING:  # noqa: PLR1714
            if holds[pair]:
                if left.outer:
                    left.stored_tuples[a].matched = 1
                if right.outer:
                    right.stored_tuples[b].matched = 1
                _put(joined, names, arrivals, cause, arrivals[cause].key, a, b)
            pair += step
        elif a == b:  # a watermark goes to all ports, after the earlier outputs (E6)
            _item(joined, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
            _item(left_alone, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
            _item(right_alone, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
        elif b == NOTHING and not left.stored_tuples[a].matched:
            _alone(left, left_alone if left.apart else joined, names, arrivals, cause, a, a, NOTHING)
        elif a == NOTHING and not right.stored_tuples[b].matched:
            _alone(right, right_alone if right.apart else joined, names, arrivals, cause, b, NOTHING, b)
        last = k + 1 == len(log) or log[k + 1].cause != cause
        if last and cause >= 0 and joined.used[SENT] == cause:
            _item(joined, names, arrivals[cause].event, arrivals[cause].at, WINDOW, arrivals[cause].key)


@inlined
def _alone(
    side: Side, port: Port, names: KeyNumbers, arrivals: np.ndarray, cause: int, slot: int, left: int, right: int
) -> None:
    """Emits an unmatched tuple: paired with the default tuple among the outputs of its cause (J13, J15), or on a port
    of its own (J14).
    """
    if cause < 0:
        _tie(port, TIMER, _leaves_at(side, ~cause), NIL)
        _item(port, names, TIMER, _leaves_at(side, ~cause), TUPLE, side.stored_tuples[slot].key)
        _row(port, left, right)
    else:
        _put(
            port,
            names,
            arrivals,
            cause,
            side.stored_tuples[slot].key if side.apart else arrivals[cause].key,
            left,
            right,
        )


@inlined
def _put(port: Port, names: KeyNumbers, arrivals: np.ndarray, cause: int, key: int, left: int, right: int) -> None:
    _tie(port, arrivals[cause].event, arrivals[cause].at, cause)
    _item(port, names, arrivals[cause].event, arrivals[cause].at, TUPLE, key)
    _row(port, left, right)


@inlined
def _tie(port: Port, event: int, at: int, cause: int) -> None:
    """Sets TIED if the next item has another cause than the last one, but the same event and time."""
    last = port.used[ITEMS] - 1
    if last >= 0 and port.event[last] == event and port.at[last] == at:
        port.used[TIED] |= port.used[SENT] != cause or cause == NIL
    port.used[SENT] = cause


@inlined
def _item(port: Port, names: KeyNumbers, event: int, at: int, kind: int, key: int) -> None:
    item = port.used[ITEMS]
    port.event[item] = event
    port.at[item] = at
    port.kind[item] = kind
    port.key[item] = _number(names, key)
    port.used[ITEMS] = item + 1


@inlined
def _row(port: Port, left: int, right: int) -> None:
    row = port.used[ROWS]
    port.left[row] = left
    port.right[row] = right
    port.used[ROWS] = row + 1


@inlined
def _number(names: KeyNumbers, key: int) -> int:
    if key == NIL:
        return NIL
    name = names.table[key]
    if name.batch != names.used[0]:
        name.batch = names.used[0]
        name.number = names.used[1]
        names.found[names.used[1]] = key
        names.used[1] += 1
    return name.number  # type: ignore[no-any-return]
