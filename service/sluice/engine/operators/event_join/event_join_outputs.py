"""The outputs of a join over event time, from the log of its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined, kernel
from sluice.columns.key_bytes import canonical
from sluice.engine.operators.event_join.event_join_records import ENTRY, LEFT, NOTHING, RIGHT, TimedSide
from sluice.engine.operators.join.join_outputs import PairItems, chained
from sluice.engine.stream.items import TUPLE, WATERMARK, WINDOW

#: entries of `Port.used`
ITEMS, ROWS, SENT = range(3)


class Port(NamedTuple):
    """The outputs on one port, as the columns of `Items`, and the pair of slots behind each tuple."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    #: the code of the key
    key: np.ndarray
    watermark: np.ndarray
    left: np.ndarray
    right: np.ndarray
    #: the numbers of ITEMS and of ROWS, and the cause of the last tuple (SENT)
    used: np.ndarray


def _empty_port(rows: int, marks: int) -> Port:
    """An empty port with room for this number of rows, and of marks beside them."""
    size = rows + marks
    return Port(
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int8), np.empty(size, np.int32),
        np.empty(size, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32), np.array([0, 0, NIL]),
    )  # fmt: skip


def written(left: TimedSide, right: TimedSide, arrivals: np.ndarray, log: np.ndarray, holds: np.ndarray) -> list[Port]:
    """The outputs that follow from the log (see `_write`): those of the joint port, then those of each side's own."""
    marks = min(len(log), len(arrivals))
    ports = [_empty_port(len(log), marks), _empty_port(len(log), 0), _empty_port(len(log), 0)]
    _write(left, right, arrivals, log, holds, *ports)
    return ports


@kernel
def _write(
    left: TimedSide, right: TimedSide, arrivals: np.ndarray, log: np.ndarray, holds: np.ndarray,
    joint: Port, left_alone: Port, right_alone: Port,
) -> None:  # fmt: skip
    """Writes the outputs that follow from the log. `holds` has the condition of each candidate pair in order; one entry
    stands for all pairs.

    A pair becomes an output if its condition holds, and its tuples have matched then. A tuple that leaves becomes one
    if it has never matched (I5), on a port of its own if its side has one (P7). On the joint port a window mark follows
    the outputs of each tuple (I6). Watermarks go to all ports.
    """
    pair, step = 0, int(len(holds) > 1)
    for k in range(len(log)):
        a, b, cause = log[k].left, log[k].right, log[k].cause
        if a != NOTHING and b != NOTHING:  # noqa: PLR1714
            if holds[pair]:
                _match(left, a)
                _match(right, b)
                _row(joint, arrivals, log, k, left.nodes, a)
            pair += step
        elif a == b:
            for port in (joint, left_alone, right_alone):
                _item(port, arrivals, log, k, WATERMARK, arrivals[cause].watermark)
        elif b == NOTHING:
            _leave(left, a, left_alone if left.apart else joint, arrivals, log, k)
        else:
            _leave(right, b, right_alone if right.apart else joint, arrivals, log, k)
        last = k + 1 == len(log) or log[k + 1].cause != cause
        if last and arrivals[cause].kind == TUPLE and joint.used[SENT] == cause:
            _item(joint, arrivals, log, k, WINDOW, 0)


@inlined
def _match(side: TimedSide, slot: int) -> None:
    """Marks the tuple as matched. Does nothing if unmatched tuples of its side are not emitted: the write would cost a
    cache miss.
    """
    if side.outer:
        side.nodes[slot].matched = 1


@inlined
def _leave(side: TimedSide, slot: int, port: Port, arrivals: np.ndarray, log: np.ndarray, k: int) -> None:
    if not side.nodes[slot].matched:
        _row(port, arrivals, log, k, side.nodes, slot)


