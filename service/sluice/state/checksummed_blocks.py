"""A file format that detects damage: a checksum covers every byte, one checksum for each block of content.

    what              bytes             covered by
    magic, lengths    16                the checksum of the head
    description       a JSON object,    the checksum of the head
                      and spaces
    checksum          8                 itself, and the last checksum
    content           any number        one checksum for each BLOCK bytes
    checksums         8 for each block  the last checksum
    length, checksum  16                the last checksum: of all checksums, and of the length of the content

All numbers are little-endian and unsigned. The content begins at a multiple of ALIGNMENT bytes. The checksums follow
the content, so the content can be written as a stream and mapped into memory as one piece.

The checksum is XXH3 with 64 bits. It is not a signature: it detects accidents, not attacks. Other files of a state have
checksums of the same kind: `Owner` names the bucket of a file and seeds them, `DamagedError` is the error for all.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, NamedTuple

import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_intdigest

from sluice.checkpoint.checkpoint_store import StoredObject
from sluice.columns.saved_columns import StateError

LOGGER = logging.getLogger("sluice.state")

#: the first bytes of a file; the last of them is increased with every change of the layout
MAGIC = b"SLUICE\0\1"
#: magic, length of the description in bytes, size of a block in bytes
START = struct.Struct("<8sII")
SUM = struct.Struct("<Q")
#: length of the content in bytes, and the last checksum
END = struct.Struct("<QQ")
BLOCK = 1 << 20
ALIGNMENT = 64
#: maximum length of a head in bytes; a longer one counts as damaged
MAX_HEAD = 1 << 16
#: names and values that identify the content of a file; a reader passes the values that it expects
Description = Mapping[str, str | int]


class DamagedError(StateError):
    """A file of the state differs from what was written. The message has the file and the position of the damage."""

    def __init__(self, location: str, what: str) -> None:
        super().__init__(f"{location}: {what}")
        self._location, self._what = location, what

    def but(self, more: str) -> DamagedError:
        """The same error with `more` appended to its message."""
        return DamagedError(self._location, self._what + more)


@dataclass(frozen=True)
class Owner:
    """The bucket whose state a file holds. `query` is the id of the checkpoint."""

    pipeline: str = ""
    query: str = ""
    bucket: int = 0

    @cached_property
    def seed(self) -> int:
        """The seed of the checksums, so that a file of one bucket does not pass as a file of another bucket."""
        return xxh3_64_intdigest(f"{self.query}/{self.bucket}".encode())


class BlockWriter:
    """A binary file object, as pyarrow expects one, that writes the content. `finish` appends the checksums."""

    closed = False

    def __init__(self, file: BinaryIO, description: Description, block: int = BLOCK) -> None:
        self._file, self._size = file, block
        head = _head(description, block)
        self._head = SUM.pack(xxh3_64_intdigest(head))
        file.write(head + self._head)
        #: checksums of the complete blocks; then the checksum of the block being written, and its bytes that are free
        self._sums: list[int] = []
        self._sum, self._room = xxh3_64(), block
        self._length = 0

    def write(self, data: bytes | pa.Buffer) -> int:
        view = memoryview(data).cast("B")
        for start, end in self._pieces(len(view)):
            piece = view[start:end]
            self._sum.update(piece)
            self._file.write(piece)  # while the piece is still in the processor's cache
            self._room -= end - start
            if not self._room:
                self._end_block()
        self._length += len(view)
        return len(view)

    def flush(self) -> None:
        """Does nothing: this object has no buffer."""

    def close(self) -> None:
        """Does nothing: `finish` still has to write the checksums."""

    def finish(self) -> None:
        if self._room < self._size:
            self._end_block()
        table = struct.pack(f"<{len(self._sums)}Q", *self._sums)
        self._file.write(table + END.pack(self._length, _last_sum(self._head, table, self._length)))

    def _pieces(self, length: int) -> Iterator[tuple[int, int]]:
        """Start and end of each piece of `length` bytes, cut at the ends of blocks."""
        start = 0
        while start < length:
            end = min(length, start + self._room)
            yield start, end
            start = end

    def _end_block(self) -> None:
        self._sums.append(self._sum.intdigest())
        self._sum, self._room = xxh3_64(), self._size


class Head(NamedTuple):
    """The decoded head of a file. `end` is the offset at which the content begins."""

    description: dict[str, str | int]
    block: int
    end: int
    checksum: bytes


def read(stored: StoredObject, expected: Description) -> memoryview:
    """The content of an object, after all checksums have been verified.

    Raises DamagedError if a checksum differs, if the object is too short or too long, if it cannot be read, or if its
    description differs from `expected` in one of the names in `expected`.
    """
    try:
        head = _read_head(stored)
        _compare(stored, head.description, expected)
        length, sums = _read_sums(stored, head)
        _verify(stored, head, length, sums)
    except OSError as error:  # the disk cannot read a sector
        raise DamagedError(stored.location, f"it cannot be read ({error.strerror})") from error
    return stored.content()[head.end : head.end + length]


def _head(description: Description, block: int) -> bytes:
    text = json.dumps(description, separators=(",", ":")).encode()
    text = text.ljust(-(START.size + len(text) + SUM.size) % ALIGNMENT + len(text))
    return START.pack(MAGIC, len(text), block) + text


def _last_sum(head: bytes, table: bytes, length: int) -> int:
    return xxh3_64_intdigest(head + table + SUM.pack(length))


def _read_head(stored: StoredObject) -> Head:
    start = _at(stored, 0, START.size)
    if len(start) < START.size:
        raise DamagedError(stored.location, "it was cut off in its head")
    magic, length, block = START.unpack(start)
    end = START.size + length + SUM.size
    rest = _at(stored, START.size, min(end, MAX_HEAD) - START.size)
    head, checksum = start + rest[: -SUM.size], rest[-SUM.size :]
    if end > MAX_HEAD or len(rest) != end - START.size or checksum != SUM.pack(xxh3_64_intdigest(head)):
        raise DamagedError(stored.location, "its head is damaged")
    if magic != MAGIC:
        raise DamagedError(stored.location, f"it begins with {magic!r}, this version of Sluice reads {MAGIC!r}")
    return Head(json.loads(head[START.size :]), block, end, checksum)


def _compare(stored: StoredObject, description: Description, expected: Description) -> None:
    for name, value in expected.items():
        if description.get(name) != value:
            raise DamagedError(stored.location, f"it belongs to {name} {description.get(name)}, not to {name} {value}")


def _read_sums(stored: StoredObject, head: Head) -> tuple[int, tuple[int, ...]]:
    """The length of the content, and the checksums of its blocks."""
    size = stored.size
    end = _at(stored, size - END.size, END.size) if size >= head.end + END.size else b""
    length, last = END.unpack(end) if end else (0, 0)
    count = -(-length // head.block)
    if head.end + length + SUM.size * count + END.size == size:
        table = _at(stored, head.end + length, SUM.size * count)
        if last == _last_sum(head.checksum, table, length):
            return length, struct.unpack(f"<{count}Q", table)
    message = f"it is not complete, or its last bytes are damaged: its {size} bytes do not end with their checksums"
    raise DamagedError(stored.location, message)


def _verify(stored: StoredObject, head: Head, length: int, sums: tuple[int, ...]) -> None:
    """Compares the checksum of each block.

    It reads the blocks with `read_into` instead of from `content`, which may be a memory map: an unreadable sector of
    the disk then raises OSError, while the memory map would end the process with a signal.
    """
    room = memoryview(bytearray(min(head.block, length)))
    for number, expected in enumerate(sums):
        block = room[: min(head.block, length - number * head.block)]
        start = head.end + number * head.block
        if stored.read_into(start, block) < len(block) or xxh3_64_intdigest(block) != expected:
            raise DamagedError(
                stored.location, f"block {number} (bytes {start} to {start + len(block) - 1}) is damaged"
            )


def _at(stored: StoredObject, start: int, length: int) -> bytes:
    """`length` bytes from offset `start`, or fewer if the object ends before."""
    data = bytearray(length)
    return bytes(data[: stored.read_into(start, memoryview(data))])
