"""The values of expressions, and beside them the errors: why a value could not be computed.

An error is no null. Null is a value, as in SQL; a tuple with an error becomes a dead letter, with the error's reason. A
function (functions/) gives null where it has no value, and `of_call` makes an error of each null that does not come
from the null of an argument. The error of an argument stays one if the result is null: `false and x` is false, also if
x has an error. The functions that read null or errors themselves are in this module (NU10 to NU14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import type_of
from sluice.engine.stream.functions import list_functions
from sluice.engine.stream.functions.column_arguments import Column, is_scalar
from sluice.engine.stream.functions.function_errors import Error
from sluice.engine.stream.functions.function_kernels import ERRORS


class Checked(NamedTuple):
    """The values of an expression: a column, or a scalar for a constant.

    errors   an Error (int8) for each row; it has no dimension beside a scalar. None: there are none. The value of a row
             with an error is null.
    """

    values: Column
    errors: np.ndarray | None = None

    def failed(self) -> np.ndarray:
        """A mask of the rows that have an error."""
        return np.zeros(len(self.values), np.bool_) if self.errors is None else np.asarray(self.errors != Error.NONE)


def in_results(column: pa.Array) -> np.ndarray | None:
    """The errors in a column of results, in which null says that there is none; None if there are none. A sum or mean
    of exact numbers has none if it has too many digits.
    """
    if not column.null_count:  # also a column whose Arrow type is that of no type, such as a number of 32 bits
        return None
    error = Error.DIGITS if type_of(column.type).exact else Error.NO_VALUE
    return np.where(_null(column), error, Error.NONE).astype(np.int8)


def of_call(kernel: str, values: Column, arguments: Sequence[Checked]) -> Checked:
    """The values that a kernel computed of the arguments, with the errors: the error of an argument if the result is
    null. If no argument is null, a null says that the function has no value, unless WITHOUT says more.
    """
    if values.is_valid if isinstance(values, pa.Scalar) else not values.null_count:
        return Checked(values)
    without = WITHOUT.get(kernel, _of_function)(arguments)
    own_errors = np.where(without, ERRORS.get(kernel, Error.NO_VALUE), Error.NONE)
    errors = reduce(np.maximum, map(_errors, arguments), own_errors)
    return _with_errors(values, np.where(_null(values), errors, Error.NONE))


def of_own(values: pa.Array, arguments: Sequence[Checked]) -> Checked:
    """The values that a user's class computed, whose nulls are errors; those of the arguments stay."""
    own_errors = np.where(_null(values), Error.NO_VALUE, Error.NONE)
    return _failing(Checked(values), reduce(np.maximum, map(_errors, arguments), own_errors))


def of_class(values: pa.Array, failed: np.ndarray, arguments: Sequence[Checked]) -> Checked:
    """The values that a user's class computed, with an error where it failed; the errors of the arguments stay."""
    own_errors = np.where(failed, Error.NO_VALUE, Error.NONE)
    return _failing(Checked(values), reduce(np.maximum, map(_errors, arguments), own_errors))


def of_inside(values: Column, arguments: Sequence[Checked]) -> Checked:
    """A member of a value, or a value that is made of the arguments: it has their errors, and no error of its own."""
    errors = reduce(np.maximum, map(_errors, arguments))
    return _failing(Checked(values), errors) if errors.any() else Checked(values)


def _of_function(arguments: Sequence[Checked]) -> np.ndarray:
    """Null says that there is no value if no argument is null."""
    return ~np.asarray(reduce(np.logical_or, (_null(argument.values) for argument in arguments)))


def _of_element(arguments: Sequence[Checked]) -> np.ndarray:
    """There is no value at a position outside of the list; an element inside may be null."""
    return list_functions.outside(*(argument.values for argument in arguments))


def _never(_: Sequence[Checked]) -> np.ndarray:
    return np.zeros((), np.bool_)


#: name of a kernel -> in which rows a null of its result says that there is no value; other kernels: `_of_function`
WITHOUT: Mapping[str, Callable[[Sequence[Checked]], np.ndarray]] = {
    "entry": _never, "json_text": _never, "url_part": _never, "url_parameter": _never, "element_at": _of_element,
}  # fmt: skip


# ---- functions that read null, or errors -----------------------------------------------------------------------------


def choice(condition: Checked, yes: Checked, no: Checked) -> Checked:
    """`condition ? yes : no` (NU10): the second branch for null. Only the errors of the condition and of the chosen
    branch count.
    """
    holds = _holds(condition.values)
    chosen = _chosen(holds, yes, no)
    return chosen if condition.errors is None else _failing(chosen, condition.errors)


def first_present(value: Checked, other: Checked) -> Checked:
    """`value ?: other` (NU12). A value with an error is not absent."""
    return _chosen(~_null(value.values) | _failed(value), value, other)


def value_for_error(value: Checked, other: Checked) -> Checked:
    """`orElse(value, other)`."""
    return value if value.errors is None else _chosen(~_failed(value), value, other)


def null_for_error(value: Checked) -> Checked:
    """`try(value)` (NU14): the value of a row with an error is null."""
    return Checked(value.values)


def present(value: Checked) -> Checked:
    """`value!` (NU13): an error where it is null."""
    return _with_errors(value.values, np.where(_null(value.values) & ~_failed(value), Error.ABSENT, _errors(value)))


def is_present(value: Checked) -> Checked:
    """`isPresent(value)` (NU11)."""
    presence = Checked(pc.is_valid(value.values))
    return presence if value.errors is None else _failing(presence, value.errors)


def has_value(value: Checked) -> Checked:
    return Checked(pc.is_valid(value.values))


#: name of a kernel -> the function that computes its values and errors
OF_ERRORS: Mapping[str, Callable[..., Checked]] = {
    function.__name__: function
    for function in (choice, first_present, value_for_error, null_for_error, present, is_present, has_value)
}


def _chosen(first: np.ndarray, value: Checked, other: Checked) -> Checked:
    """The rows of `value` where `first` is true, else those of `other`."""
    values = pc.if_else(_column(first), value.values, other.values)
    return _with_errors(values, np.where(first, _errors(value), _errors(other)))


def _failing(value: Checked, errors: np.ndarray) -> Checked:
    """The values, null in rows with an error."""
    failed = errors != Error.NONE
    values = pc.if_else(_column(failed), pa.scalar(None, value.values.type), value.values)
    return _with_errors(values, np.where(failed, errors, _errors(value)))


def _with_errors(values: Column, errors: np.ndarray) -> Checked:
    if not errors.any():
        return Checked(values)
    shape = () if is_scalar(values) else (len(values),)
    return Checked(values, np.broadcast_to(errors.astype(np.int8), shape))


def _column(flags: np.ndarray) -> Column:
    return pa.array(flags) if flags.ndim else pa.scalar(bool(flags))


def _holds(condition: Column) -> np.ndarray:
    """Where a condition is true: null is not (NU15)."""
    filled = pc.fill_null(condition, False)  # noqa: FBT003
    return np.array(filled.as_py()) if is_scalar(condition) else np.asarray(filled.to_numpy(zero_copy_only=False))


def _failed(value: Checked) -> np.ndarray:
    return np.asarray(_errors(value) != Error.NONE)


def _errors(value: Checked) -> np.ndarray:
    return np.zeros((), np.int8) if value.errors is None else value.errors


def _null(column: Column) -> np.ndarray:
    if is_scalar(column):
        return np.array(not column.is_valid)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
