"""Conversion between JSON values and Arrow columns, in both directions.

Reading accepts a time as an ISO 8601 text (UTC if it has no zone) or as a number of seconds since 1970. Writing makes
ISO 8601 texts in UTC. NaN and the infinities are the strings "NaN", "Infinity" and "-Infinity", in both directions.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sluice.columns.column_forms import column, form
from sluice.columns.forms.word_forms import nanoseconds
from sluice.model.types import Type

__all__ = ["column", "fits", "json_values", "nanoseconds", "python_values", "shown_values", "written_values"]


def fits(value: object, type_: Type) -> bool:
    """Whether the value is of the type."""
    try:
        column([value], type_)
    except (ValueError, KeyError, OverflowError):
        return False
    return True


def json_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as JSON represents them (see the module docstring)."""
    return form(type_).to_json(array)


def written_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as `json_values` returns them, for orjson alone: those of the type json keep their digits."""
    return form(type_).to_written(array)


def shown_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as `json_values` returns them, to be shown: numbers in those of the type json keep their digits, as
    Decimals (json_texts.py).
    """
    return form(type_).to_shown(array)


def python_values(array: pa.Array, type_: Type) -> list[Any]:
    """The values as `json_values` returns them, with NaN and the infinities as floats; null is None."""
    return form(type_).to_python(array)
