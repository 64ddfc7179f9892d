"""A message: a list of integers and a list of byte strings, which are sent through a socket or written to a file."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import BinaryIO

from sluice.batch.packed_rows import Body

NUMBER = 8
#: maximum count of numbers and bodies of a message; a head with a larger count is damaged, and no memory is allocated
MAX_COUNT = 1 << 24


@dataclass(frozen=True, slots=True)
class Message:
    """Numbers and byte strings (`bodies`).

    Layout: count of numbers, count of bodies, the numbers, the lengths of the bodies (all int64, little-endian), and
    then the bodies.
    """

    numbers: tuple[int, ...]
    bodies: Sequence[Body]

    @property
    def head(self) -> bytes:
        words = (len(self.numbers), len(self.bodies), *self.numbers, *map(len, self.bodies))
        return struct.pack(f"<{len(words)}q", *words)

    @property
    def size(self) -> int:
        """The number of bytes that `write` writes."""
        return NUMBER * (2 + len(self.numbers) + len(self.bodies)) + sum(map(len, self.bodies))

    def write(self, write: Callable[[Body], object]) -> None:
        write(self.head)
        for body in self.bodies:
            write(body)

    @classmethod
    def read(cls, file: BinaryIO) -> Message:
        """Reads the next message. Raises EOFError if the file ends inside the message, or if the head is invalid."""
        numbers, lengths = _read_head(file)
        return cls(numbers, [_exactly(file, length) for length in lengths])

    @classmethod
    def within(cls, data: memoryview) -> Message:
        """The message at the start of `data`. Its bodies are views of `data`.

        Raises EOFError if `data` ends before the message does, or if the head is invalid.
        """
        if len(data) < 2 * NUMBER:
            raise EOFError
        head = NUMBER * (2 + sum(struct.unpack_from("<2Q", data)))
        file = io.BytesIO(data[: min(head, len(data))])
        numbers, lengths = _read_head(file)
        ends = list(accumulate(lengths, initial=file.tell()))
        if ends[-1] > len(data):
            raise EOFError
        return cls(numbers, [data[start:end] for start, end in pairwise(ends)])


def _read_head(file: BinaryIO) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers, and the lengths of the bodies. The next byte of the file is the first of the first body."""
    counts = struct.unpack("<2q", _exactly(file, 2 * NUMBER))
    if min(counts) < 0 or sum(counts) > MAX_COUNT:
        raise EOFError
    words = struct.unpack(f"<{sum(counts)}q", _exactly(file, sum(counts) * NUMBER))
    numbers, lengths = words[: counts[0]], words[counts[0] :]
    if min(lengths, default=0) < 0:
        raise EOFError
    return numbers, lengths


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
