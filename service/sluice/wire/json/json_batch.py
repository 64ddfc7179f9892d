"""Decodes those rows of a batch of JSON values that the compiled scanner accepts, as columns."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.kernel import kernel
from sluice.model.types import Kind, Schema
from sluice.wire.decoded import bytes_of, record_batch
from sluice.wire.json.json_scan import CODES, FieldSpans, Wanted, scan


def scannable(schema: Schema) -> bool:
    """Whether the scanner supports all types of the schema: lists it does not."""
    return all(type_.kind in CODES for _, type_ in schema)


def decode_scannable(values: pa.BinaryArray, schema: Schema) -> tuple[pa.RecordBatch, np.ndarray]:
    """The tuples of the rows that the scanner accepts, and for each row whether it does."""
    data, starts = bytes_of(values)
    names = pa.array([name.encode() for name, _ in schema], pa.binary())
    wanted = Wanted(*bytes_of(names), np.array([CODES[type_.kind] for _, type_ in schema], np.int64))
    found, sure = _room(len(schema), len(values)), np.empty(len(values), np.bool_)
    scan(data, starts, wanted, found, sure)
    columns = [
        _column(type_.kind, data, found.first[a, sure], found.last[a, sure], found.escaped[a, sure])
        for a, (_, type_) in enumerate(schema)
    ]
    return record_batch(columns, arrow_schema(schema), int(np.count_nonzero(sure))), sure


def _room(attributes: int, rows: int) -> FieldSpans:
    first, last = np.empty((2, attributes, rows), np.int64)
    return FieldSpans(first, last, np.empty((attributes, rows), np.bool_), np.empty(attributes, np.bool_))


def _column(kind: Kind, data: np.ndarray, first: np.ndarray, last: np.ndarray, escaped: np.ndarray) -> pa.Array:
    match kind:
        case Kind.BOOLEAN:
            return pa.array(first.astype(np.bool_))
        case Kind.INT64:
            return pa.array(first)
        case Kind.TIMESTAMP:
            return pa.array(first).view(pa.timestamp("ns", "UTC"))
        case Kind.FLOAT64:
            return pc.cast(_texts(data, first, last), pa.float64())
        case _:
            return _without_escapes(_texts(data, first, last), escaped)


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
