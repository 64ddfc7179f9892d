"""Which tuples of two windows meet, and which leave without having met any: the rules of section 8.2 of the reference.

`walk` goes through the arrivals of both sides in order and logs what may come out: every candidate pair, found through
the chain of tuples with an equal key, and every tuple that leaves its window by itself. When the condition was
computed for the candidates, `settle` reads the log, keeps in mind who found a partner, and writes down what does come
out. The windows are those of windows/; each side has its own, and an arrival changes only that of its side (J7).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns import intrusive_list
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.engine.stream.items import FINAL, TIMER, TUPLE, WATERMARK, WINDOW
from sluice.engine.windows.policies import DELTA
from sluice.engine.windows.processing_time import EVICT, INSERT, LIVE, LOSE, Window, arrive, evict_expired, expired

LEFT, RIGHT = 0, 1
#: entries of `Side.state`
FROZEN, FREED, REACHED = range(3)
#: arrivals whose partners are looked for ahead together, and how many of each
GROUP, AHEAD = 16, 64
#: the slot that stands for no tuple; it holds the default tuple
NOTHING = 0

#: an arrival at either port, the final mark of one, or a watermark of both; `bucket` NOBODY: its key equals none (J16),
#: `key` NOBODY: it has none; `ahead` is for `_look_ahead`
MATCH_STATE = np.dtype([
    ("at", np.int64), ("event", np.int64), ("watermark", np.int64), ("slot", np.int32), ("partition", np.int32),
    ("source", np.int32), ("bucket", np.int32), ("key", np.int32), ("place", np.int32), ("ahead", np.int32),
    ("kind", np.int8), ("port", np.int8),
])  # fmt: skip

#: a stored tuple: its key, its neighbours among those of its side with an equal one, and whether it has met any (J12)
STORED_TUPLE = np.dtype([
    ("bucket", np.int32), ("key", np.int32), ("older", np.int32), ("younger", np.int32), ("matched", np.bool_),
])  # fmt: skip

#: the stored tuples of one side with equal keys
BUCKET = np.dtype([("oldest", np.int32), ("youngest", np.int32), ("count", np.int64)])

#: a candidate pair, or with NOTHING on the other side a tuple that leaves, or NOTHING on both: a watermark; `cause` is
#: the arrival, or ~row of what the clock lets go from this row of the queue, where it stands until the batch is over
ENTRY = np.dtype([("left", np.int32), ("right", np.int32), ("cause", np.int32)])

#: entries of `Port.used`; TIED: some neighbours are of one event or moment and yet of several causes
ITEMS, ROWS, TIED, SENT = range(4)

#: the number of a key among those of a batch, if `batch` is that batch's
NAME = np.dtype([("batch", np.int64), ("number", np.int32)])


class Side(NamedTuple):
    """One side of a join."""

    window: Window
    held: np.ndarray
    buckets: np.ndarray
    #: the slots of the batch that hold nothing any more, and how many they are
    freed: np.ndarray
    #: whether its final mark came, after which nothing leaves (J18), how many slots are `freed`, and its watermark
    state: np.ndarray
    #: whether tuples are kept: not under count(0) (J17)
    storing: bool
    #: whether those that leave unmatched come out
    outer: bool
    #: whether they come out on a port of their own (J14)
    apart: bool


class Port(NamedTuple):
    """What comes out on one port, as the columns of `Items`, and the slots behind each tuple."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    left: np.ndarray
    right: np.ndarray
    #: ITEMS and ROWS in use, whether items are TIED, and the cause of the last tuple that was SENT
    used: np.ndarray


class KeyNumbers(NamedTuple):
    """The keys of a batch, numbered as they come up."""

    table: np.ndarray
    found: np.ndarray
    #: the number of the batch, and how many keys it has
    used: np.ndarray


@kernel
def merge(left: np.ndarray, right: np.ndarray, same: bool, into: np.ndarray) -> None:  # noqa: FBT001
    """Both ports' arrivals as one sequence: by time, then event, then port; `same` stream: tuple by tuple."""
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
    if left[i].event != right[j].event:  # what a timer made comes before the events of its time: TIMER is below them
        return bool(left[i].event < right[j].event)
    return not same or bool(left[i].place <= right[j].place)


# ---- candidates ------------------------------------------------------------------------------------------------------


@kernel
def probe(
    left: Side, right: Side, arrivals: np.ndarray, end: int, first: int, log: np.ndarray, used: np.ndarray
) -> int:
    """Handles the arrivals from number `first` on, and at last what expires by `end`.

    Gives the number of the arrival before which the room for the log ran out, or the number of arrivals + 1 when all
    is done. `used` has the number of log entries.
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
    """Brings near what a group of arrivals will meet, which changes nothing.

    A step along a chain waits for memory. Those of several arrivals that are taken side by side wait together.
    """
    if i % GROUP == 0:
        _go_along(right, arrivals, LEFT, i)
        _go_along(left, arrivals, RIGHT, i)


@inlined
def _go_along(y: Side, arrivals: np.ndarray, port: int, i: int) -> None:
    group = range(i, min(i + GROUP, len(arrivals)))
    for j in group:
        one = arrivals[j]
        meets = one.port == port and one.kind == TUPLE and one.bucket != NIL and y.buckets[one.bucket].count
        one.ahead = y.buckets[one.bucket].oldest if meets else NIL
    for _ in range(AHEAD):
        moved = False
        for j in group:
            if arrivals[j].ahead != NIL:
                arrivals[j].ahead = y.held[arrivals[j].ahead].younger
                moved = True
        if not moved:
            break


@inlined
def _expire(left: Side, right: Side, now: int, log: np.ndarray, used: np.ndarray) -> bool:
    """Lets go what has been inside for too long on either side, in order of time (S5), before anybody looks (S6, J21).

    False where the log is full.
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
    """The row of the oldest tuple if its time is over; a side that is final keeps what it holds (J18, P15)."""
    if not side.window.clause.expiring or side.state[FROZEN]:
        return NIL
    return expired(side.window, now)


