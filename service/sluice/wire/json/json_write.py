"""Encodes tuples as JSON, a batch at a time."""

from __future__ import annotations

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.wire.json.json_values import finite_or_word

NEWLINE = 10


def encode(tuples: pa.RecordBatch) -> pa.BinaryArray:
    """One JSON object per row, with the attributes in the order of the schema."""
    if not tuples.num_columns:
        return pa.array([b"{}"] * tuples.num_rows, pa.binary())
    frame = pl.DataFrame(tuples)
    frame = frame.with_columns([_timestamps_as_text(series) for series in frame])
    values = _split(frame.write_ndjson().encode(), tuples.num_rows)
    return _with_words(values, frame, _has_word(tuples))


def _split(lines: bytes, count: int) -> pa.BinaryArray:
    """The lines as values, without the newlines. JSON escapes newlines in strings, so each newline ends a line."""
    data = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    starts = np.zeros(count + 1, np.int64)
    starts[1:] = ends - np.arange(count)
    if starts[-1] > np.iinfo(np.int32).max:
        msg = "more than 2 GiB of JSON in one batch of outputs"
        raise OverflowError(msg)
    buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(np.delete(data, ends))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _timestamps_as_text(series: pl.Series) -> pl.Series:
    """Replaces timestamps, also in lists, by ISO 8601 texts in UTC with the shortest fraction."""
    column = pl.col(series.name)
    return series.to_frame().select(_as_text(column, series.dtype).alias(series.name)).to_series()


def _as_text(column: pl.Expr, type_: pl.DataType) -> pl.Expr:
    if isinstance(type_, pl.List):
        return column.list.eval(_as_text(pl.element(), type_.inner))  # type: ignore[arg-type]
    if not isinstance(type_, pl.Datetime):
        return column
    # %.f writes no fraction or one of 3, 6 or 9 digits.
    return column.dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ").str.replace(r"(\.\d*[1-9])0+Z", "${1}Z")


def _has_word(tuples: pa.RecordBatch) -> np.ndarray:
    """For each row whether it has a NaN or an infinity, which are written as words."""
    found = np.zeros(tuples.num_rows, np.bool_)
    for column in tuples.columns:
        rows, leaves = np.arange(len(column)), column
        while pa.types.is_list(leaves.type):
            rows, leaves = rows[pc.list_parent_indices(leaves).to_numpy()], pc.list_flatten(leaves)
        if pa.types.is_floating(leaves.type):
            found[rows[~np.isfinite(leaves.to_numpy(zero_copy_only=False))]] = True
    return found


def _with_words(values: pa.BinaryArray, frame: pl.DataFrame, rows: np.ndarray) -> pa.BinaryArray:
    """Replaces the values of the given rows, with NaN and infinities as words. The rows are encoded one by one."""
    if not rows.any():
        return values
    texts = [
        orjson.dumps({name: finite_or_word(value) for name, value in row.items()})
        for row in frame.filter(pl.Series(rows)).to_dicts()
    ]
    return pc.replace_with_mask(values, pa.array(rows), pa.array(texts, pa.binary()))