@inlined
def _row(port: Port, arrivals: np.ndarray, log: np.ndarray, k: int, nodes: np.ndarray, slot: int) -> None:
    """Writes a tuple. One that a watermark caused has as its `watermark` the event time of the stored tuple `slot`."""
    row = port.used[ROWS]
    port.left[row] = log[k].left
    port.right[row] = log[k].right
    port.used[ROWS] = row + 1
    port.used[SENT] = log[k].cause
    _item(port, arrivals, log, k, TUPLE, 0 if arrivals[log[k].cause].kind == TUPLE else nodes[slot].time)


@inlined
def _item(port: Port, arrivals: np.ndarray, log: np.ndarray, k: int, kind: int, watermark: int) -> None:
    item = port.used[ITEMS]
    port.event[item] = arrivals[log[k].cause].event
    port.at[item] = arrivals[log[k].cause].at
    port.kind[item] = kind
    port.key[item] = log[k].key
    port.watermark[item] = watermark
    port.used[ITEMS] = item + 1


@kernel
def _caused_by_watermarks(
    left: np.ndarray, right: np.ndarray, arrivals: np.ndarray, log: np.ndarray, rows: np.ndarray, times: np.ndarray
) -> int:
    """Finds the entries that watermarks caused, without the watermarks themselves: their rows and event times. Returns
    their number. `left` and `right` are the stored tuples.
    """
    count = 0
    for k in range(len(log)):
        a, b = log[k].left, log[k].right
        if arrivals[log[k].cause].kind == WATERMARK and (a != NOTHING or b != NOTHING):
            rows[count] = k
            times[count] = right[b].time if a == NOTHING else left[a].time
            count += 1
    return count


def in_order(log: np.ndarray, nodes: Sequence[np.ndarray], arrivals: np.ndarray, keys: Interner) -> np.ndarray:
    """The log with the entries of each watermark in order of event time, then of key, left before right, then in order
    of arrival (I6, U6). So their order does not depend on buckets. `nodes` has the stored tuples of each side.
    """
    rows, time = np.empty(len(log), np.int64), np.empty(len(log), np.int64)
    count = _caused_by_watermarks(nodes[LEFT], nodes[RIGHT], arrivals, log, rows, time)
    if count <= 1:
        return log
    rows, time = rows[:count], time[:count]
    entries = log[rows]
    order = np.lexsort((time, entries["cause"]))
    ties = (np.diff(time[order]) == 0) & (np.diff(entries["cause"][order]) == 0)
    if ties.any():
        tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
        group = np.append(0, np.cumsum(~ties))[tied]
        order[tied] = _by_key(entries, order[tied], group, nodes, keys)
    ordered = log.copy()
    ordered[rows] = entries[order]
    return ordered


def _by_key(
    log: np.ndarray, rows: np.ndarray, group: np.ndarray, nodes: Sequence[np.ndarray], keys: Interner
) -> np.ndarray:
    """These rows of the log with each group in order of key, left before right, then in order of arrival."""
    left, right, code = (log[name][rows] for name in ("left", "right", "key"))
    of_right = left == NOTHING
    number = np.where(of_right, nodes[RIGHT]["number"][right], nodes[LEFT]["number"][left])
    used, key = keys.numbered(code)
    rank = np.zeros(len(used) + 1, np.int64)
    rank[canonical(keys.take(used))] = np.arange(len(used))
    return rows[np.lexsort((number, of_right, rank[key], group))]


def pair_items(pieces: list[Port], keys: Interner) -> PairItems:
    """The items on one port, from the tables that its kernel filled."""
    items = [piece.used[ITEMS] for piece in pieces]
    rows = [piece.used[ROWS] for piece in pieces]
    event, at, kind, code, watermark = (
        chained(pieces, name, items) for name in ("event", "at", "kind", "key", "watermark")
    )
    left, right = (chained(pieces, name, rows) for name in ("left", "right"))
    used, key = keys.numbered(code)
    return PairItems(event, at, kind, key, keys.take(used), watermark, left, right)


def empty_log(count: int) -> np.ndarray:
    return np.empty(count, ENTRY)
