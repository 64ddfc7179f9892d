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


def record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that knows its number of rows even where it has no columns."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
