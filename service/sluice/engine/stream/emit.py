"""Firings and their results as items: the tuples of each firing, then its mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.kernel import kernel
from sluice.columns.ordering import canonical
from sluice.columns.prefetch import AHEAD, prefetch
from sluice.engine.stream.items import FINAL, MADE, TUPLE, Items

#: no order but that in which they stand
IN_ORDER = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the items of a batch come from: the row of results behind each tuple, None where they are in order, and
    the columns of `Items`.
    """

    rows: np.ndarray | None
    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    watermark: np.ndarray

    def items(self, tuples: pa.RecordBatch) -> Items:
        """The items with these tuples, given in the order of the results."""
        if self.rows is not None:
            tuples = tuples.take(pa.array(self.rows))
        source = np.full(len(self.event), MADE, np.int32)
        return Items(self.event, self.at, self.kind, source, self.key, self.keys, tuples, self.watermark)


def plan(firings: np.ndarray, row_firing: np.ndarray, keys: Interner | None) -> Plan:
    """What comes out of each firing: its rows, then one mark (P9), which other partitions do not share (A6).

    `row_firing` is the firing of each row of results, in order; `keys` None: the window has no partitions.

    A watermark that is handed on is a firing without rows.
    """
    key, names = named(firings["partition"], keys)
    order, count = _order(firings, key, names), len(row_firing) + len(firings)
    event, at, watermark = (np.empty(count, np.int64) for _ in range(3))
    kind, item_key = np.empty(count, np.int8), np.empty(count, np.int32)
    first, rows = np.empty(len(order), np.int64), np.empty(len(row_firing) if len(order) else 0, np.int64)
    _find(row_firing, first)
    _write(firings, order, key, row_firing, first, rows, event, at, kind, item_key, watermark)
    return Plan(rows if len(order) else None, event, at, kind, item_key, names, watermark)


@kernel
def _find(row_firing: np.ndarray, first: np.ndarray) -> None:
    """Where the rows of each firing begin."""
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
    """The columns of a plan: of each firing its rows, which begin at `first`, and its mark. An `order` that is empty is
    that of the firings, and `rows` are not asked for.
    """
    item, tuples, row = 0, 0, 0
    for turn in range(len(firings)):
        firing = turn
        if len(order):
            if turn + AHEAD < len(order):
                prefetch(firings, order[turn + AHEAD])
            firing = order[turn]
            row = first[firing]
        one = firings[firing]
        while True:
            is_row = row < len(row_firing) and row_firing[row] == firing
            event[item], at[item], keys[item] = one.event, one.at, key[firing]
            watermark[item] = one.watermark
            kind[item] = TUPLE if is_row else one.kind
            item += 1
            if not is_row:
                break
            if len(order):
                rows[tuples] = row
                tuples += 1
            row += 1


def final(items: Items, event: int, at: int) -> Items:
    """The items with the final mark behind them (P13)."""
    ends = (event, at, FINAL, MADE, -1)
    columns = (items.event, items.at, items.kind, items.source, items.key)
    event_, at_, kind, source, key = (
        np.append(column, np.array([end], column.dtype)) for column, end in zip(columns, ends, strict=True)
    )
    return Items(event_, at_, kind, source, key, items.keys, items.tuples, np.append(items.watermark, 0))


def named(partition: np.ndarray, keys: Interner | None) -> tuple[np.ndarray, pa.BinaryArray]:
    """The key of each of these as an index into the keys of this batch, -1 for NOBODY's."""
    if keys is None or not len(partition):
        return np.full(len(partition), -1, np.int32), pa.array([], pa.binary())
    used, key = keys.numbered(partition)
    return key, keys.take(used)


def _order(firings: np.ndarray, key: np.ndarray, names: pa.BinaryArray) -> np.ndarray:
    """Firings in order, those of one group, which stand side by side, by their key bytes: the same however partitions
    were spread or stored. Empty: they are as they stand.
    """
    group = np.empty(len(firings), np.int64)
    groups = _number(firings, group)
    if groups == len(firings):
        return IN_ORDER
    rank = np.zeros(len(names) + 1, np.int64)
    rank[canonical(names)] = np.arange(1, len(names) + 1)
    order, by_rank = np.empty(len(firings), np.int64), np.empty(len(firings), np.int64)
    _sort(np.arange(len(firings)), rank[key], np.zeros(len(rank) + 1, np.int64), by_rank)
    _sort(by_rank, group, np.zeros(groups + 1, np.int64), order)
    return order


@kernel
def _number(firings: np.ndarray, group: np.ndarray) -> int:
    """Numbers the groups from 0 on; gives how many there are."""
    count = 0
    for k in range(len(firings)):
        if k == 0 or firings[k].group != firings[k - 1].group:
            count += 1
        group[k] = count - 1
    return count


@kernel
def _sort(some: np.ndarray, by: np.ndarray, starts: np.ndarray, into: np.ndarray) -> None:
    """By counting, O(n), and equal ones as they stand. `starts` has one zero more than `by` has numbers."""
    for k in some:
        starts[by[k] + 1] += 1
    for number in range(1, len(starts)):
        starts[number] += starts[number - 1]
    for k in some:
        into[starts[by[k]]] = k
        starts[by[k]] += 1
