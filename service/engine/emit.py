"""Firings and their results as items: the tuples of each firing, then its mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from service.engine.items import FINAL, MADE, TUPLE, Items
from service.engine.kernel import kernel
from service.engine.linked import NOBODY
from service.engine.ordering import canonical
from service.engine.strings import Strings


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the items of a batch come from: the row of results behind each tuple, and the columns of `Items`."""

    rows: np.ndarray
    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    watermark: np.ndarray

    def items(self, tuples: pa.RecordBatch) -> Items:
        """The items with these tuples, given in the order of the results."""
        if not np.array_equal(self.rows, np.arange(len(self.rows))):
            tuples = tuples.take(pa.array(self.rows))
        source = np.full(len(self.event), MADE, np.int32)
        return Items(self.event, self.at, self.kind, source, self.key, self.keys, tuples, self.watermark)


def plan(firings: np.ndarray, row_firing: np.ndarray, keys: Strings | None) -> Plan:
    """What comes out of each firing: its rows, then one mark (P9), which other partitions do not share (A6).

    `row_firing` is the firing of each row of results, in order; `keys` None: the window has no partitions.

    A watermark that is handed on is a firing without rows.
    """
    rows = np.bincount(row_firing, minlength=len(firings))
    key, names = named(firings["partition"], keys)
    count = len(row_firing) + len(firings)
    made = Plan(
        rows=np.empty(len(row_firing), np.int64),
        event=np.empty(count, np.int64),
        at=np.empty(count, np.int64),
        kind=np.empty(count, np.int8),
        key=np.empty(count, np.int32),
        keys=names,
        watermark=np.empty(count, np.int64),
    )
    order = _order(firings["group"], key, names)
    _write(firings, order, key, rows, np.cumsum(rows) - rows, made.rows, made.event, made.at, made.kind, made.key,
           made.watermark)  # fmt: skip
    return made


@kernel
def _write(
    firings: np.ndarray, order: np.ndarray, key: np.ndarray, rows: np.ndarray, first: np.ndarray,
    row: np.ndarray, event: np.ndarray, at: np.ndarray, kind: np.ndarray, keys: np.ndarray, watermark: np.ndarray,
) -> None:  # fmt: skip
    """The columns of a plan: of each firing in turn its `rows`, which are those from `first` on, and its mark."""
    item, tuples = 0, 0
    for firing in order:
        for k in range(rows[firing] + 1):
            event[item], at[item], keys[item] = firings[firing].event, firings[firing].at, key[firing]
            watermark[item] = firings[firing].watermark
            if k < rows[firing]:
                kind[item] = TUPLE
                row[tuples] = first[firing] + k
                tuples += 1
            else:
                kind[item] = firings[firing].kind
            item += 1


def final(items: Items, event: int, at: int) -> Items:
    """The items with the final mark behind them (P13)."""
    ends = (event, at, FINAL, MADE, -1)
    columns = (items.event, items.at, items.kind, items.source, items.key)
    event_, at_, kind, source, key = (
        np.append(column, np.array([end], column.dtype)) for column, end in zip(columns, ends, strict=True)
    )
    return Items(event_, at_, kind, source, key, items.keys, items.tuples, np.append(items.watermark, 0))


def named(partition: np.ndarray, keys: Strings | None) -> tuple[np.ndarray, pa.BinaryArray]:
    """The key of each of these as an index into the keys of this batch."""
    key = np.full(len(partition), -1, np.int32)
    if keys is None or not len(partition):
        return key, pa.array([], pa.binary())
    some = partition != NOBODY
    used, key[some] = _numbered(partition[some], keys.count)
    return key, keys.take(used)


def _numbered(ids: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids that occur, in order, and the place of each among them; there are `count` in all."""
    if count > 4 * len(ids):
        return np.unique(ids, return_inverse=True)
    occurs = np.zeros(count, np.bool_)
    occurs[ids] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - 1)[ids]


def _order(group: np.ndarray, key: np.ndarray, names: pa.BinaryArray) -> np.ndarray:
    """Firings in order, those of one group by their key bytes: the same however partitions were spread or stored."""
    if not (group[1:] == group[:-1]).any():
        return np.arange(len(group))
    rank = np.zeros(len(names) + 1, np.int64)
    rank[canonical(names)] = np.arange(1, len(names) + 1)
    return np.argsort((group - group[0]) * len(rank) + rank[key], kind="stable")
