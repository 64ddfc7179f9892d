"""The values of expressions, and beside them the errors: why a value could not be computed.

An error is no null. Null is a value, as in SQL; a tuple with an error becomes a dead letter, with the error's reason. A
function (functions/) gives null where it has no value, and `of_call` makes an error of each null that does not come
from the null of an argument. The error of an argument stays one if the result is null: `false and x` is false, also if
x has an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.functions.column_arguments import Column, is_scalar


class Error(IntEnum):
    """The reasons, as the numbers in a mask of errors."""

    NONE = 0
    NO_VALUE = 1
    DIGITS = 2
    NO_QUOTIENT = 3
    NO_DECIMAL = 4


#: error -> the end of the reason of the dead letter, behind the name of the value
REASONS: Mapping[Error, str] = {
    Error.NO_VALUE: "has no value",
    Error.DIGITS: "has more digits than its decimal type",
    Error.NO_QUOTIENT: "is a division by zero, or has more digits than its decimal type",
    Error.NO_DECIMAL: "is no number that its decimal type has",
}
#: name of a kernel -> why it has no value; other kernels: NO_VALUE
OWN: Mapping[str, Error] = {
    **dict.fromkeys(
        ("decimal_add", "decimal_subtract", "decimal_multiply", "decimal_round", "decimal_floor"), Error.DIGITS
    ),
    **dict.fromkeys(("decimal_divide", "decimal_quotient", "decimal_remainder"), Error.NO_QUOTIENT),
    "to_decimal": Error.NO_DECIMAL,
}


class Checked(NamedTuple):
    """The values of an expression: a column, or a scalar for a constant.

    errors   an Error (int8) for each row; it has no dimension beside a scalar. None: there are none. The value of a row
             with an error is null.
    """

    values: Column
    errors: np.ndarray | None = None

    def failed(self) -> np.ndarray:
        """Which rows have an error."""
        return np.zeros(len(self.values), np.bool_) if self.errors is None else np.asarray(self.errors != Error.NONE)


def in_results(column: pa.Array) -> np.ndarray | None:
    """The errors in a column of results, in which null says that there is none; None if there are none. A sum or mean
    of decimals has none if it has too many digits.
    """
    own = Error.DIGITS if pa.types.is_decimal(column.type) else Error.NO_VALUE
    return np.where(_null(column), own, Error.NONE).astype(np.int8) if column.null_count else None


def of_call(kernel: str, values: Column, arguments: Sequence[Checked]) -> Checked:
    """The values that a kernel computed of the arguments, with the errors."""
    if values.is_valid if isinstance(values, pa.Scalar) else not values.null_count:
        return Checked(values)
    null = _null(values)
    found = RULES[kernel](arguments) if kernel in RULES else _of_function(arguments, OWN.get(kernel, Error.NO_VALUE))
    errors = np.where(null, found, Error.NONE).astype(np.int8)
    return Checked(values, errors if errors.any() else None)


def _of_function(arguments: Sequence[Checked], own: Error) -> np.ndarray:
    """The error of an argument. If no argument is null, the function has its own error."""
    null = reduce(np.logical_or, (_null(one.values) for one in arguments))
    return np.asarray(reduce(np.maximum, map(_errors, arguments), np.where(null, Error.NONE, own)))


def _of_choice(arguments: Sequence[Checked]) -> np.ndarray:
    """The error of the condition, or of the argument that it chooses."""
    condition, yes, no = arguments
    chosen = np.where(_true(condition.values), _errors(yes), _errors(no))
    return np.where(_null(condition.values), _errors(condition), chosen)


def _of_last(arguments: Sequence[Checked]) -> np.ndarray:
    """The error of the last argument, which is chosen if the others are null or have errors."""
    return _errors(arguments[-1])


#: name of a kernel -> the errors of those rows of its result that are null; other kernels: `_of_function`
RULES: Mapping[str, Callable[[Sequence[Checked]], np.ndarray]] = {"if_else": _of_choice, "coalesce": _of_last}


def _errors(one: Checked) -> np.ndarray:
    return np.zeros((), np.int8) if one.errors is None else one.errors


def _null(column: Column) -> np.ndarray:
    if is_scalar(column):
        return np.array(not column.is_valid)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _true(column: Column) -> np.ndarray:
    filled = pc.fill_null(column, False)  # noqa: FBT003
    return np.array(filled.as_py()) if is_scalar(column) else np.asarray(filled.to_numpy(zero_copy_only=False))
