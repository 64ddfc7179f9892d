"""Merges a stream's records of all buckets into an order that does not depend on the number of buckets.

The order is by the time of an output, and by the ordinal of the record that caused it. Outputs of several buckets with
the same time and ordinal are in order of their event-time windows, then of their keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.items import EMPTY_FIRING, FINAL, WATERMARK


def merged(parts: Sequence[pa.RecordBatch], buckets: int) -> pa.RecordBatch:
    """The records of one stream in order. `parts` has the records of each bucket that has some.

    An EMPTY_FIRING mark is kept once if all `buckets` have it, and dropped otherwise.
    """
    batch = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    at, ordinal, kind = (batch.column(name).to_numpy() for name in ("at", "ordinal", "kind"))
    if len(parts) == 1 and not (kind == EMPTY_FIRING).any():
        return batch
    order = np.lexsort((ordinal, at))
    same = (np.diff(at[order]) == 0) & (np.diff(ordinal[order]) == 0)
    if same.any():
        order = _in_groups(batch, order, same, np.repeat(np.arange(len(parts)), [part.num_rows for part in parts]))
    kept = _complete_empty_firings(at, ordinal, kind, order, buckets)
    if kept is not None:
        order = order[kept]
    return batch if np.array_equal(order, np.arange(batch.num_rows)) else batch.take(pa.array(order))


def merged_parts(sources: Sequence[Sequence[pa.RecordBatch]], buckets: int) -> Iterator[pa.RecordBatch]:
    """The result of `merged` in pieces. `sources` has the records of each bucket, as Arrow batches in order.

    About one Arrow batch of each bucket is in memory at a time.
    """
    heads = [source[0] for source in sources]
    rest = [deque(source[1:]) for source in sources]
    while any(rest):
        ends = {number: _last(head) for number, head in enumerate(heads) if rest[number]}
        limit = min(ends.values())
        counts = [_before(head, limit) for head in heads]
        going = [head.slice(0, count) for head, count in zip(heads, counts, strict=True) if count]
        if going:
            yield merged(going, buckets)
        heads = [head.slice(count) for head, count in zip(heads, counts, strict=True)]
        for number, end in ends.items():
            if end == limit:  # the next Arrow batch may have records of the same cause
                heads[number] = pa.concat_batches([heads[number], rest[number].popleft()])
    yield merged([head for head in heads if head.num_rows], buckets)


def _last(batch: pa.RecordBatch) -> tuple[int, int]:
    """The time and the ordinal of the last record."""
    return batch.column("at")[-1].as_py(), batch.column("ordinal")[-1].as_py()


def _before(batch: pa.RecordBatch, limit: tuple[int, int]) -> int:
    """The number of records before this time and ordinal (exclusive)."""
    at, ordinal = batch.column("at").to_numpy(), batch.column("ordinal").to_numpy()
    return int(np.count_nonzero((at < limit[0]) | ((at == limit[0]) & (ordinal < limit[1]))))


def _in_groups(batch: pa.RecordBatch, order: np.ndarray, same: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Sorts groups of records with equal time and ordinal, if they come from several buckets. Returns the new order.

    Within a group the order is by event-time window, then by key. Watermarks come after the other records, and final
    marks last.

    order   row numbers in order of time and ordinal
    same    for each of these rows but the first: whether it has the same time and ordinal as the previous one
    part    the number of each row's bucket in `parts`
    """
    group = np.concatenate([[0], np.cumsum(~same)])
    several = np.zeros(group[-1] + 1, np.bool_)
    several[group[1:][same & (np.diff(part[order]) != 0)]] = True
    rows = np.flatnonzero(several[group])
    if not len(rows):
        return order
    chosen = order[rows]
    picked = batch.take(pa.array(chosen))
    rank = pc.rank(pc.fill_null(picked.column("key"), b""), tiebreaker="dense").to_numpy()
    kind = picked.column("kind").to_numpy()
    last = np.select([kind == WATERMARK, kind == FINAL], [1, 2], 0)
    by = [rank, last, group[rows]]
    if "window" in picked.schema.names:
        by.insert(1, np.where(last, 0, picked.column("window").to_numpy()))
    sorted_ = order.copy()
    sorted_[rows] = chosen[np.lexsort(by)]
    return sorted_


def _complete_empty_firings(
    at: np.ndarray, ordinal: np.ndarray, kind: np.ndarray, order: np.ndarray, buckets: int
) -> np.ndarray | None:
    """Which of the ordered records are kept; None if all are.

    Of n EMPTY_FIRING marks with equal time and ordinal, n // buckets are kept: one for each firing that was empty in
    all buckets.
    """
    lone = np.flatnonzero(kind[order] == EMPTY_FIRING)
    if not len(lone):
        return None
    stamps = np.stack([at[order][lone], ordinal[order][lone]], axis=1)
    new = np.concatenate([[True], (np.diff(stamps, axis=0) != 0).any(axis=1)])
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(lone)))
    kept = np.ones(len(order), np.bool_)
    kept[lone] = False
    for start, count in zip(starts, counts, strict=True):
        kept[lone[start : start + count // buckets]] = True
    return kept
