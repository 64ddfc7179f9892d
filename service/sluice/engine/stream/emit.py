"""Turns firings and their results into items: the tuples of each firing, then its mark. An early result has no mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.kernel import kernel
from sluice.columns.key_bytes import canonical
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.stream.items import EARLY_FIRING, FINAL, MADE, TIMER, TUPLE, WINDOW, Items

#: the order of firings that are in output order already
IN_ORDER = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class MadeItems:
    """The columns of items that an operator makes, without their tuples."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    watermark: np.ndarray

    def around(self, tuples: pa.RecordBatch) -> Items:
        """The items with these tuples, which are in the order of the items."""
        source = np.full(len(self.event), MADE, np.int32)
        return Items(self.event, self.at, self.kind, source, self.key, self.keys, tuples, self.watermark)


@dataclass(frozen=True, slots=True)
class Plan(MadeItems):
    """The items of a batch. `rows` has the row of the results for each tuple; None if the rows are in order already."""

    rows: np.ndarray | None

    def items(self, tuples: pa.RecordBatch) -> Items:
        """The items of this plan. `tuples` has the results in the order of their rows."""
        return self.around(self.in_order(tuples))

    def in_order(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """`tuples`, which are in the order of the rows of their results, in the order of the items."""
        return tuples if self.rows is None else tuples.take(pa.array(self.rows))


def plan(firings: np.ndarray, row_firing: np.ndarray, keys: Interner | None) -> Plan:
    """Plans the items of each firing: its rows, then one mark (P9), which is for its own window partition only (A6).
    An early result has no mark (F4).

    `row_firing` has the number of the firing of each row of the results, ascending. `keys` is None if the window has no
    partitions. A watermark that is passed on is a firing without rows.
    """
    key, names = named(firings["partition"], keys)
    early = firings["kind"] == EARLY_FIRING
    order = _order_with_early(firings, key, names) if early.any() else _order(firings, key, names)
    count = len(row_firing) + len(firings) - int(np.count_nonzero(early))
    event, at, watermark = (np.empty(count, np.int64) for _ in range(3))
    kind, item_key = np.empty(count, np.int8), np.empty(count, np.int32)
    first, rows = np.empty(len(order), np.int64), np.empty(len(row_firing) if len(order) else 0, np.int64)
    _find(row_firing, first)
    _write(firings, order, key, row_firing, first, rows, event, at, kind, item_key, watermark)
    return Plan(event, at, kind, item_key, names, watermark, rows if len(order) else None)


@kernel
def _find(row_firing: np.ndarray, first: np.ndarray) -> None:
    """Writes the number of the first row of each firing to `first`."""
    row = 0
    for firing in range(len(first)):
        first[firing] = row
        while row < len(row_firing) and row_firing[row] == firing:
            row += 1


@kernel
def _write(
    firings: np.ndarray, order: np.ndarray, key: np.ndarray, row_firing: np.ndarray, first: np.ndarray,
    rows: np.ndarray, event: np.ndarray, at: np.ndarray, kind: np.ndarray, keys: np.ndarray, watermark: np.ndarray,
) -> None:  # fmt: skip
    """Fills the columns of a plan: for each firing its rows, which begin at `first`, and its mark. If `order` is empty,
    the firings are written in their given order and `rows` is not filled.
    """
    item, tuples, row = 0, 0, 0
    for turn in range(len(firings)):
        firing = turn
        if len(order):
            if turn + AHEAD < len(order):
                prefetch(firings, order[turn + AHEAD])
            firing = order[turn]
            row = first[firing]
        record = firings[firing]
        while True:
            is_row = row < len(row_firing) and row_firing[row] == firing
            if not is_row and record.kind == EARLY_FIRING:
                break
            event[item], at[item], keys[item] = record.event, record.at, key[firing]
            watermark[item] = record.watermark
            kind[item] = TUPLE if is_row else record.kind
            item += 1
            if not is_row:
                break
            if len(order):
                rows[tuples] = row
                tuples += 1
            row += 1


def final(items: Items, event: int, at: int) -> Items:
    """The items, followed by the final mark (P13)."""
    ends = (event, at, FINAL, MADE, -1)
    columns = (items.event, items.at, items.kind, items.source, items.key)
    event_, at_, kind, source, key = (
        np.append(column, np.array([end], column.dtype)) for column, end in zip(columns, ends, strict=True)
    )
    return Items(event_, at_, kind, source, key, items.keys, items.tuples, np.append(items.watermark, 0))


def named(partition: np.ndarray, keys: Interner | None) -> tuple[np.ndarray, pa.BinaryArray]:
    """The index of each partition's key among the keys in use, -1 if the partition is NIL; and these keys."""
    if keys is None or not len(partition):
        return np.full(len(partition), -1, np.int32), pa.array([], pa.binary())
    used, key = keys.numbered(partition)
    return key, keys.take(used)


def _order(firings: np.ndarray, key: np.ndarray, names: pa.BinaryArray) -> np.ndarray:
    """The order of the firings in the output. Firings of one group, which are adjacent, are sorted by their key bytes,
    so the order depends neither on buckets nor on storage. Returns IN_ORDER if every group has one firing.
    """
    group = np.empty(len(firings), np.int64)
    groups = _number(firings, group)
    if groups == len(firings):
        return IN_ORDER
    rank = _ranks(names)
    order, by_rank = np.empty(len(firings), np.int64), np.empty(len(firings), np.int64)
    _sort(np.arange(len(firings)), rank[key], np.zeros(len(rank) + 1, np.int64), by_rank)
    _sort(by_rank, group, np.zeros(groups + 1, np.int64), order)
    return order


def _ranks(names: pa.BinaryArray) -> np.ndarray:
    """The rank of each key among all keys by its bytes, from 1 on; the last entry, 0, is that of no key."""
    rank = np.zeros(len(names) + 1, np.int64)
    rank[canonical(names)] = np.arange(1, len(names) + 1)
    return rank


def _order_with_early(firings: np.ndarray, key: np.ndarray, names: pa.BinaryArray) -> np.ndarray:
    """The order of firings some of which give early results.

    If the clock causes early results at an instant, all results that it causes then are one group, early ones and
    others. Within a group the order is by window, then by key (F5), as merge.py has it for the outputs of several
    buckets. At other instants the groups stay: at a tick, partitions are evicted in an order of their own, before the
    others are flushed (V16, V17).
    """
    timed = (firings["event"] == TIMER) & ((firings["kind"] == EARLY_FIRING) | (firings["kind"] == WINDOW))
    timed &= np.isin(firings["at"], firings["at"][timed & (firings["kind"] == EARLY_FIRING)])
    joined = timed[1:] & timed[:-1] & (np.diff(firings["at"]) == 0)
    group = np.append(0, np.cumsum((np.diff(firings["group"]) != 0) & ~joined))
    return np.lexsort((_ranks(names)[key], firings["watermark"], group))


@kernel
def _number(firings: np.ndarray, group: np.ndarray) -> int:
    """Numbers the groups of firings from 0 on and returns how many there are."""
    count = 0
    for k in range(len(firings)):
        if k == 0 or firings[k].group != firings[k - 1].group:
            count += 1
        group[k] = count - 1
    return count


@kernel
def _sort(some: np.ndarray, by: np.ndarray, starts: np.ndarray, into: np.ndarray) -> None:
    """Stable counting sort of the indices `some` by the numbers `by`, into `into`. O(n). `starts` holds zeros, one more
    than there are possible numbers in `by`.
    """
    for k in some:
        starts[by[k] + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]
    for k in some:
        into[starts[by[k]]] = k
        starts[by[k]] += 1
