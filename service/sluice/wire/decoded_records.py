"""The result of decoding a batch of values, for all formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.model.types import Schema


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded tuples of a batch, and the rows that could not be decoded.

    `good` has the row numbers of the `tuples`, ascending. Every other row is in `bad` with its reason.
    """

    tuples: pa.RecordBatch
    good: np.ndarray
    bad: list[tuple[int, str]]

    def at(self, rows: np.ndarray) -> Decoded:
        """The same result with the row numbers of a larger batch: row i of this batch was row `rows[i]` there."""
        return Decoded(self.tuples, rows[self.good], [(int(rows[row]), why) for row, why in self.bad])


def in_order(*parts: Decoded) -> Decoded:
    """Merges the results for different rows of the same batch, in order of rows."""
    good = np.concatenate([part.good for part in parts])
    order = pa.array(np.argsort(good, kind="stable"))
    columns = zip(*(part.tuples.columns for part in parts), strict=True)
    tuples = [pa.concat_arrays(pieces).take(order) for pieces in columns]
    bad = sorted(entry for part in parts for entry in part.bad)
    return Decoded(record_batch(tuples, parts[0].tuples.schema, len(good)), np.sort(good), bad)


def beside(schema: Schema, numbers: Sequence[Sequence[int]], parts: Sequence[Decoded]) -> Decoded:
    """The tuples of a schema from the results for the same rows, of which each has the attributes with its `numbers`.
    A row that is bad in several results has the reason of the first one.
    """
    why = {row: text for part in reversed(parts) for row, text in part.bad}
    good = np.setdiff1d(parts[0].good, np.fromiter(why, np.int64, len(why)), assume_unique=True)
    columns: dict[int, pa.Array] = {}
    for part, attributes in zip(parts, numbers, strict=True):
        kept = part.tuples.filter(pa.array(np.isin(part.good, good)))
        columns |= zip(attributes, kept.columns, strict=True)
    arrays = [columns[number] for number in range(len(schema))]
    return Decoded(record_batch(arrays, arrow_schema(schema), len(good)), good, sorted(why.items()))


def merged(values: pa.Array, others: np.ndarray, more: pa.Array, fits: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The values of all rows with one, in order, and which rows have one: `values` are the values of all rows but
    `others`; `more` are the values of the `others` that `fits` names.
    """
    good = np.ones(len(values) + len(others), np.bool_)
    good[others] = False
    places = np.concatenate([np.flatnonzero(good), others[fits]])
    good[others[fits]] = True
    return pa.concat_arrays([values, more]).take(pa.array(np.argsort(places))), good


def nothing(schema: Schema, rows: np.ndarray, why: str) -> Decoded:
    """The result for these rows if none can be decoded, for the same reason."""
    fields = arrow_schema(schema)
    empty = record_batch([pa.array([], field.type) for field in fields], fields, 0)
    return Decoded(empty, np.zeros(0, np.int64), [(int(row), why) for row in rows])


def record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch of `rows` rows, also if there are no columns."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def bytes_of(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a binary array, and the offsets of its values: value i is `bytes[offsets[i]:offsets[i + 1]]`.

    A null is an empty value.
    """
    if not len(values):
        return np.frombuffer(b"", np.uint8), np.zeros(1, np.int64)
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data or b"", np.uint8)
    content.flags.writeable = False  # like some of Arrow's buffers: numba compiles a kernel apart for writeable arrays
    return content, offsets.astype(np.int64)
