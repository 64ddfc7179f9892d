"""Numbers and byte strings that travel together: through a socket, or into a file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import BinaryIO

from service.spark.packed import Body

NUMBER = 8


@dataclass(frozen=True, slots=True)
class Message:
    """Its bytes: how many numbers and bodies, the numbers, the lengths of the bodies, the bodies; all numbers int64."""

    numbers: tuple[int, ...]
    bodies: Sequence[Body]

    @property
    def head(self) -> bytes:
        words = (len(self.numbers), len(self.bodies), *self.numbers, *map(len, self.bodies))
        return struct.pack(f"<{len(words)}q", *words)

    def write(self, write: Callable[[Body], object]) -> None:
        write(self.head)
        for body in self.bodies:
            write(body)

    @classmethod
    def read(cls, file: BinaryIO) -> Message:
        """Raises EOFError where the file ends before the message does."""
        numbers, lengths = read_head(file)
        return cls(numbers, [_exactly(file, length) for length in lengths])

    @classmethod
    def mapped(cls, file: BinaryIO) -> Message:
        """The message at the place of an open file; its bodies are read from the file when they are used."""
        numbers, lengths = read_head(file)
        ends = list(accumulate(lengths, initial=file.tell()))
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if ends[-1] > len(mapped):
            raise EOFError
        return cls(numbers, [mapped[start:end] for start, end in pairwise(ends)])


def read_head(file: BinaryIO) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers, and the lengths of the bodies that follow."""
    counts = struct.unpack("<2q", _exactly(file, 2 * NUMBER))
    if min(counts) < 0:
        raise EOFError
    words = struct.unpack(f"<{sum(counts)}q", _exactly(file, sum(counts) * NUMBER))
    return words[: counts[0]], words[counts[0] :]


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
