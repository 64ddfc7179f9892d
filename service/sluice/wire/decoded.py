"""What decoding a batch of values gives, whatever their format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """`tuples` has one row for each of the rows `good`, in their order; every other row is in `bad` with its reason."""

    tuples: pa.RecordBatch
    good: np.ndarray
    bad: list[tuple[int, str]]

    def at(self, rows: np.ndarray) -> Decoded:
        """The same of a batch of which the values were these rows."""
        return Decoded(self.tuples, rows[self.good], [(int(rows[row]), why) for row, why in self.bad])


def in_order(*parts: Decoded) -> Decoded:
    """What was decoded apart, of the same batch, as one."""
    good = np.concatenate([part.good for part in parts])
    order = pa.array(np.argsort(good, kind="stable"))
    columns = zip(*(part.tuples.columns for part in parts), strict=True)
    tuples = [pa.concat_arrays(pieces).take(order) for pieces in columns]
    bad = sorted(entry for part in parts for entry in part.bad)
    return Decoded(record_batch(tuples, parts[0].tuples.schema, len(good)), np.sort(good), bad)


def record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that knows its number of rows even where it has no columns."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def bytes_of(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """All bytes of a binary array, and where each value starts; nulls are empty."""
    if not len(values):
        return np.frombuffer(b"", np.uint8), np.zeros(1, np.int64)
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data or b"", np.uint8)
    content.flags.writeable = False  # as some of Arrow's buffers are anyway: kernels are compiled for either kind
    return content, offsets.astype(np.int64)
