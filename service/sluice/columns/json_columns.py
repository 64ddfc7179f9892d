"""Conversion between JSON values and Arrow columns, in both directions.

Reading accepts a time as an ISO 8601 text (UTC if it has no zone) or as a number of seconds since 1970. Writing makes
ISO 8601 texts in UTC. NaN and the infinities are the strings of `SPECIAL`, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_type
from sluice.columns.iso_columns import times
from sluice.model.types import FLOAT64, Kind, Type
from sluice.time_units import SECOND

SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

#: the Python types that a JSON value of each kind may have
ACCEPTED: dict[Kind, frozenset[type]] = {
    Kind.BOOLEAN: frozenset({bool}),
    Kind.INT64: frozenset({int}),
    Kind.FLOAT64: frozenset({int, float, str}),
    Kind.STRING: frozenset({str}),
    Kind.TIMESTAMP: frozenset({int, float, str}),
    Kind.LIST: frozenset({list}),
}


def nanoseconds(seconds: float | Decimal) -> int:
    """Seconds as nanoseconds, rounded to whole ones. A float counts as the shortest decimal that represents it."""
    if type(seconds) is int:
        return seconds * SECOND
    return round(Decimal(repr(seconds) if isinstance(seconds, float) else seconds) * SECOND)


# ---- from JSON -------------------------------------------------------------------------------------------------------


def column(values: Sequence[Any], type_: Type) -> pa.Array:
    """The values as an Arrow array.

    Raises ValueError (or a subclass), KeyError or OverflowError if a value is not of the type.
    """
    if not ACCEPTED[type_.kind].issuperset(map(type, values)):
        msg = f"not all values are {type_}"
        raise ValueError(msg)
    match type_.kind:
        case Kind.FLOAT64:
            return pa.array([SPECIAL[v] if type(v) is str else float(v) for v in values], pa.float64())
        case Kind.TIMESTAMP:
            return _timestamps(values)
        case Kind.LIST:
            return _lists(values, type_)
        case _:
            return pa.array(values, arrow_type(type_))


def fits(value: object, type_: Type) -> bool:
    """Whether the value is of the type."""
    try:
        column([value], type_)
    except (ValueError, KeyError, OverflowError):
        return False
    return True


def _lists(values: Sequence[list[Any]], type_: Type) -> pa.Array:
    assert type_.element is not None  # noqa: S101 - a list has elements
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), column([v for row in values for v in row], type_.element))


def _timestamps(values: Sequence[float | str]) -> pa.Array:
    texts = pa.array([v if type(v) is str else None for v in values], pa.string())
    numbers = pa.array([None if type(v) is str else nanoseconds(v) for v in values], pa.int64())  # type: ignore[arg-type]
    instants = times(texts)
    if instants.null_count > texts.null_count:
        msg = "not all texts are times in ISO 8601"
        raise ValueError(msg)
    return pc.coalesce(instants, numbers.view(instants.type))


# ---- to JSON ---------------------------------------------------------------------------------------------------------


def json_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as JSON represents them (see the module docstring)."""
    match type_.kind:
        case Kind.FLOAT64:
            return _floats(array)
        case Kind.TIMESTAMP:
            return _times(array)
        case Kind.LIST:
            return _regrouped(array, type_, json_values)
        case _:
            return array.to_pylist()  # type: ignore[no-any-return]


def python_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as `json_values` returns them, but NaN and the infinities are floats."""
    if type_.kind is Kind.LIST:
        return _regrouped(array, type_, python_values)
    return array.to_pylist() if type_ == FLOAT64 else json_values(array, type_)


def _floats(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    finite = np.isfinite(array.to_numpy(zero_copy_only=False))
    for place in np.flatnonzero(~finite):
        values[place] = _special(values[place])
    return values


def _special(value: float) -> str:
    if value != value:  # noqa: PLR0124 - the test for NaN
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _times(array: pa.Array) -> list[str]:
    text = pc.strftime(array.view(pa.timestamp("ns")), format="%Y-%m-%dT%H:%M:%S")
    shortest = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")  # the point keeps the zeros of whole seconds
    return pc.binary_join_element_wise(shortest, "Z", "").to_pylist()  # type: ignore[no-any-return]


def _regrouped(array: pa.Array, type_: Type, of: Callable[[pa.Array, Type], list[Any]]) -> list[list[Any]]:
    assert type_.element is not None  # noqa: S101 - a list has elements
    elements = of(array.flatten(), type_.element)
    ends = np.cumsum(pc.list_value_length(array).to_numpy(zero_copy_only=False)).tolist()
    return [elements[a:b] for a, b in zip([0, *ends], ends, strict=False)]
