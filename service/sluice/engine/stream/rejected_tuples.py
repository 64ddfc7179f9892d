"""Makes items of the tuples that an operator rejects: a stream of their own, REJECTS, which becomes dead letters.

This module itself finds the tuples for which an expression has no value, for example a remainder of a division by zero.
All other tuples come here from the code that rejects them, with the reasons:

    late                  the kernels panes.py, sliding_time.py, session_kernel.py, dedup_kernel.py and, for joins by
                          event time, timed_lists.py
    too far ahead         watermark_tracker.py
    an unusable time      the operators over event time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from sluice.columns.column_forms import type_of
from sluice.columns.json_columns import written_values
from sluice.engine.stream.expression_eval import Computed, computed
from sluice.engine.stream.functions.function_errors import REASONS, Error
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.errors import one_of
from sluice.model.expressions import Call, Expression, walk
from sluice.model.unparse import expression as written

#: name of the stream of rejected tuples; the event of an item is that of the rejected tuple
REJECTS = ""
SCHEMA = pa.schema([("operator", pa.string()), ("reason", pa.string()), ("tuple", pa.string())])


def readable(
    items: Items, expressions: Sequence[Expression], operator: str
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Evaluates the expressions. Returns the items without the tuples for which one of them has no value, the values of
    the others, and the rejected tuples or None.
    """
    values = computed(expressions, items.tuples)
    return _without_errors(items, values, operator, lambda n, error: _why(expressions[n], error))


def complete(
    items: Items, rows: Computed, operator: str, stream: str, expressions: Sequence[Expression], *, quoted: bool = True
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Checks the rows that were computed for an output stream. Returns the items and rows that have no error, and the
    rejected tuples or None. Their reasons name the values that are null, and with `quoted` the one of `expressions`
    that has another error.
    """

    def reason(number: int, error: Error) -> str:
        name = f"{stream}.{rows.columns.schema.names[number]}"
        if error == Error.ABSENT:
            return f"{_absent(expressions[number])} {REASONS[error]}, which {name} needs"
        return f"{name} {REASONS[error]}{f': {written(expressions[number])}' if quoted else ''}"

    return _without_errors(items, rows, operator, reason)


def _why(expression: Expression, error: Error) -> str:
    return f"{_absent(expression) if error == Error.ABSENT else written(expression)} {REASONS[error]}"


def _absent(expression: Expression) -> str:
    """The values before `!` in the expression, of which one is null."""
    calls = (part for part in walk(expression) if isinstance(part, Call) and part.function == "!")
    return one_of(dict.fromkeys(written(call.arguments[0]) for call in calls))


def _without_errors(
    items: Items, rows: Computed, operator: str, reason: Callable[[int, Error], str]
) -> tuple[Items, pa.RecordBatch, Items | None]:
    """Removes the tuples with an error in `rows`, which has one row per tuple of `items`. `reason` gives the reason
    of a column with an error. The first such column of a tuple counts.
    """
    columns = [(n, errors) for n, errors in enumerate(rows.errors) if errors is not None]
    if not columns:
        return items, rows.columns, None
    errors = np.array([codes for _, codes in columns])
    bad = np.asarray((errors != Error.NONE).any(axis=0))
    firsts = (errors[:, bad] != Error.NONE).argmax(axis=0)
    first_errors = errors[:, bad][firsts, np.arange(len(firsts))].tolist()
    reasons = [reason(columns[place][0], Error(error)) for place, error in zip(firsts, first_errors, strict=True)]
    return without(bad, items, rows.columns, operator, reasons)


def without(
    bad: np.ndarray, items: Items, columns: pa.RecordBatch, operator: str, reasons: list[str]
) -> tuple[Items, pa.RecordBatch, Items]:
    """The items and the rows of `columns` without the tuples that are `bad`, and these tuples as rejects, each with its
    reason. `bad` and `columns` have one row per tuple.
    """
    kept = items.kind != TUPLE
    kept[~kept] = ~bad
    return items.only(kept), columns.filter(pa.array(~bad)), rejected(items.only(~kept), operator, reasons)


def joined(parts: Sequence[Items | None]) -> dict[str, Items]:
    """All rejected tuples as one stream; an empty dict if there are none."""
    filled = [part for part in parts if part is not None and len(part)]
    if not filled:
        return {}
    event, at, kind, source = (
        np.concatenate([getattr(part, name) for part in filled]) for name in ("event", "at", "kind", "source")
    )
    tuples = pa.Table.from_batches([part.tuples for part in filled]).combine_chunks().to_batches()[0]
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
    is_valid = column.is_valid()
    values = iter(written_values(column.filter(is_valid), type_of(column.type)))
    return [next(values) if present else None for present in is_valid.to_pylist()]


def rejected_late(
    items: Items, operator: str, late: np.ndarray, times: np.ndarray, reason: Callable[[int, int], str]
) -> Items | None:
    """The late tuples as rejects; None if there are none. `reason` gets the time of a tuple, from `times`, and by how
    much it is late.
    """
    if not len(late):
        return None
    dropped = np.zeros(len(items), np.bool_)
    dropped[late["item"]] = True
    reasons = list(map(reason, times.tolist(), late["behind"].tolist()))
    return rejected(items.only(dropped), operator, reasons)
