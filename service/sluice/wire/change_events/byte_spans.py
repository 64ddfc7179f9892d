"""Columns of bytes that are cut out of the values of records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.wire.gathered_texts import Texts


def cut(data: np.ndarray, first: np.ndarray, last: np.ndarray) -> pa.BinaryArray:
    """The bytes `data[first[k]:last[k]]`; null where `first[k]` is below 0."""
    is_valid = first >= 0
    spans = Texts(data, b"").cut(np.where(is_valid, first, 0), np.where(is_valid, last, 0), pa.binary())
    valid = None if is_valid.all() else pa.array(is_valid).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(first), [valid, *spans.buffers()[1:]])


def replaced(values: pa.BinaryArray, rows: np.ndarray, contents: list[bytes | None]) -> pa.BinaryArray:
    """The values with others in these rows, which are in order."""
    changed = np.zeros(len(values), np.bool_)
    changed[rows] = True
    return pc.replace_with_mask(values, pa.array(changed), pa.array(contents, pa.binary()))
