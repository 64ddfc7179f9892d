"""Window marks that conditions on tuples create (`mark_when`), for producers that cannot send marks.

A mark that applies to all keys of its topic partition is created where records are read, before rows are routed to
buckets, although the tuple that caused it has one key. A mark for one key is created in the bucket of the tuple.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.key_bytes import key_bytes
from sluice.engine.stream.expression_eval import checked, evaluate
from sluice.engine.stream.items import KEY_MARK, TUPLE, WINDOW, Items
from sluice.model.expressions import Expression
from sluice.model.spec import Stream


def standing(stream: Stream, tuples: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """For each tuple: whether a window mark stands before it, and whether one stands behind it. A condition without a
    value counts as false. Marks for one key are left out.
    """
    if stream.mark_of:
        return (np.zeros(tuples.num_rows, np.bool_),) * 2
    return _holds(stream.mark_before, tuples), _holds(stream.mark_after, tuples)


def _holds(condition: Expression | None, tuples: pa.RecordBatch) -> np.ndarray:
    if condition is None:
        return np.zeros(tuples.num_rows, np.bool_)
    holds = pc.fill_null(evaluate(condition, tuples), False)  # noqa: FBT003
    return holds.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def marked(stream: Stream, items: Items) -> Items:
    """The items with the marks that the conditions of the stream create. Each mark has the event of its tuple."""
    return _around(items, *standing(stream, items.tuples), WINDOW)


def marked_by_key(stream: Stream, items: Items) -> Items:
    """The items with the marks for one key that the conditions of the stream create (B8). A tuple whose key has no
    value gets none.
    """
    if not stream.mark_of or not items.tuples.num_rows:
        return items
    before, behind = _holds(stream.mark_before, items.tuples), _holds(stream.mark_after, items.tuples)
    keys = [checked(expression, items.tuples) for expression in stream.mark_of]
    has_key = ~np.logical_or.reduce([key.failed() for key in keys])
    before, behind = before & has_key, behind & has_key
    with_marks = before | behind
    if not with_marks.any():
        return items
    names = key_bytes([key.values.filter(pa.array(with_marks)) for key in keys])
    key = np.full(len(items), -1, np.int32)
    key[items.kind == TUPLE] = np.where(with_marks, len(items.keys) + np.cumsum(with_marks) - 1, -1)
    marked = _around(items, before, behind, KEY_MARK)
    is_mark = marked.kind == KEY_MARK
    numbers = np.repeat(key, _copies(items, before, behind))
    keys = pa.concat_arrays([items.keys, names.cast(items.keys.type)])
    return replace(marked, keys=keys, key=np.where(is_mark, numbers, marked.key).astype(np.int32))


def _copies(items: Items, before: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """How many items each item becomes: itself and its marks."""
    copies = np.ones(len(items), np.int64)
    copies[items.kind == TUPLE] += before.astype(np.int64) + behind
    return copies


def _around(items: Items, before: np.ndarray, behind: np.ndarray, mark: int) -> Items:
    """The items with marks of the kind `mark` before and behind some of the tuples."""
    if not (before.any() or behind.any()):
        return items
    is_tuple = items.kind == TUPLE
    around = np.zeros((len(items), 3), np.bool_)  # a mark before it, the item itself, a mark behind it
    around[:, 1] = True
    around[is_tuple, 0], around[is_tuple, 2] = before, behind
    item, place = np.nonzero(around)
    kind = np.where(place == 1, items.kind[item], mark).astype(items.kind.dtype)
    event, at, source, key, watermark = (
        column[item] for column in (items.event, items.at, items.source, items.key, items.watermark)
    )
    return Items(event, at, kind, source, key, items.keys, items.tuples, watermark)
