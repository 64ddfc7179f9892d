"""Evaluates expressions over all rows of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_type
from sluice.engine.stream.functions.column_arguments import Column
from sluice.engine.stream.functions.function_kernels import kernel
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.functions import FUNCTIONS, OPERATORS
from sluice.model.functions import match as match_types


def evaluate(expression: Expression, tuples: pa.RecordBatch) -> pa.Array:
    """The value of the expression for each row, null where it has none. A plain attribute gives the column itself.

    The attributes of the sides of a join are the columns `left.name` and `right.name`.
    """
    value = _column(expression, tuples)
    return pa.repeat(value, tuples.num_rows) if isinstance(value, pa.Scalar) else value


def computed(expressions: Sequence[Expression], tuples: pa.RecordBatch) -> pa.RecordBatch:
    """The values of the expressions, as columns #0, #1 ..."""
    return named([evaluate(e, tuples) for e in expressions], tuples.num_rows)


def named(columns: Sequence[pa.Array], count: int) -> pa.RecordBatch:
    """A record batch of the columns, named #0, #1 ... Without columns it gets one unused column, which carries the
    number of rows.
    """
    columns = columns or [pa.array(np.zeros(count, np.int8))]
    return pa.record_batch(columns, names=[f"#{i}" for i in range(len(columns))])


def _column(expression: Expression, tuples: pa.RecordBatch) -> Column:
    match expression:
        case Literal(value, type_):
            return pa.scalar(value, arrow_type(type_))
        case Attribute(name, _, port):
            return tuples.column(name if port is None else f"{port}.{name}")
        case Call():
            return _call(expression, tuples)
        case AggregateCall(function):
            msg = f"{function}() is computed by an aggregate, not per tuple"
            raise TypeError(msg)


def _call(call: Call, tuples: pa.RecordBatch) -> Column:
    function = (OPERATORS if call.function in OPERATORS else FUNCTIONS)[call.function]
    found = match_types(function, tuple(argument.type for argument in call.arguments))
    assert found is not None  # noqa: S101 - calls are typed where they are made
    columns = [_plain(_column(argument, tuples)) for argument in call.arguments]
    return kernel(found.signature.kernel)(*columns)


def _plain(column: Column) -> Column:
    """Decodes a dictionary column, which some kernels do not accept."""
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
