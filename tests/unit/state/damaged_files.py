"""Files that are not as they were written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

SEED = 20


def flipped(data: bytes, count: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The data with one bit flipped: each bit of it, or so many at random; and the byte that differs."""
    bits = range(8 * len(data)) if count is None else random.Random(SEED).sample(range(8 * len(data)), count)
    for bit in bits:
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(other)


def flip(path: Path, byte: int) -> None:
    """Flips a bit of this byte of a file."""
    data = bytearray(path.read_bytes())
    data[byte] ^= 0x10
    path.write_bytes(data)
