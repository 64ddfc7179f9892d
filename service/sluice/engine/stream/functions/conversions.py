"""Scalar functions that convert values to another type."""

from __future__ import annotations

from base64 import b64encode

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.number_columns import cast_each, times
from sluice.engine.stream.functions.column_arguments import (
    EDGE,
    FLOAT64,
    INSTANT,
    INT64,
    NAIVE,
    STRING,
    Column,
    by_name,
    by_row,
    is_scalar,
    none,
)
from sluice.engine.stream.functions.text_functions import concatenate


def to_int64(value: Column) -> Column:
    if pa.types.is_floating(value.type):
        whole = pc.trunc(value)
        fits = pc.and_(pc.greater_equal(whole, float(-EDGE)), pc.less(whole, float(EDGE)))
        return pc.cast(pc.if_else(fits, whole, none(whole)), INT64)
    return parsed(value, r"^-?[0-9]+$", INT64) if pa.types.is_string(value.type) else pc.cast(value, INT64)


def to_float64(value: Column) -> Column:
    if pa.types.is_string(value.type):
        return parsed(value, r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^(-?Infinity|NaN)$", FLOAT64)
    return pc.cast(pc.cast(value, INT64), FLOAT64, safe=False)


def to_boolean(text: Column) -> Column:
    is_boolean = pc.or_(pc.equal(text, "true"), pc.equal(text, "false"))
    return pc.if_else(is_boolean, pc.equal(text, "true"), pa.scalar(None, pa.bool_()))


def to_timestamp(text: Column) -> Column:
    """Parses ISO 8601. A text without zone is in UTC, one without time is midnight."""
    return times(pa.array([text.as_py()], STRING))[0] if is_scalar(text) else times(text)


def parsed(text: Column, pattern: str, type_: pa.DataType) -> Column:
    """The values of the texts that match the pattern; null for other texts and for values out of the type's range."""
    if is_scalar(text):
        return parsed(pa.array([text.as_py()], STRING), pattern, type_)[0]
    return cast_each(pc.if_else(pc.match_substring_regex(text, pattern=pattern), text, none(text)), type_)


def to_string(value: Column) -> Column:
    if pa.types.is_floating(value.type):
        return float_text(value)
    if pa.types.is_binary(value.type):
        return by_row(lambda content: b64encode(content).decode(), STRING, value)
    return instant_text(value) if pa.types.is_timestamp(value.type) else pc.cast(value, STRING)


def instant_text(value: Column) -> Column:
    """Formats a time with the shortest fraction: 2013-01-01T05:00:00.5Z. Zeros are removed before the decimal point is,
    so the zeros of whole seconds stay.
    """
    text = pc.replace_substring(pc.cast(naive(value), STRING), pattern=" ", replacement="T")
    return concatenate(pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), "."), pa.scalar("Z"))


def float_text(value: Column) -> Column:
    if is_scalar(value):
        return float_text(pa.array([value.as_py()], FLOAT64))[0]
    texts = orjson.dumps(value.to_pylist())[1:-1].split(b",") if len(value) else []
    infinite = pc.if_else(pc.greater(value, 0.0), "Infinity", "-Infinity")
    special = pc.if_else(pc.is_nan(value), "NaN", infinite)
    return pc.if_else(pc.is_finite(value), pa.array(texts, pa.binary()).view(STRING), special)


def ticks(time: Column) -> Column:
    return pc.cast(time, INT64)


def instant(nanoseconds: Column) -> Column:
    return pc.cast(nanoseconds, INSTANT)


def naive(time: Column) -> Column:
    """The time in UTC without its zone. The calendar functions then need no time zone database."""
    return pc.cast(pc.cast(time, INT64), NAIVE)


KERNELS = {
    **by_name(to_int64, to_float64, to_boolean, to_timestamp, to_string),
    "from_nanoseconds": instant,
    "to_nanoseconds": ticks,
}
