"""Merges a stream's records of all buckets into an order that does not depend on the number of buckets.

The order is by the time of an output, and by the ordinal of the record that caused it. Outputs of several buckets with
the same time and ordinal are in order of their event-time windows, then of their keys; those that the watermark behind
the record caused follow those of the record (rule ET4). Outputs of one bucket alone keep their order.

A batch may have more outputs than fit into memory, even with one time and ordinal: all outputs of a timer have these.
So `merged_parts` takes about one Arrow batch of each bucket at a time. It relies on the order in which a bucket writes:

- times and ordinals never decrease (engine/stream/items.py);
- the outputs of one firing are in order of window and key (engine/stream/emit.py; the same for joins and dedups in
  their modules of outputs), so the outputs with one time and ordinal usually are, too. If several firings or several
  operators behind a union made them, they are not. Each Arrow batch is then sorted, and is merged as if it came from a
  bucket of its own: the result is right, but all outputs with this time and ordinal are in memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.items import EMPTY_FIRING, FINAL, WATERMARK

#: bytes that `merged_parts` gives at a time; the offsets in an Arrow array of bytes reach to 2 GiB
PIECE = 64 << 20
#: a time and an ordinal behind all records
END = (1 << 63, 0)
#: the kinds that come behind all others with the same time and ordinal
LAST = {WATERMARK: 1, FINAL: 2}


def merged(parts: Sequence[pa.RecordBatch], buckets: int) -> pa.RecordBatch:
    """The records of one stream in order. `parts` has the records of each bucket that has some.

    An EMPTY_FIRING mark is kept once if all `buckets` have it, and dropped otherwise.
    """
    return _taken(parts, _order(parts, buckets))


def merged_parts(
    sources: Sequence[Sequence[pa.RecordBatch]], buckets: int, size: int = PIECE
) -> Iterator[pa.RecordBatch]:
    """The result of `merged` in pieces. `sources` has the records of each bucket, as Arrow batches in order.

    A piece has at most about `size` bytes. It is larger if it is one record, or an Arrow batch of one bucket.
    """
    waiting = [deque(source) for source in sources]
    while any(waiting):
        # All records before the limit are in the first Arrow batches. At the limit, others may have more of them.
        limit = min((_cause(of_bucket[0], -1) for of_bucket in waiting if len(of_bucket) > 1), default=END)
        before = [part for of_bucket in waiting for part in _popped(of_bucket, limit, inclusive=False)]
        if before:
            yield from _pieces(before, _order(before, buckets), size)
        yield from _of_one_cause([_popped(of_bucket, limit, inclusive=True) for of_bucket in waiting], buckets, size)


def _cause(batch: pa.RecordBatch, row: int) -> tuple[int, int]:
    """The time and the ordinal of a record."""
    return batch.column("at")[row].as_py(), batch.column("ordinal")[row].as_py()


def _popped(waiting: deque[pa.RecordBatch], limit: tuple[int, int], *, inclusive: bool) -> list[pa.RecordBatch]:
    """Removes the records before this time and ordinal, or up to it (`inclusive`), and returns them, without a copy."""
    taken = []
    while waiting:
        at, ordinal = waiting[0].column("at").to_numpy(), waiting[0].column("ordinal").to_numpy()
        last = ordinal <= limit[1] if inclusive else ordinal < limit[1]
        count = int(np.count_nonzero((at < limit[0]) | ((at == limit[0]) & last)))
        if count:
            taken.append(waiting[0].slice(0, count))
        if count < len(at):
            waiting[0] = waiting[0].slice(count)
            break
        waiting.popleft()
    return taken


# ---- records that fit into memory ------------------------------------------------------------------------------------


def _order(parts: Sequence[pa.RecordBatch], buckets: int) -> np.ndarray:
    """The numbers of the rows in order; rows are numbered through all parts. Each part is from a bucket of its own."""
    at, ordinal, kind = (_column(parts, name) for name in ("at", "ordinal", "kind"))
    if len(parts) == 1 and not (kind == EMPTY_FIRING).any():
        return np.arange(len(at))
    order = np.lexsort((ordinal, at))
    ties = (np.diff(at[order]) == 0) & (np.diff(ordinal[order]) == 0)
    if ties.any():
        order = _in_groups(parts, order, ties)
    kept = _complete_empty_firings(at, ordinal, kind, order, buckets)
    return order if kept is None else order[kept]


def _column(parts: Sequence[pa.RecordBatch], name: str) -> np.ndarray:
    return np.concatenate([part.column(name).to_numpy() for part in parts])


def _behind(parts: Sequence[pa.RecordBatch]) -> np.ndarray:
    """Whether the watermark behind its record caused each output."""
    if "behind" not in parts[0].schema.names:
        return np.zeros(sum(part.num_rows for part in parts), np.bool_)
    return np.concatenate([part.column("behind").to_numpy(zero_copy_only=False) for part in parts])


def _in_groups(parts: Sequence[pa.RecordBatch], order: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Sorts groups of records with equal time and ordinal, if they come from several buckets. Returns the new order.

    order   row numbers in order of time and ordinal
    same    for each of these rows but the first: whether it has the same time and ordinal as the previous one
    """
    part = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    group = np.concatenate([[0], np.cumsum(~same)])
    several = np.zeros(group[-1] + 1, np.bool_)
    several[group[1:][same & (np.diff(part[order]) != 0)]] = True
    rows = np.flatnonzero(several[group])
    if not len(rows):
        return order
    chosen = order[rows]
    sorted_ = order.copy()
    sorted_[rows] = chosen[np.lexsort([*_ranks(parts, chosen), group[rows]])]
    return sorted_


