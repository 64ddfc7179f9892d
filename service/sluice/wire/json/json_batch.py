"""Decodes those rows of a batch of JSON values that the compiled scanner accepts, as columns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema
from sluice.columns.kernel import kernel
from sluice.model.types import JSON, Schema, Type
from sluice.wire.decoded import bytes_of, record_batch
from sluice.wire.json import json_types
from sluice.wire.json.json_scan import FieldSpans, Wanted, scan
from sluice.wire.json.json_types import json_form
from sluice.wire.json.json_values import NotOfTypeError, parsed


def scannable(schema: Schema) -> bool:
    """Whether the scanner supports all types of the schema."""
    return None not in _codes(schema)


@lru_cache(maxsize=1024)
def _codes(schema: Schema) -> tuple[int | None, ...]:
    return tuple(json_form(type_).scanned for _, type_ in schema)


def decode_scannable(values: pa.BinaryArray, schema: Schema) -> tuple[pa.RecordBatch, np.ndarray]:
    """The tuples of the rows that the scanner accepts, and for each row whether it does."""
    data, starts = bytes_of(values)
    names = pa.array([name.encode() for name, _ in schema], pa.binary())
    codes = _codes(schema)
    wanted = Wanted(*bytes_of(names), np.array(codes, np.int64))
    found, sure = _room(len(schema), len(values)), np.empty(len(values), np.bool_)
    scan(data, starts, wanted, found, sure)
    arrow = arrow_schema(schema)
    whole = {
        a: _values(schema[a][1], data, found.first[a, sure], found.last[a, sure])
        for a, code in enumerate(codes)
        if code == json_types.SCANNED_VALUE
    }
    right = np.logical_and.reduce([np.ones(np.count_nonzero(sure), np.bool_), *(good for _, good in whole.values())])
    sure[sure] = right
    columns = [
        whole[a][0].filter(pa.array(right[whole[a][1]]))
        if a in whole
        else _column(code, field.type, data, (found.first[a, sure], found.last[a, sure], found.escaped[a, sure]))
        for a, (code, field) in enumerate(zip(codes, arrow, strict=True))
    ]
    return record_batch(columns, arrow, int(np.count_nonzero(sure))), sure


def _values(type_: Type, data: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The values of an attribute whose texts are in these spans: of those of its type, and which texts are."""
    form, texts = json_form(type_), _texts(data, first, last)
    if type_ == JSON:
        good = pc.not_equal(texts, "null").to_numpy(zero_copy_only=False)
        return texts.filter(pa.array(good)).cast(pa.large_string()), good
    good, values = np.ones(len(texts), np.bool_), []
    for row, value in enumerate(texts.to_pylist() if form.keeps_text else _parsed(texts, digits=form.digits)):
        try:
            values.append(form.read_text(value) if form.keeps_text else form.read(value))
        except NotOfTypeError:
            good[row] = False
    return array_of(values, type_), good


def _parsed(texts: pa.StringArray, *, digits: bool) -> list[Any]:
    return parsed(f"[{','.join(texts.to_pylist())}]", digits=digits)  # type: ignore[no-any-return]


def _room(attributes: int, rows: int) -> FieldSpans:
    first, last = np.empty((2, attributes, rows), np.int64)
    return FieldSpans(first, last, np.empty((attributes, rows), np.bool_), np.empty(attributes, np.bool_))


def _column(
    code: int | None, type_: pa.DataType, data: np.ndarray, found: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> pa.Array:
    """The values of an attribute. `found` has what the scanner found: first, last and escaped (see FieldSpans)."""
    first, last, escaped = found
    match code:
        case json_types.SCANNED_BOOLEAN:
            return pa.array(first.astype(np.bool_))
        case json_types.SCANNED_NUMBER:
            return pc.cast(_texts(data, first, last), type_)
        case decimal if decimal is not None and decimal >= json_types.SCANNED_DECIMAL:
            return pc.cast(_texts(data, first, last), type_)
        case json_types.SCANNED_STRING:
            return _without_escapes(_texts(data, first, last), escaped)
        case _:
            return pa.array(first).view(type_)


def _without_escapes(texts: pa.StringArray, escaped: np.ndarray) -> pa.StringArray:
    if not escaped.any():
        return texts
    meant = [orjson.loads(f'"{text}"') for text in texts.filter(pa.array(escaped)).to_pylist()]
    return pc.replace_with_mask(texts, pa.array(escaped), pa.array(meant, pa.string()))


def _texts(data: np.ndarray, first: np.ndarray, last: np.ndarray) -> pa.StringArray:
    starts = np.zeros(len(first) + 1, np.int32)
    np.cumsum(last - first, out=starts[1:])
    gathered = np.empty(starts[-1], np.uint8)
    _gather(data, first, starts, gathered)
    return pa.Array.from_buffers(pa.string(), len(first), [None, pa.py_buffer(starts), pa.py_buffer(gathered)])


@kernel
def _gather(data: np.ndarray, first: np.ndarray, starts: np.ndarray, gathered: np.ndarray) -> None:
    for row in range(len(first)):
        at = first[row]
        for i in range(starts[row], starts[row + 1]):
            gathered[i] = data[at + i - starts[row]]
