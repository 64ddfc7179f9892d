"""Calls of users' classes over arrays, and the classes that compute a value for each tuple of a map (FN16).

A class that fails is called again for each half of the rows, so that only the rows at fault have no value (FN7). Each
call has the time limit of api/call_limit.py, which is no failure of a row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.api import call_limit
from sluice.api.custom import OF_TUPLES as METHOD
from sluice.api.custom import CustomValues, load_of_tuples
from sluice.columns.column_forms import form
from sluice.engine.stream.expression_eval import OF_TUPLES
from sluice.engine.stream.value_errors import Checked, of_class
from sluice.model.expressions import Call, Expression, Literal, walk
from sluice.model.functions import read_signature
from sluice.model.types import Type

LOG = logging.getLogger(__name__)
#: computes the values of the rows in a slice
Compute = Callable[[slice], pa.Array]


class _Divided(NamedTuple):
    """Values, which of them are missing because the class failed, and the first of its exceptions."""

    values: pa.Array
    failed: np.ndarray
    error: Exception | None = None


def divided(
    custom_class: type[Any] | Callable[[], Any], compute: Compute, part: slice, type_: Type
) -> tuple[pa.Array, np.ndarray]:
    """The values of the rows in a part, and which of them are missing. If the class fails, it is called for each half,
    down to single rows (FN7). The log has the first exception alone, because a class may fail for each row.
    """
    values, failed, error = _divided(custom_class, compute, part, type_)
    if error is not None:
        counts = (int(failed.sum()), len(failed), custom_class)
        LOG.warning("%d of %d values of %s are missing, the first since:", *counts, exc_info=error)
    return values, failed


def _divided(custom_class: type[Any] | Callable[[], Any], compute: Compute, part: slice, type_: Type) -> _Divided:
    count = part.stop - part.start
    if not count:
        return _Divided(pa.nulls(0, form(type_).arrow), np.zeros(0, np.bool_))
    values = call_limit.call_over_arrays(custom_class, _tried, compute, part, type_)
    if isinstance(values, pa.Array):
        absent = values.is_null().to_numpy(zero_copy_only=False)
        return _Divided(values, absent if not type_.optional else np.zeros(count, np.bool_))
    if count == 1:
        return _Divided(pa.nulls(1, form(type_).arrow), np.ones(1, np.bool_), values)
    middle = part.start + count // 2
    first = _divided(custom_class, compute, slice(part.start, middle), type_)
    second = _divided(custom_class, compute, slice(middle, part.stop), type_)
    values = pa.concat_arrays([first.values, second.values])
    return _Divided(values, np.concatenate([first.failed, second.failed]), first.error or second.error)


def _tried(compute: Compute, part: slice, type_: Type) -> pa.Array | Exception:
    try:
        return compute(part).cast(form(type_).arrow)
    except Exception as error:  # noqa: BLE001 - whatever users' classes raise
        return error


def of_length(contents: Any, count: int, method: str) -> pa.Array:  # noqa: ANN401 - what a user's class returns
    array = contents.combine_chunks() if isinstance(contents, pa.ChunkedArray) else contents
    if not isinstance(array, pa.Array | np.ndarray) or len(array) != count:
        message = f"{method}() returned {type(contents).__name__}, not an array of {count} values"
        raise TypeError(message)
    return array if isinstance(array, pa.Array) else pa.array(array)


# ---- a value for each tuple ------------------------------------------------------------------------------------------


def load_classes(expressions: Iterable[Expression]) -> None:
    """Loads the classes that the expressions of a map call, in each process that computes them (FN15)."""
    for part in (part for expression in expressions for part in walk(expression)):
        if isinstance(part, Call) and part.function == "Custom":
            name = part.arguments[0]
            assert isinstance(name, Literal)  # noqa: S101 - calls are typed where they are made
            OF_TUPLES[name.value] = partial(of_tuples, load_of_tuples(str(name.value)))


def of_tuples(custom_class: type[CustomValues], call: Call, arguments: Sequence[Checked]) -> Checked:
    """The values of a call for some tuples (FN16), whose arguments are columns. A tuple with an error or with a null in
    an argument, unless the class asks for nulls, is not given to the class.
    """
    signature = read_signature(custom_class.signature)
    type_ = call.type if signature.result.endswith("?") else call.type.present
    usable = np.ones(len(arguments[0].values), np.bool_)
    for word, argument in zip(signature.parameters, arguments, strict=True):
        usable &= ~argument.failed()
        if not word.endswith("?"):
            usable &= argument.values.is_valid().to_numpy(zero_copy_only=False)
    present = [argument.values.filter(pa.array(usable)) for argument in arguments]

    def compute(part: slice) -> pa.Array:
        columns = [column[part.start : part.stop] for column in present]
        return of_length(custom_class().values(*columns), part.stop - part.start, METHOD)

    computed, failed = divided(custom_class, compute, slice(0, len(present[0])), type_)
    places = np.cumsum(usable) - 1
    values = computed.take(pa.array(np.where(usable, places, 0), mask=~usable))
    without = np.zeros(len(usable), np.bool_)
    without[usable] = failed
    return of_class(values, without, arguments)
