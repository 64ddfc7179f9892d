"""Numbers and byte strings that travel together: through a socket, or into a file."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import BinaryIO

from sluice.batch.envelope import Body

NUMBER = 8
#: numbers and bodies of a message, at most: a head that has more is none, and is not made room for
MAX_COUNT = 1 << 24


@dataclass(frozen=True, slots=True)
class Message:
    """Its bytes: how many numbers and bodies, the numbers, the lengths of the bodies, the bodies; all numbers int64."""

    numbers: tuple[int, ...]
    bodies: Sequence[Body]

    @property
    def head(self) -> bytes:
        words = (len(self.numbers), len(self.bodies), *self.numbers, *map(len, self.bodies))
        return struct.pack(f"<{len(words)}q", *words)

    @property
    def size(self) -> int:
        """Bytes that `write` writes."""
        return NUMBER * (2 + len(self.numbers) + len(self.bodies)) + sum(map(len, self.bodies))

    def write(self, write: Callable[[Body], object]) -> None:
        write(self.head)
        for body in self.bodies:
            write(body)

    @classmethod
    def read(cls, file: BinaryIO) -> Message:
        """Raises EOFError where the file ends before the message does."""
        numbers, lengths = _read_head(file)
        return cls(numbers, [_exactly(file, length) for length in lengths])

    @classmethod
    def within(cls, data: memoryview) -> Message:
        """The message that these bytes hold; its bodies are parts of them. Raises EOFError where they end too early."""
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
    """The numbers, and the lengths of the bodies that follow."""
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
