"""The murmur2 hash, by which Kafka's Java client assigns keys to topic partitions (librdkafka's default differs)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from sluice.columns.kernel import compiled

SEED = np.uint32(0x9747B28C)
MULTIPLIER = np.uint32(0x5BD1E995)
POSITIVE = np.int32(0x7FFFFFFF)


def partition_for(keys: pa.BinaryArray, partitions: int) -> np.ndarray:
    """The number of each key's topic partition, from 0 to `partitions - 1`; 0 for a null key."""
    chosen = (murmur2(keys) & POSITIVE) % np.int32(partitions)
    if keys.null_count:
        chosen[keys.is_null().to_numpy(zero_copy_only=False)] = 0
    return chosen


def murmur2(keys: pa.BinaryArray) -> np.ndarray:
    """The 32-bit hash of each key, equal to that of Kafka's Java method `Utils.murmur2`."""
    hashes = np.empty(len(keys), np.int32)
    if len(keys):
        _, starts, data = keys.buffers()
        offsets = np.frombuffer(starts, np.int32)[keys.offset : keys.offset + len(keys) + 1]
        content = np.frombuffer(data or b"", np.uint8)
        content.flags.writeable = offsets.flags.writeable = False  # or numba compiles the kernel for each kind
        _hash_all(content, offsets, hashes.view(np.uint32))
    return hashes


@partial(compiled, nogil=True)
def _hash_all(data: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> None:
    for row in range(len(hashes)):
        hashes[row] = _hash(data, offsets[row], offsets[row + 1])


@partial(compiled, nogil=True)
def _hash(data: np.ndarray, start: int, stop: int) -> np.uint32:
    value = SEED ^ np.uint32(stop - start)
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        value = np.uint32(value * MULTIPLIER) ^ _mixed(_word(data, i))
    if whole < stop:
        for i in range(stop - whole):
            value ^= np.uint32(data[whole + i]) << np.uint32(8 * i)
        value = np.uint32(value * MULTIPLIER)
    value = np.uint32((value ^ (value >> np.uint32(13))) * MULTIPLIER)
    return np.uint32(value ^ (value >> np.uint32(15)))


@partial(compiled, nogil=True)
def _word(data: np.ndarray, i: int) -> np.uint32:
    """Four bytes from index `i` on as a little-endian number."""
    low = np.uint32(data[i]) | np.uint32(data[i + 1]) << np.uint32(8)
    return np.uint32(low | np.uint32(data[i + 2]) << np.uint32(16) | np.uint32(data[i + 3]) << np.uint32(24))


@partial(compiled, nogil=True)
def _mixed(word: np.uint32) -> np.uint32:
    word = np.uint32(word * MULTIPLIER)
    word = word ^ (word >> np.uint32(24))
    return np.uint32(word * MULTIPLIER)
