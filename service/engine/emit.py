"""Firings and their results as items: the tuples of each firing, then its mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.engine.items import FINAL, MADE, TUPLE, Items
from service.engine.linked import NOBODY
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
    count = len(firings)
    rows = np.bincount(row_firing, minlength=count).astype(np.int64)
    key, names = named(firings["partition"], keys)
    order = _order(firings["group"], key, names)
    ends = np.cumsum(rows[order] + 1)
    kind = np.full(ends[-1] if count else 0, TUPLE, np.int8)
    kind[ends - 1] = firings["kind"][order]
    each = np.repeat(order, rows[order] + 1)
    first = np.cumsum(rows) - rows
    return Plan(
        rows=_ranges(first[order], rows[order]),
        event=firings["event"][each],
        at=firings["at"][each],
        kind=kind,
        key=key[each],
        keys=names,
        watermark=firings["watermark"][each],
    )


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
    if len(group) < 2 or not (group[1:] == group[:-1]).any():  # noqa: PLR2004
        return np.arange(len(group))
    rank = np.full(len(names) + 1, -1, np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    return np.lexsort((rank[key], group))


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers from each start on, as many as its length says."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
