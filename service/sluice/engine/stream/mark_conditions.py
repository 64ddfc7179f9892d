"""Window marks that conditions on tuples create (`mark_when`), for producers that cannot send marks.

The marks are created where records are read, before rows are routed to buckets: a mark applies to all keys of its topic
partition, although the tuple that caused it has one key.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.expression_eval import evaluate
from sluice.engine.stream.items import TUPLE, WINDOW, Items
from sluice.model.expressions import Expression
from sluice.model.spec import Stream


def standing(stream: Stream, tuples: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """For each tuple: whether a window mark stands before it, and whether one stands behind it. A condition without a
    value counts as false.
    """
    return _holds(stream.mark_before, tuples), _holds(stream.mark_after, tuples)


def _holds(condition: Expression | None, tuples: pa.RecordBatch) -> np.ndarray:
    if condition is None:
        return np.zeros(tuples.num_rows, np.bool_)
    found = pc.fill_null(evaluate(condition, tuples), False)  # noqa: FBT003
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def marked(stream: Stream, items: Items) -> Items:
    """The items with the marks that the conditions of the stream create. Each mark has the event of its tuple."""
    before, behind = standing(stream, items.tuples)
    if not (before.any() or behind.any()):
        return items
    is_tuple = items.kind == TUPLE
    around = np.zeros((len(items), 3), np.bool_)  # a mark before it, the item itself, a mark behind it
    around[:, 1] = True
    around[is_tuple, 0], around[is_tuple, 2] = before, behind
    item, place = np.nonzero(around)
    kind = np.where(place == 1, items.kind[item], WINDOW).astype(items.kind.dtype)
    event, at, source, key, watermark = (
        column[item] for column in (items.event, items.at, items.source, items.key, items.watermark)
    )
    return Items(event, at, kind, source, key, items.keys, items.tuples, watermark)
