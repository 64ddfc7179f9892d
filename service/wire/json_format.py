"""Values in JSON: one object per record, one attribute per name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from service.engine.arrow import arrow_schema
from service.pipeline.types import Schema, Type
from service.wire.dead_letters import Reason, reason
from service.wire.decoded import Decoded, record_batch
from service.wire.json_batch import decode_surely, scannable
from service.wire.json_values import NotOfTypeError, reader, shown
from service.wire.json_write import encode

__all__ = ["decode", "encode"]


class Unusable(ValueError):  # noqa: N818
    """A value that is no tuple of the schema; its text is the reason."""


def decode(values: pa.BinaryArray, schema: Schema) -> Decoded:
    """The tuples in these values.

    Attributes that the schema does not name are ignored; of several with one name the last counts.
    """
    if not scannable(schema):
        return decode_exactly(values, schema)
    tuples, sure = decode_surely(values, schema)
    if sure.all():
        return Decoded(tuples, np.arange(len(values)), [])
    return _merged(tuples, np.flatnonzero(sure), values, np.flatnonzero(~sure), schema)


def _merged(
    tuples: pa.RecordBatch, sure: np.ndarray, values: pa.BinaryArray, doubtful: np.ndarray, schema: Schema
) -> Decoded:
    """The tuples of the rows that are sure, with what the exact way says of the others, in order."""
    exact = decode_exactly(values.take(pa.array(doubtful)), schema)
    good = np.concatenate([sure, doubtful[exact.good]])
    order = np.argsort(good, kind="stable")
    both = [
        pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(tuples.columns, exact.tuples.columns, strict=True)
    ]
    bad = [(int(doubtful[row]), why) for row, why in exact.bad]
    return Decoded(record_batch(both, arrow_schema(schema), len(good)), good[order], bad)


def decode_exactly(values: pa.BinaryArray, schema: Schema) -> Decoded:
    """The law: each value by itself, through Python objects."""
    attributes = [(name, type_, reader(type_)) for name, type_ in schema]
    good, tuples, bad = [], [], []
    for row, value in enumerate(values.to_pylist()):
        try:
            tuples.append(_tuple(value, attributes))
            good.append(row)
        except Unusable as unusable:
            bad.append((row, str(unusable)))
    return Decoded(_columns(tuples, schema), np.array(good, np.int64), bad)


def _tuple(value: bytes | None, attributes: list[tuple[str, Type, Callable[[Any], Any]]]) -> list[Any]:
    document = _parsed(value)
    return [_attribute(document, name, type_, read) for name, type_, read in attributes]


def _parsed(value: bytes | None) -> dict[str, Any]:
    if not value:
        raise Unusable(reason(Reason.NO_VALUE, "expected a JSON object, got nothing"))
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Unusable(reason(Reason.NOT_JSON, str(error))) from None
    if type(document) is not dict:
        raise Unusable(reason(Reason.NOT_AN_OBJECT, f"expected a JSON object, got {shown(document)}"))
    return document


def _attribute(document: dict[str, Any], name: str, type_: Type, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    value = document.get(name)
    if value is None:
        word = Reason.NULL if name in document else Reason.MISSING
        raise Unusable(reason(word, f"{name}: expected {type_}, got {'null' if name in document else 'nothing'}"))
    try:
        return read(value)
    except NotOfTypeError:
        raise Unusable(reason(Reason.WRONG_TYPE, f"{name}: expected {type_}, got {shown(value)}")) from None


def _columns(tuples: list[list[Any]], schema: Schema) -> pa.RecordBatch:
    fields = arrow_schema(schema)
    columns = list(zip(*tuples, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return record_batch(arrays, fields, len(tuples))
