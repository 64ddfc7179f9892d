"""Numbers and other pieces of binary records: what Avro and Protobuf share. Writing is by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import kernel
from sluice.wire.decoded_records import bytes_of

#: the most bytes of a varint
MOST_BYTES = 10
#: the faults of both formats that reading a number has
NONE, CUT = 0, 1


def varints(values: np.ndarray) -> pa.BinaryArray:
    """Encodes each number as a varint of its 64 bits."""
    starts = np.zeros(len(values) + 1, np.int32)
    data = np.empty(len(values) * MOST_BYTES, np.uint8)
    _encode(np.ascontiguousarray(values, np.int64), data, starts)
    return _binary(starts, data[: starts[-1]])


def zigzags(values: np.ndarray) -> pa.BinaryArray:
    """Encodes each number as a varint with the sign in its last bit: a long of Avro, a sint64 of Protobuf."""
    return varints((values << 1) ^ (values >> 63))


def of_size(values: np.ndarray, size: int) -> pa.BinaryArray:
    """The bytes of the array, `size` bytes for each value."""
    return _binary(np.arange(len(values) + 1, dtype=np.int32) * size, np.ascontiguousarray(values))


def grouped(items: pa.BinaryArray, offsets: np.ndarray) -> pa.BinaryArray:
    """The joined bytes of the items from `offsets[i]` (inclusive) to `offsets[i + 1]` (exclusive), for each i."""
    data, starts = bytes_of(items)
    ends = starts[offsets]
    return _binary((ends - ends[0]).astype(np.int32), np.ascontiguousarray(data[ends[0] : ends[-1]]))


def _binary(starts: np.ndarray, content: np.ndarray) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


@kernel
def _encode(values: np.ndarray, data: np.ndarray, starts: np.ndarray) -> None:
    at = 0
    for row in range(len(values)):
        bits = np.uint64(values[row])
        while bits >= np.uint64(0x80):
            data[at] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
            bits >>= np.uint64(7)
            at += 1
        data[at] = np.uint8(bits)
        at += 1
        starts[row + 1] = at


@kernel
def little(data: np.ndarray, i: int, stop: int, size: int) -> tuple[int, int, int]:
    """Reads `size` bytes as a little-endian number. Returns value, position, CUT if they are not there, else NONE."""
    if size > stop - i:
        return 0, i, CUT
    bits = np.uint64(0)
    for j in range(size):
        bits |= np.uint64(data[i + j]) << np.uint64(8 * j)
    return np.int64(bits), i + size, NONE  # type: ignore[return-value]