@inlined
def _leaves_at(side: Side, row: int) -> int:
    """The first moment at which it is gone."""
    return side.window.queue[row].at + side.window.clause.eviction.size + 1  # type: ignore[no-any-return]


@inlined
def _let_go(side: Side, row: int) -> int:
    slot = evict_expired(side.window, row)
    side.window.used[0] = 0
    _unlink(side, slot)
    return slot


@kernel
def _meet(x: Side, y: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> bool:
    """A tuple comes to side x: the steps of section 8.2. False where the log has no room for what may come of it.

    First it meets those of side y, which stay as they are (J7), whatever their partitions (J10). Then it enters its own
    window, and no other grows older with it (J22); those that it pushes out follow (J8).
    """
    port, slot, bucket = arrivals[i].port, arrivals[i].slot, arrivals[i].bucket
    candidates = y.buckets[bucket].count if bucket != NIL else 0
    leaving = x.window.scalars[LIVE] if x.outer and x.window.clause.eviction.kind == DELTA else 1
    if len(log) - used[0] < candidates + leaving:
        return False
    if candidates:  # J9: oldest first
        other = y.buckets[bucket].oldest
        while other != NIL:
            _pair(log, used, port, slot, other, i)
            other = y.held[other].younger
    x.held[slot].matched = 0  # V19
    x.held[slot].key = arrivals[i].key
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
def _follow(x: Side, arrivals: np.ndarray, i: int, log: np.ndarray, used: np.ndarray) -> None:
    """What the window did with an arrival. What it loses with its partition is not reported (V18)."""
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
    side.held[slot].bucket = bucket
    if bucket == NIL:
        return
    if not side.buckets[bucket].count:
        intrusive_list.make_empty(side.buckets, bucket)
    intrusive_list.append(side.buckets, bucket, side.held, slot)
    side.buckets[bucket].count += 1


@inlined
def _unlink(side: Side, slot: int) -> None:
    _free(side, slot)
    bucket = side.held[slot].bucket
    if bucket == NIL:
        return
    intrusive_list.unlink(side.buckets, bucket, side.held, slot)
    side.buckets[bucket].count -= 1


@inlined
def _free(side: Side, slot: int) -> None:
    side.freed[side.state[FREED]] = slot
    side.state[FREED] += 1


# ---- what comes out --------------------------------------------------------------------------------------------------


@kernel
def emit_matches(
    left: Side, right: Side, arrivals: np.ndarray, log: np.ndarray, holds: np.ndarray, names: KeyNumbers,
    joined: Port, left_alone: Port, right_alone: Port,
) -> None:  # fmt: skip
    """Writes down what the log makes come out. `holds` says of each candidate pair in turn whether it matches.

    A tuple comes out alone when it leaves without ever having met one (J12). A mark follows what an arrival made come
    out on the joint port (J11); those that the clock lets go neither get one nor change when there is one (J19, J20),
    and neither does what goes out on a port of its own (P7).
    """
    pair, step = 0, int(len(holds) > 1)
    for k in range(len(log)):
        a, b, cause = log[k].left, log[k].right, log[k].cause
        if a != NOTHING and b != NOTHING:  # noqa: PLR1714
            if holds[pair]:
                if left.outer:
                    left.held[a].matched = 1
                if right.outer:
                    right.held[b].matched = 1
                _put(joined, names, arrivals, cause, arrivals[cause].key, a, b)
            pair += step
        elif a == b:  # on all ports, behind what came before it (E6)
            _item(joined, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
            _item(left_alone, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
            _item(right_alone, names, arrivals[cause].event, arrivals[cause].at, WATERMARK, NIL)
        elif b == NOTHING and not left.held[a].matched:
            _alone(left, left_alone if left.apart else joined, names, arrivals, cause, a, a, NOTHING)
        elif a == NOTHING and not right.held[b].matched:
            _alone(right, right_alone if right.apart else joined, names, arrivals, cause, b, NOTHING, b)
        last = k + 1 == len(log) or log[k + 1].cause != cause
        if last and cause >= 0 and joined.used[SENT] == cause:
            _item(joined, names, arrivals[cause].event, arrivals[cause].at, WINDOW, arrivals[cause].key)


@inlined
def _alone(
    side: Side, port: Port, names: KeyNumbers, arrivals: np.ndarray, cause: int, slot: int, left: int, right: int
) -> None:
    """A tuple that found no partner: beside the default tuple, in the run that it belongs to (J13, J15), or
    on a port of its own (J14).
    """
    if cause < 0:
        _tie(port, TIMER, _leaves_at(side, ~cause), NIL)
        _item(port, names, TIMER, _leaves_at(side, ~cause), TUPLE, side.held[slot].key)
        _row(port, left, right)
    else:
        _put(port, names, arrivals, cause, side.held[slot].key if side.apart else arrivals[cause].key, left, right)


@inlined
def _put(port: Port, names: KeyNumbers, arrivals: np.ndarray, cause: int, key: int, left: int, right: int) -> None:
    _tie(port, arrivals[cause].event, arrivals[cause].at, cause)
    _item(port, names, arrivals[cause].event, arrivals[cause].at, TUPLE, key)
    _row(port, left, right)


@inlined
def _tie(port: Port, event: int, at: int, cause: int) -> None:
    """Notes that the next item has another cause than the last one, and yet is of the same event or moment."""
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
