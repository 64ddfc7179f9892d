"""Runs the Python classes of `Custom` functions (api/custom.py): tuple by tuple, slower than the other functions, or
for all windows at once.

Each group of each firing gets a new object, on which `init`, `add` and `result` are called. Objects are not shared
between windows and not saved, so the results do not depend on how events are cut into batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.api.custom import AT_ONCE, Custom, at_once
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words, or_null
from sluice.engine.aggregates.aggregate_function import Finish, Results
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.stream.expression_eval import OWN
from sluice.model.expressions import Call, Expression
from sluice.model.functions import read_signature
from sluice.model.types import FLOAT64, Type, optional_of

LOG = logging.getLogger(__name__)


def results(custom_class: Callable[[], Custom], arguments: Sequence[Type], result: Type) -> Finish:
    """The function that computes the column of results of a `Custom` class from the listed columns of its arguments."""

    def finish(contents: FiredContents, columns: Sequence[int]) -> Results:
        left = iter(columns)
        listed = [_listed(contents, type_, left) for type_ in arguments]
        if at_once(custom_class):
            return _of_all(custom_class, contents.size, listed, result)
        values = [form(type_).to_user(column) for type_, column in zip(arguments, listed, strict=True)]
        rows = list(zip(*values, strict=True)) if values else [()] * int(contents.size.sum())
        ends = np.cumsum(contents.size).tolist()
        out = [_one(custom_class, rows[a:b], result) for a, b in zip([0, *ends], ends, strict=False)]
        failures = [value for value in out if isinstance(value, Exception)]
        if failures:
            LOG.warning(
                "%d results of %s have no value, the first since:", len(failures), custom_class, exc_info=failures[0]
            )
        failed = np.fromiter((isinstance(value, Exception) for value in out), np.bool_, len(out))
        made_values = [None if isinstance(value, Exception) else value for value in out]
        return Results(form(optional_of(result)).from_user(made_values), failed)

    return finish


def _of_all(custom_class: Callable[[], Any], sizes: np.ndarray, columns: Sequence[pa.Array], type_: Type) -> Results:
    """The results of a class that computes all windows at once (FN6).

    If the class raises an exception, it is called again for each window alone, so that only the results of the windows
    at fault have no value (FN7).
    """
    if not len(sizes):
        return Results(pa.nulls(0, form(type_).arrow), np.zeros(0, np.bool_))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    try:
        values = _called(custom_class, offsets, columns, type_)
    except Exception as error:
        if len(sizes) == 1:
            LOG.warning("a result of %s has no value:", custom_class, exc_info=error)
            return Results(pa.nulls(1, form(type_).arrow), np.ones(1, np.bool_))
        parts = [
            _of_all(custom_class, sizes[n : n + 1], [column[start:end] for column in columns], type_)
            for n, (start, end) in enumerate(zip(offsets.tolist(), offsets[1:].tolist(), strict=False))
        ]
        return Results(pa.concat_arrays([part.values for part in parts]), np.concatenate([p.failed for p in parts]))
    return _with_failures(values, type_)


def _called(custom_class: Callable[[], Any], offsets: np.ndarray, columns: Sequence[pa.Array], type_: Type) -> pa.Array:
    values = custom_class().results(offsets, *columns)
    return _of_length(values, len(offsets) - 1, AT_ONCE).cast(form(type_).arrow)


# ---- classes that lift the tuples as they come (FN11) ----------------------------------------------------------------


def lift(custom_class: type[Any], name: str, number: int, arguments: tuple[Expression, ...]) -> Call:
    """The expression over a tuple with the number of this place that the class gives for it."""
    function = f"{name}.lift[{number}]"
    required = [
        place for place, word in enumerate(read_signature(custom_class.signature).parameters) if not word.endswith("?")
    ]

    def numbers(*columns: pa.Array) -> pa.Array:
        there = np.ones(len(columns[0]), np.bool_)
        for place in required:  # with `where:` the arguments of other tuples are null
            there &= columns[place].is_valid().to_numpy(zero_copy_only=False)
        given = [column.filter(pa.array(there)) for column in columns]
        lifted = _numbers(custom_class, number, given, int(there.sum()))
        return pc.replace_with_mask(pa.array(np.zeros(len(there))), pa.array(there), lifted)

    OWN[function] = numbers
    return Call(function, arguments, FLOAT64)


def _numbers(custom_class: type[Any], number: int, columns: Sequence[pa.Array], count: int) -> pa.Array:
    """The numbers of one place for some tuples, null where the class fails: a single tuple then has no value."""
    if not count:
        return pa.array([], pa.float64())
    try:
        lifted = custom_class().lift(*columns)
        return _of_length(lifted[number], count, "lift").cast(pa.float64())
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        failure = error
    if count == 1:
        LOG.warning("a tuple has no value in %s:", custom_class, exc_info=failure)
        return pa.nulls(1, pa.float64())
    half = count // 2
    parts = [(0, half), (half, count - half)]
    return pa.concat_arrays(
        [
            _numbers(custom_class, number, [column.slice(start, size) for column in columns], size)
            for start, size in parts
        ]
    )


def of_numbers(custom_class: type[Any], numbers: Sequence[np.ndarray], type_: Type) -> Results:
    """The results of all windows. If the class fails, it is called for each half of them, so that only the windows at
    fault have no value (FN7).
    """
    count = len(numbers[0])
    if not count:
        return Results(pa.nulls(0, form(type_).arrow), np.zeros(0, np.bool_))
    try:
        values = _of_length(custom_class().result(*numbers), count, "result").cast(form(type_).arrow)
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        failure = error
    else:
        return _with_failures(values, type_)
    if count == 1:
        LOG.warning("a result of %s has no value:", custom_class, exc_info=failure)
        return Results(pa.nulls(1, form(type_).arrow), np.ones(1, np.bool_))
    halves = (slice(0, count // 2), slice(count // 2, count))
    parts = [of_numbers(custom_class, [column[half] for column in numbers], type_) for half in halves]
    return Results(pa.concat_arrays([part.values for part in parts]), np.concatenate([part.failed for part in parts]))


def _with_failures(values: pa.Array, type_: Type) -> Results:
    absent = values.is_null().to_numpy(zero_copy_only=False)
    return Results(values, absent if not type_.optional else np.zeros(len(values), np.bool_))


def _of_length(returned: Any, count: int, method: str) -> pa.Array:  # noqa: ANN401 - what a user's class returns
    array = returned.combine_chunks() if isinstance(returned, pa.ChunkedArray) else returned
    if not isinstance(array, pa.Array | np.ndarray) or len(array) != count:
        message = f"{method}() returned {type(returned).__name__}, not an array of {count} values"
        raise TypeError(message)
    return array if isinstance(array, pa.Array) else pa.array(array)


def _listed(contents: FiredContents, type_: Type, columns: Iterator[int]) -> pa.Array:
    """The listed values of an argument, of which the next columns have the words."""
    values = from_words(contents.listed[:, next(columns)], type_, contents.strings)
    return or_null(values, contents.listed[:, next(columns)] != 0) if type_.optional else values


def _one(custom_class: Callable[[], Custom], rows: Iterable[tuple[Any, ...]], type_: Type) -> Any:  # noqa: ANN401
    """The result of one group: a new object (A26) gets `init`, `add` for each tuple in order, then `result` (A25).

    An exception if the class raises one or returns a value that is not of the type. None is one of an optional type.
    """
    try:
        custom = custom_class()
        custom.init()
        for row in rows:
            custom.add(*row)
        result = custom.result()
        form(type_).from_user([result])
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        return error
    if result is None and not type_.optional:
        return TypeError(f"result() returned None, not {type_.described}")
    return result
