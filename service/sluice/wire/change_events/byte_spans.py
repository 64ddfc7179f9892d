"""Columns of bytes that are cut out of the values of records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.kernel import kernel


def cut(data: np.ndarray, first: np.ndarray, last: np.ndarray) -> pa.BinaryArray:
    """The bytes `data[first[k]:last[k]]`; null where `first[k]` is below 0."""
    there = first >= 0
    starts = np.zeros(len(first) + 1, np.int64)
    np.cumsum(np.where(there, last - first, 0), out=starts[1:])
    if starts[-1] > np.iinfo(np.int32).max:
        raise OverflowError("more than 2 GiB of rows in one batch")
    gathered = np.empty(starts[-1], np.uint8)
    _gather(data, first, starts, gathered)
    valid = None if there.all() else pa.array(there).buffers()[1]
    buffers = [valid, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(gathered)]
    return pa.Array.from_buffers(pa.binary(), len(first), buffers)


def replaced(values: pa.BinaryArray, rows: np.ndarray, by: list[bytes | None]) -> pa.BinaryArray:
    """The values with others in these rows, which are in order."""
    changed = np.zeros(len(values), np.bool_)
    changed[rows] = True
    return pc.replace_with_mask(values, pa.array(changed), pa.array(by, pa.binary()))


@kernel
def _gather(data: np.ndarray, first: np.ndarray, starts: np.ndarray, gathered: np.ndarray) -> None:
    for row in range(len(first)):
        at = first[row] - starts[row]
        for i in range(starts[row], starts[row + 1]):
            gathered[i] = data[at + i]
