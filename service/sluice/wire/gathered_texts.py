"""Gathers texts that compiled decoders found in the bytes of records into columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import kernel


@dataclass(frozen=True, slots=True)
class Texts:
    """The sources of texts: the records, and for negative positions the constants of the program."""

    data: np.ndarray
    constants: bytes

    def cut(self, first: np.ndarray, last: np.ndarray, type_: pa.DataType) -> pa.Array:
        starts = np.zeros(len(first) + 1, np.int64)
        np.cumsum(np.abs(last - first), out=starts[1:])
        if starts[-1] > np.iinfo(np.int32).max:
            raise OverflowError("more than 2 GiB of text in one batch")
        gathered = np.empty(starts[-1], np.uint8)
        constants = np.frombuffer(self.constants or b"\0", np.uint8)
        _gather(self.data, constants, first, starts, gathered)
        buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(gathered)]
        return pa.Array.from_buffers(type_, len(first), buffers)


@kernel
def _gather(
    data: np.ndarray, constants: np.ndarray, first: np.ndarray, starts: np.ndarray, gathered: np.ndarray
) -> None:
    for row in range(len(first)):
        at, size, to = first[row], starts[row + 1] - starts[row], starts[row]
        for i in range(size):
            gathered[to + i] = data[at + i] if at >= 0 else constants[~at + i]