def _ranks(parts: Sequence[pa.RecordBatch], rows: np.ndarray | None = None) -> list[np.ndarray]:
    """What the order of these rows (None: of all) with equal time and ordinal depends on, the last array first.

    They are in order of event-time window, then of key. Watermarks come after the other records, and final marks last.
    All this is first for what the record itself caused, then for what the watermark behind it caused.
    """
    key = pa.concat_arrays([part.column("key").cast(pa.large_binary()) for part in parts])
    kind = _column(parts, "kind")
    window = _column(parts, "window") if "window" in parts[0].schema.names else np.zeros(len(kind), np.int64)
    behind = _behind(parts)
    if rows is not None:
        key, kind, window, behind = key.take(pa.array(rows)), kind[rows], window[rows], behind[rows]
    rank = pc.rank(pc.fill_null(key, b""), tiebreaker="dense").to_numpy()
    last = np.select([kind == last_kind for last_kind in LAST], list(LAST.values()), 0)
    return [rank, np.where(last, 0, window), last, behind]


def _complete_empty_firings(
    at: np.ndarray, ordinal: np.ndarray, kind: np.ndarray, order: np.ndarray, buckets: int
) -> np.ndarray | None:
    """A mask of the ordered records that are kept; None if all are.

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


def _pieces(parts: Sequence[pa.RecordBatch], order: np.ndarray, size: int) -> Iterator[pa.RecordBatch]:
    """These rows in pieces of about `size` bytes. The parts are not concatenated: they may have more than 2 GiB."""
    if len(parts) == 1 or sum(part.nbytes for part in parts) <= size:
        yield _taken(parts, order)
        return
    first = np.cumsum([0, *(part.num_rows for part in parts)])
    ends = np.cumsum(np.concatenate([_sizes(part) for part in parts])[order])
    start = 0
    while start < len(order):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + size, "right")))
        rows = order[start:stop]
        owner = np.searchsorted(first, rows, "right") - 1
        used = [
            parts[part_number].take(pa.array(rows[owner == part_number] - first[part_number]))
            for part_number in np.unique(owner)
        ]
        yield _taken(used, np.argsort(np.argsort(owner, kind="stable")))
        start = stop


def _sizes(part: pa.RecordBatch) -> np.ndarray:
    """About how many bytes each row has. Values and keys are counted as they are, other columns by their average."""
    sizes = np.zeros(part.num_rows)
    for column in part.columns:
        if pa.types.is_binary(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
        else:
            sizes += column.nbytes / part.num_rows
    return sizes


def _taken(parts: Sequence[pa.RecordBatch], order: np.ndarray) -> pa.RecordBatch:
    batch = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    return batch if np.array_equal(order, np.arange(batch.num_rows)) else batch.take(pa.array(order))


# ---- records of one time and ordinal, which may not fit into memory --------------------------------------------------


def _of_one_cause(groups: Sequence[Sequence[pa.RecordBatch]], buckets: int, size: int) -> Iterator[pa.RecordBatch]:
    """All records of one time and ordinal in order, in pieces of about `size` bytes. `groups` has the outputs of each
    bucket, as Arrow batches in order.
    """
    filled = [parts for parts in groups if parts]
    lone = sum(int(np.count_nonzero(_column(parts, "kind") == EMPTY_FIRING)) for parts in filled)
    left = lone // buckets
    pieces = _merged_runs(_runs(filled), size) if len(filled) > 1 else (part for parts in filled for part in parts)
    for piece in pieces:
        if not lone:
            yield piece
            continue
        marks = piece.column("kind").to_numpy() == EMPTY_FIRING
        yield piece.filter(pa.array(~marks | (np.cumsum(marks) <= left)))
        left = max(0, left - int(np.count_nonzero(marks)))


def _runs(groups: Sequence[Sequence[pa.RecordBatch]]) -> list[deque[pa.RecordBatch]]:
    """The same Arrow batches as runs: in each run, all records are in order of window and key. Runs with equal windows
    and keys follow one another in the result.
    """
    runs: list[deque[pa.RecordBatch]] = []
    for parts in groups:
        end = None
        for packed in parts:
            part = _taken([packed], np.lexsort(_ranks([packed])))
            if end is None or _place(part, 0) < end:
                runs.append(deque())
            runs[-1].append(part)
            end = _place(part, -1)
    return runs


def _merged_runs(runs: Sequence[deque[pa.RecordBatch]], size: int) -> Iterator[pa.RecordBatch]:
    """The records of all runs in order. Each turn takes what is certain to come next from the first Arrow batch of each
    run, and all of at least one of these.
    """
    while any(runs):
        limit, last = min((_place(run[0], -1), number) for number, run in enumerate(runs) if run)
        heads = []
        for number, run in enumerate(runs):
            if not run:
                continue
            bisect = bisect_right if number <= last else bisect_left
            count = bisect(range(run[0].num_rows), limit, key=partial(_place, run[0]))
            head = run.popleft()
            if count:
                heads.append(head.slice(0, count))
            if count < head.num_rows:
                run.appendleft(head.slice(count))
        yield from _pieces(heads, np.lexsort(_ranks(heads)), size)


def _place(batch: pa.RecordBatch, row: int) -> tuple[bool, int, int, bytes]:
    """The place of a record among the records of the same time and ordinal (see `_ranks`)."""
    last = LAST.get(batch.column("kind")[row].as_py(), 0)
    window = 0 if last or "window" not in batch.schema.names else batch.column("window")[row].as_py()
    behind = "behind" in batch.schema.names and batch.column("behind")[row].as_py()
    return behind, last, window, batch.column("key")[row].as_py() or b""
