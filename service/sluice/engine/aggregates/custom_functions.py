"""Runs the Python classes of `Custom` functions (api/custom.py) tuple by tuple, slower than the other functions.

Each group of each firing gets a new object, on which `init`, `add` and `result` are called. Objects are not shared
between windows and not saved, so the results do not depend on how events are cut into batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.api.custom import Custom
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words
from sluice.engine.contents.fired_contents import FiredContents
from sluice.model.types import Type, optional_of

LOG = logging.getLogger(__name__)


def results(
    made: Callable[[], Custom], arguments: Sequence[Type], result: Type
) -> Callable[[FiredContents, Sequence[int]], pa.Array]:
    """The function that computes the column of results of a `Custom` class from the listed columns of its arguments."""

    def finish(found: FiredContents, columns: Sequence[int]) -> pa.Array:
        values = [
            form(type_).to_user(from_words(found.listed[:, column], type_, found.strings))
            for column, type_ in zip(columns, arguments, strict=True)
        ]
        rows = list(zip(*values, strict=True)) if values else [()] * int(found.size.sum())
        ends = np.cumsum(found.size).tolist()
        failures: list[Exception] = []
        out = [_one(made, rows[a:b], result, failures) for a, b in zip([0, *ends], ends, strict=False)]
        if failures:
            LOG.warning("%d results of %s have no value, the first since:", len(failures), made, exc_info=failures[0])
        return form(optional_of(result)).from_user(out)

    return finish


def _one(made: Callable[[], Custom], rows: Iterable[tuple[Any, ...]], type_: Type, failures: list[Exception]) -> Any:  # noqa: ANN401
    """The result of one group: a new object (A26) gets `init`, `add` for each tuple in order, then `result` (A25).

    None if the class raises an exception or returns a value that is not of the type. The exception is added to
    `failures`.
    """
    try:
        custom = made()
        custom.init()
        for row in rows:
            custom.add(*row)
        return _checked(custom.result(), type_)
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        failures.append(error)
        return None


def _checked(value: Any, type_: Type) -> Any:  # noqa: ANN401
    """The value. Raises an exception if it is not of the type."""
    form(type_).from_user([value])
    return value
