"""The arguments of scalar functions: columns, and constants, which are scalars.

A function returns null where an argument is null or the function has no value. No function raises an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa

Column: TypeAlias = pa.Array | pa.Scalar
Kernel: TypeAlias = Callable[..., Column]

INT64, FLOAT64, STRING, INSTANT, NAIVE = (
    pa.int64(), pa.float64(), pa.string(), pa.timestamp("ns", "UTC"), pa.timestamp("ns"),
)  # fmt: skip
#: int64 holds -EDGE to EDGE - 1, both inclusive; a float64 from -EDGE to below EDGE fits
EDGE = 2**63


def none(like: Column) -> pa.Scalar:
    return pa.scalar(None, like.type)


def constants(*columns: Column | None) -> bool:
    return all(column is None or (is_scalar(column) and column.is_valid) for column in columns)


def is_scalar(column: Column) -> bool:
    return isinstance(column, pa.Scalar)


def repeated(constant: pa.Scalar, rows: int) -> pa.Array:
    """The column of a constant. pa.repeat makes no empty column of a list or a map."""
    return pa.repeat(constant, rows) if rows else pa.array([], constant.type)


def by_row(function: Callable[..., Any], type_: pa.DataType, *columns: Column) -> Column:
    """Applies a Python function to each row, for what pyarrow computes only with constants."""
    if all(map(is_scalar, columns)):
        return pa.scalar(row_value(function, [column.as_py() for column in columns]), type_)
    values = [repeat(column.as_py()) if is_scalar(column) else column.to_pylist() for column in columns]
    return pa.array([row_value(function, row) for row in zip(*values, strict=False)], type_)


def row_value(function: Callable[..., Any], row: Any) -> Any:  # noqa: ANN401 - values of any type
    return None if None in row else function(*row)


def by_name(*kernels: Kernel) -> dict[str, Kernel]:
    return {kernel.__name__: kernel for kernel in kernels}
