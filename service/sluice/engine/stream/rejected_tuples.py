"""Makes items of the tuples that an operator rejects: a stream of their own, REJECTS, which becomes dead letters.

This module itself finds the tuples for which an expression has no value, for example a remainder of a division by zero.
All other tuples come here from the code that rejects them, with the reasons:

    late                  the kernels panes.py, sliding_time.py, session_kernel.py, dedup_kernel.py and, for joins by
                          event time, timed_lists.py
    too far ahead         watermark_tracker.py
    an unusable time      the operators over event time
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.column_forms import type_of
from sluice.columns.json_columns import json_values
from sluice.engine.stream.expression_eval import computed
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.expressions import Expression
from sluice.model.unparse import expression as written

#: name of the stream of rejected tuples; the event of an item is that of the rejected tuple
REJECTS = ""
#: end of the reason of each tuple that lacks a value
NO_VALUE = "has no value"
SCHEMA = pa.schema([("operator", pa.string()), ("reason", pa.string()), ("tuple", pa.string())])


def readable(
    items: Items, expressions: Sequence[Expression], operator: str
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Evaluates the expressions. Returns the items without the tuples for which one of them has no value, the values of
    the others, and the rejected tuples or None.
    """
    return _without_nulls(
        items, computed(expressions, items.tuples), operator, lambda n: f"{written(expressions[n])} {NO_VALUE}"
    )


def complete(
    items: Items, made: pa.RecordBatch, operator: str, stream: str, expressions: Sequence[Expression] = ()
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Checks the rows that were computed for an output stream. Returns the items and rows without those that have a
    null, and the rejected tuples or None, whose reasons have the one of `expressions` that gives no value.
    """

    def reason(number: int) -> str:
        why = f": {written(expressions[number])}" if expressions else ""
        return f"{stream}.{made.schema.names[number]} {NO_VALUE}{why}"

    return _without_nulls(items, made, operator, reason)


def _without_nulls(
    items: Items, columns: pa.RecordBatch, operator: str, reason: Callable[[int], str]
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Removes the tuples with a null in `columns`, which has one row per tuple of `items`. `reason` gives the reason
    of a column.
    """
    if not any(column.null_count for column in columns.columns):
        return items, columns, None
    null = np.array([column.is_null().to_numpy(zero_copy_only=False) for column in columns.columns])
    bad = null.any(axis=0)
    kept = items.kind != TUPLE
    kept[~kept] = ~bad
    reasons = [reason(column) for column in null[:, bad].argmax(axis=0).tolist()]
    return items.only(kept), columns.filter(pa.array(~bad)), rejected(items.only(~kept), operator, reasons)


def joined(parts: Sequence[Items | None]) -> dict[str, Items]:
    """All rejected tuples as one stream; an empty dict if there are none."""
    some = [part for part in parts if part is not None and len(part)]
    if not some:
        return {}
    event, at, kind, source = (
        np.concatenate([getattr(part, name) for part in some]) for name in ("event", "at", "kind", "source")
    )
    tuples = pa.Table.from_batches([part.tuples for part in some]).combine_chunks().to_batches()[0]
    key = np.full(tuples.num_rows, -1, np.int32)
    return {REJECTS: Items(event, at, kind, source, key, pa.array([], pa.binary()), tuples)}


def rejected(items: Items, operator: str, reasons: list[str]) -> Items:
    """The tuples as items of the stream of rejected tuples, each with its reason."""
    columns = dict(zip(items.tuples.schema.names, map(_shown, items.tuples.columns), strict=True))
    rows = [{name: values[row] for name, values in columns.items()} for row in range(len(reasons))]
    texts = [orjson.dumps(row).decode() for row in rows]
    tuples = pa.record_batch([[operator] * len(texts), reasons, texts], schema=SCHEMA)
    return items.with_tuples(tuples)


def _shown(column: pa.Array) -> list[Any]:
    """The values as JSON has them, None for null."""
    there = column.is_valid()
    values = iter(json_values(column.filter(there), type_of(column.type)))
    return [next(values) if one else None for one in there.to_pylist()]


def rejected_late(items: Items, operator: str, late: np.ndarray, reasons: Iterable[str]) -> Items | None:
    """The late tuples as rejects, each with its reason; None if there are none."""
    if not len(late):
        return None
    dropped = np.zeros(len(items), np.bool_)
    dropped[late["item"]] = True
    return rejected(items.only(dropped), operator, list(reasons))
