"""Runs the Python classes of `Custom` functions (api/custom.py): tuple by tuple, slower than the other functions, or
over arrays of all windows that fired.

Each group of each firing gets a new object, on which `init`, `add` and `result` are called. Objects are not shared
between windows and not saved, so the results do not depend on how events are cut into batches.

A class over arrays that fails is called again for each half of the rows, so that only the rows at fault have no value.
Each call has the time limit of api/call_limit.py, which is no failure of a row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.api import call_limit
from sluice.api.custom import AT_ONCE, Custom, at_once, numbers_of
from sluice.columns.column_forms import form
from sluice.columns.encoding import from_words, or_null
from sluice.engine.aggregates.aggregate_function import Finish, Results
from sluice.engine.aggregates.class_calls import Compute, divided, of_length
from sluice.engine.contents.fired_contents import FiredContents
from sluice.engine.stream.expression_eval import OWN
from sluice.model.expressions import Call, Expression
from sluice.model.functions import read_signature
from sluice.model.types import FLOAT64, Type, optional_of

LOG = logging.getLogger(__name__)
#: the numbers of some rows, one array for each number that `lift` gives
Numbers = Sequence[np.ndarray]


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
        starts = [0, *ends]
        out = [
            call_limit.call(custom_class, _one, custom_class, rows[a:b], result)
            for a, b in zip(starts, ends, strict=False)
        ]
        failures = [value for value in out if isinstance(value, Exception)]
        if failures:
            LOG.warning(
                "%d results of %s have no value, the first since:", len(failures), custom_class, exc_info=failures[0]
            )
        failed = np.fromiter((isinstance(value, Exception) for value in out), np.bool_, len(out))
        values_or_none = [None if isinstance(value, Exception) else value for value in out]
        return Results(form(optional_of(result)).from_user(values_or_none), failed)

    return finish


def _of_all(custom_class: Callable[[], Any], sizes: np.ndarray, columns: Sequence[pa.Array], type_: Type) -> Results:
    """The results of a class that computes all windows at once (FN6)."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def compute(part: slice) -> pa.Array:
        offsets = starts[part.start : part.stop + 1]
        first, end = int(offsets[0]), int(offsets[-1])
        values = custom_class().results(offsets - first, *[column[first:end] for column in columns])
        return of_length(values, len(offsets) - 1, AT_ONCE)

    return _results(custom_class, compute, slice(0, len(sizes)), type_)


# ---- classes that lift the tuples (FN11, FN13) -----------------------------------------------------------------------


def lifts_of(custom_class: type[Any], name: str, arguments: tuple[Expression, ...]) -> list[Call]:
    """One expression over a tuple for each number that `lift` of the class returns, in their order."""
    lifted = _Lifted(custom_class)
    names = [f"{name}.lift[{number}]" for number in range(numbers_of(custom_class))]
    OWN.update({function: partial(lifted.numbers, number) for number, function in enumerate(names)})
    return [Call(function, arguments, FLOAT64) for function in names]


class _Lifted:
    """The numbers of the tuples of a batch. The expressions of the numbers are computed one after the other, and share
    one call of `lift` by this.
    """

    def __init__(self, custom_class: type[Any]) -> None:
        self._made = custom_class
        parameters = read_signature(custom_class.signature).parameters
        self._required = [place for place, word in enumerate(parameters) if not word.endswith("?")]
        #: the arguments of the last call, and what it returned
        self._last: tuple[list[pa.Array], list[pa.Array]] = ([], [])

    def numbers(self, number: int, *columns: pa.Array) -> pa.Array:
        """The numbers of one place; 0 for tuples outside of the part of `where:`, of which arguments are null."""
        usable = np.ones(len(columns[0]), np.bool_)
        for place in self._required:
            usable &= columns[place].is_valid().to_numpy(zero_copy_only=False)
        present = [column.filter(pa.array(usable)) for column in columns]

        def compute(part: slice) -> pa.Array:
            return self._of(present, part)[number]

        lifted = _results(self._made, compute, slice(0, int(usable.sum())), FLOAT64).values
        return pc.replace_with_mask(pa.array(np.zeros(len(usable))), pa.array(usable), lifted)

    def _of(self, arguments: list[pa.Array], part: slice) -> list[pa.Array]:
        columns, count = [column[part.start : part.stop] for column in arguments], part.stop - part.start
        last_columns, lifted = self._last
        if len(last_columns) != len(columns) or not all(map(pa.Array.equals, last_columns, columns)):
            lifted = [of_length(column, count, "lift") for column in self._made().lift(*columns)]
            self._last = columns, lifted
        return lifted


