"""Runs the Python classes of `Custom` functions (api/custom.py) tuple by tuple, slower than the other functions.

Each group of each firing gets a new object, on which `init`, `add` and `result` are called. Objects are not shared
between windows and not saved, so the results do not depend on how events are cut into batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.api.custom import Custom
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words, or_null
from sluice.engine.aggregates.aggregate_function import Finish, Results
from sluice.engine.contents.fired_contents import FiredContents
from sluice.model.types import Type, optional_of

LOG = logging.getLogger(__name__)


def results(made: Callable[[], Custom], arguments: Sequence[Type], result: Type) -> Finish:
    """The function that computes the column of results of a `Custom` class from the listed columns of its arguments."""

    def finish(found: FiredContents, columns: Sequence[int]) -> Results:
        left = iter(columns)
        values = [form(type_).to_user(_listed(found, type_, left)) for type_ in arguments]
        rows = list(zip(*values, strict=True)) if values else [()] * int(found.size.sum())
        ends = np.cumsum(found.size).tolist()
        out = [_one(made, rows[a:b], result) for a, b in zip([0, *ends], ends, strict=False)]
        failures = [one for one in out if isinstance(one, Exception)]
        if failures:
            LOG.warning("%d results of %s have no value, the first since:", len(failures), made, exc_info=failures[0])
        failed = np.fromiter((isinstance(one, Exception) for one in out), np.bool_, len(out))
        made_values = [None if isinstance(one, Exception) else one for one in out]
        return Results(form(optional_of(result)).from_user(made_values), failed)

    return finish


def _listed(found: FiredContents, type_: Type, columns: Iterator[int]) -> pa.Array:
    """The listed values of an argument, of which the next columns have the words."""
    values = from_words(found.listed[:, next(columns)], type_, found.strings)
    return or_null(values, found.listed[:, next(columns)] != 0) if type_.optional else values


def _one(made: Callable[[], Custom], rows: Iterable[tuple[Any, ...]], type_: Type) -> Any:  # noqa: ANN401
    """The result of one group: a new object (A26) gets `init`, `add` for each tuple in order, then `result` (A25).

    An exception if the class raises one or returns a value that is not of the type. None is one of an optional type.
    """
    try:
        custom = made()
        custom.init()
        for row in rows:
            custom.add(*row)
        result = custom.result()
        if result is None and not type_.optional:
            return TypeError(f"result() returned None, not {type_.described}")
        form(type_).from_user([result])
        return result
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        return error
