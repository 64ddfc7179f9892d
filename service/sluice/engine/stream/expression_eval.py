"""Evaluates expressions over all rows of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.column_forms import form
from sluice.engine.stream.functions.column_arguments import is_scalar, repeated
from sluice.engine.stream.functions.function_kernels import kernel
from sluice.engine.stream.value_errors import OF_ERRORS, Checked, of_call, of_inside, of_own
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.functions import FUNCTIONS, INSIDES, INTERNAL, OPERATORS
from sluice.model.functions import match as match_types
from sluice.model.types import Type

#: by column: the errors of its rows (value_errors.py)
Errors = Mapping[str, np.ndarray]
NO_ERRORS: Errors = {}
#: name -> the function of a call
TABLE = {**FUNCTIONS, **OPERATORS, **INTERNAL}
#: functions of users' classes: name of a call -> the function of the columns of its arguments (FN11)
OWN: dict[str, Callable[..., pa.Array]] = {}
#: users' classes that give a value for each tuple, by their names: the function of a call and its arguments (FN16)
OF_TUPLES: dict[str, Callable[[Call, Sequence[Checked]], Checked]] = {}


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of several expressions, one column each, and the errors of each column, None if it has none."""

    columns: pa.RecordBatch
    errors: Sequence[np.ndarray | None]


def evaluate(expression: Expression, tuples: pa.RecordBatch) -> pa.Array:
    """The value of the expression for each row, null where it has none. A plain attribute gives the column itself.

    The attributes of the sides of a join are the columns `left.name` and `right.name`.
    """
    return checked(expression, tuples).values


def checked(expression: Expression, tuples: pa.RecordBatch, errors: Errors = NO_ERRORS) -> Checked:
    """The values of the expression with their errors. `errors` has the errors in columns of the tuples."""
    result, rows = _checked(expression, tuples, errors), tuples.num_rows
    if not is_scalar(result.values):
        return result
    return Checked(repeated(result.values, rows), None if result.errors is None else np.full(rows, result.errors))


def computed(
    expressions: Sequence[Expression], tuples: pa.RecordBatch, schema: pa.Schema | None = None,
    errors: Errors = NO_ERRORS,
) -> Computed:  # fmt: skip
    """The values of the expressions, as columns of the schema; without a schema as columns #0, #1 ..."""
    results = [checked(e, tuples, errors) for e in expressions]
    columns = [result.values for result in results]
    batch = named(columns, tuples.num_rows) if schema is None else pa.RecordBatch.from_arrays(columns, schema=schema)
    return Computed(batch, [result.errors for result in results])


def named(columns: Sequence[pa.Array], count: int) -> pa.RecordBatch:
    """A record batch of the columns, named #0, #1 ... Without columns it gets one unused column, which carries the
    number of rows.
    """
    columns = columns or [pa.array(np.zeros(count, np.int8))]
    return pa.record_batch(columns, names=[f"#{i}" for i in range(len(columns))])


def _checked(expression: Expression, tuples: pa.RecordBatch, errors: Errors) -> Checked:
    match expression:
        case Literal(value, type_):
            return Checked(form(type_).constant(value))
        case Attribute(name, _, port):
            column = name if port is None else f"{port}.{name}"
            return Checked(tuples.column(column), errors.get(column))
        case Call():
            return _call(expression, tuples, errors)
        case AggregateCall(function):
            msg = f"{function}() is computed by an aggregate, not per tuple"
            raise TypeError(msg)


def _call(call: Call, tuples: pa.RecordBatch, errors: Errors) -> Checked:
    if call.function in OWN:
        columns = [_plain(checked(argument, tuples, errors)) for argument in call.arguments]
        return of_own(OWN[call.function](*[column.values for column in columns]), columns)
    if call.function == "Custom":
        class_name, *inputs = call.arguments
        assert isinstance(class_name, Literal)  # noqa: S101 - calls are typed where they are made
        return OF_TUPLES[class_name.value](call, [_plain(checked(argument, tuples, errors)) for argument in inputs])
    if call.function in INSIDES:
        parts = [_plain(_checked(argument, tuples, errors)) for argument in call.arguments]
        return of_inside(kernel(INSIDES[call.function])(*[part.values for part in parts]), parts)
    name = _kernel_of(call.function, tuple([argument.type for argument in call.arguments]))
    arguments = [_plain(_checked(argument, tuples, errors)) for argument in call.arguments]
    if name in OF_ERRORS:
        return OF_ERRORS[name](*arguments)
    return of_call(name, kernel(name)(*[argument.values for argument in arguments]), arguments)


@lru_cache(maxsize=1024)
def _kernel_of(function: str, types: tuple[Type, ...]) -> str:
    """The name of the kernel that computes a function of arguments of these types."""
    match = match_types(TABLE[function], types)
    assert match is not None  # noqa: S101 - calls are typed where they are made
    return match.signature.kernel


def _plain(value: Checked) -> Checked:
    """Decodes a dictionary column, which some kernels do not accept."""
    column = value.values
    return (
        value._replace(values=pc.cast(column, column.type.value_type)) if pa.types.is_dictionary(column.type) else value
    )