def of_numbers(custom_class: type[Any], numbers: Numbers, type_: Type) -> Results:
    """The results of all windows from their combined numbers."""

    def compute(part: slice) -> pa.Array:
        return of_length(custom_class().result(*[column[part] for column in numbers]), part.stop - part.start, "result")

    return _results(custom_class, compute, slice(0, len(numbers[0])), type_)


def combining(custom_class: type[Any], type_: Type) -> Finish:
    """The function of a class with a `combine` of its own: the listed numbers of each window become one (FN13)."""

    def finish(contents: FiredContents, at: Sequence[int]) -> Results:
        numbers = [contents.listed[:, column].view(np.float64) for column in at]
        starts = np.concatenate([[0], np.cumsum(contents.size)]).astype(np.int64)

        def compute(part: slice) -> pa.Array:
            part_columns = [column[starts[part.start] : starts[part.stop]] for column in numbers]
            window = _combined(custom_class(), contents.size[part], part_columns)
            return of_length(custom_class().result(*window), part.stop - part.start, "result")

        return _results(custom_class, compute, slice(0, len(contents.size)), type_)

    return finish


def _combined(custom: Any, sizes: np.ndarray, numbers: Numbers) -> list[np.ndarray]:  # noqa: ANN401 - of users
    """The numbers of each window. Neighbours are combined, again and again, for all windows at once.

    How the tuples of a window are put into pairs depends on their number alone, so the result does not depend on the
    other windows. No window is empty.
    """
    left = [np.ascontiguousarray(column) for column in numbers]
    while len(left[0]) > len(sizes):
        left, sizes = _halved(custom, sizes, left), (sizes + 1) // 2
    return left


def _halved(custom: Any, sizes: np.ndarray, numbers: list[np.ndarray]) -> list[np.ndarray]:  # noqa: ANN401
    """The numbers of the windows with each pair of neighbours combined; the last number without a neighbour stays."""
    pairs, odd = sizes // 2, sizes % 2
    if not odd.any():
        return _pairs(custom, [column[::2] for column in numbers], [column[1::2] for column in numbers])
    numbered = np.arange(int(pairs.sum()))
    behind = np.cumsum(odd) - odd
    older = 2 * numbered + np.repeat(behind, pairs)
    combined = _pairs(custom, [column[older] for column in numbers], [column[older + 1] for column in numbers])
    paired, ends = numbered + np.repeat(behind, pairs), np.flatnonzero(odd)
    unpaired, last = np.cumsum(pairs + odd)[ends] - 1, np.cumsum(sizes)[ends] - 1
    halved = [np.empty(len(paired) + len(ends)) for _ in numbers]
    for target, pair, column in zip(halved, combined, numbers, strict=True):
        target[paired], target[unpaired] = pair, column[last]
    return halved


def _pairs(custom: Any, older: list[np.ndarray], younger: list[np.ndarray]) -> list[np.ndarray]:  # noqa: ANN401
    combined = list(custom.combine(older, younger))
    if len(combined) != len(older):
        msg = f"combine() returned {len(combined)} arrays, not {len(older)}"
        raise TypeError(msg)
    arrays = [of_length(column, len(older[0]), "combine").cast(pa.float64()) for column in combined]
    return [array.to_numpy() for array in arrays]  # an error if there are nulls


def _results(custom_class: type[Any] | Callable[[], Any], compute: Compute, part: slice, type_: Type) -> Results:
    return Results(*divided(custom_class, compute, part, type_))


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
