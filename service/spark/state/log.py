"""The log of a bucket: the rows of each batch as they came in, from which `feed` makes the state again.

Whoever appends has a file of his own, so a task that runs twice, or goes on after it was given up, cannot spoil what
another writes. Of two entries with one version the one in the newer file counts; they are equal in any case, as a batch
that runs again gets equal rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from service.engine.store import StateError
from service.spark.packed import Packed
from service.spark.state.message import Message, read_head

#: before each entry: that it is one (a number that is raised with every change of the format), and its checksum
MARK = 0x51CE0002
START = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a bucket. `version`: of the state that it leads to, which has had so many batches."""

    version: int
    rows: list[Packed]

    @property
    def message(self) -> Message:
        return Message((self.version, *(holds for holds, _ in self.rows)), [body for _, body in self.rows])

    @property
    def size(self) -> int:
        """Bytes in the log."""
        message = self.message
        return START.size + len(message.head) + sum(map(len, message.bodies))

    @classmethod
    def of(cls, message: Message) -> Entry:
        version, *holds = message.numbers
        return cls(version, list(zip(holds, message.bodies, strict=True)))


class Log:
    """The log in `folder`; nothing is written, and no folder made, before the first `append`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: the one that this writer appends to
        self._own: Path | None = None

    def append(self, entry: Entry) -> None:
        path, self._own = self._own or self._fresh(), None
        message = entry.message
        with path.open("ab") as file:
            file.write(START.pack(MARK, _sum(message)))
            message.write(file.write)
        self._own = path  # not if that failed: behind half an entry there must be no other

    def turn(self) -> None:
        """What is appended from now on goes to a new file."""
        self._own = None

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """Those that lead from the state of one version to that of another. Raises StateError where one is missing."""
        places = {version: (path, start) for path in self._files() for version, start, _ in _places(path)}
        for version in range(after + 1, upto + 1):
            if version not in places:
                msg = f"{self._folder}: there is no entry for version {version} of the state"
                raise StateError(msg)
            path, start = places[version]
            yield _entry(path, start)

    def last(self) -> int:
        """The newest version; 0 while there is none."""
        return max((version for path in self._files() for version, _, _ in _places(path)), default=0)

    def forget(self, upto: int) -> None:
        """Removes the files that hold no entry after this version."""
        for path in self._files():
            if path != self._own and all(version <= upto for version, _, _ in _places(path)):
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """Older ones first."""
        return sorted(self._folder.glob("*.log"), key=_number)

    def _fresh(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in count(max(map(_number, self._files()), default=0) + 1):
            try:
                path = self._folder / f"{number}.log"
                path.touch(exist_ok=False)
            except FileExistsError:
                continue
            return path
        raise AssertionError


def _number(path: Path) -> int:
    return int(path.stem)


def _places(path: Path) -> Iterator[tuple[int, int, int]]:
    """The version, start and end of each whole entry of a file; one that was cut off is none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = 0
        while start + START.size <= size:
            try:
                mark, _ = START.unpack(file.read(START.size))
                numbers, lengths = read_head(file)
            except EOFError:
                return
            end = file.tell() + sum(lengths)
            if mark != MARK or end > size:
                return
            yield numbers[0], start, end
            start = end
            file.seek(end)


def _entry(path: Path, start: int) -> Entry:
    with path.open("rb") as file:
        file.seek(start)
        _, sums = START.unpack(file.read(START.size))
        message = Message.mapped(file)
    if _sum(message) != sums:
        msg = f"{path}: the entry at byte {start} is damaged"
        raise StateError(msg)
    return Entry.of(message)


def _sum(message: Message) -> int:
    found = zlib.crc32(message.head)
    for body in message.bodies:
        found = zlib.crc32(body, found)
    return found
