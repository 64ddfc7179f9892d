"""The log of a bucket: the input rows of each batch, from which the state can be computed again.

Each process that appends writes to a file of its own. Therefore a task that runs twice, or still runs after Spark gave
it up, cannot damage the entries of another process. If two entries have the same version, the one in the newer file is
used. The two are equal in any case, because a repeated batch gets equal rows.

An entry begins with a head of 40 bytes that has its own checksum, so a length is verified before it is used. If a
process is killed while it writes, its file ends inside an entry. Such an entry is ignored: its batch was never
answered. Every other difference is damage, and the entries after a damaged position of the same file cannot be found.

A file that ends inside an entry may also be one that another process writes now, so only the versions of its entries
decide whether it is removed. A file may vanish at any time, if another process removes it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

from sluice.batch.packed_rows import Body, Packed
from sluice.columns.saved_columns import StateError
from sluice.files import force_entry
from sluice.state.checksummed_blocks import LOGGER, DamagedError, Owner
from sluice.state.message import Message

#: the first number of every entry; increased with every change of the format
MARK = 0x51CE0003
#: the head of an entry: MARK, version of the state after the batch, bytes of the body, checksum of the body (START);
#: then the checksum of these 32 bytes (SUM)
START, SUM = struct.Struct("<4Q"), struct.Struct("<Q")
HEAD = START.size + SUM.size
#: entries with more bytes than this are mapped into memory, so the disk is read only when the bytes are used
MAX_READ = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """The rows of one batch. `version` is the version of the state after the batch: the number of batches so far."""

    version: int
    rows: list[Packed]

    @property
    def message(self) -> Message:
        return Message(tuple(kind for kind, _ in self.rows), [body for _, body in self.rows])

    @property
    def size(self) -> int:
        """The number of bytes of the entry in the log, with its head."""
        return HEAD + self.message.size

    @classmethod
    def of(cls, version: int, message: Message) -> Entry:
        return cls(version, list(zip(message.numbers, message.bodies, strict=True)))


class EntryPosition(NamedTuple):
    """The position of an entry: file, offset of its head, bytes of its body (`size`) and the checksum of the body."""

    path: Path
    start: int
    version: int
    size: int
    checksum: int

    @property
    def end(self) -> int:
        return self.start + HEAD + self.size


@dataclass(slots=True)
class Scan:
    """The complete entries of a file, and its first damaged position. Entries after that position are unknown.

    `begun` is the version of the entry inside which the file ends, 0 if there is none or its head is not complete.
    """

    positions: list[EntryPosition] = field(default_factory=list)
    damage: DamagedError | None = None
    begun: int = 0

    @property
    def newest(self) -> int:
        """The newest version of an entry in the file, complete or not; 0 if none is known."""
        return max([self.begun, *(position.version for position in self.positions)])


class Log:
    """The log in `folder`. The folder and the first file are created by the first `append`."""

    def __init__(self, folder: Path, owner: Owner = Owner(), *, forced: bool = False) -> None:  # noqa: B008 - immutable
        """With `forced`, an `append` ends when the disk has the entry."""
        self._folder, self._seed, self._forced = folder, owner.seed, forced
        #: the file that this process appends to; None: the next `append` creates a new file
        self._own: Path | None = None

    def append(self, entry: Entry) -> None:
        path, self._own = self._own or self._fresh(), None
        message = entry.message
        start = START.pack(MARK, entry.version, message.size, self._sum(message.head, *message.bodies))
        with path.open("ab") as file:
            file.write(start + SUM.pack(self._sum(start)))
            message.write(file.write)
            if self._forced:
                file.flush()
                os.fdatasync(file.fileno())
        self._own = path  # skipped if the write failed: no entry may follow an incomplete one in a file

    def turn(self) -> None:
        """Makes the next `append` create a new file."""
        self._own = None

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """The entries of the versions after `after` (exclusive) up to `upto` (inclusive), in order.

        Raises StateError if one is missing, and DamagedError if a damaged file may be the reason. Damage is only logged
        if all these entries are found elsewhere.
        """
        if after >= upto:
            return
        scans = self._scans()
        positions: dict[int, list[EntryPosition]] = defaultdict(list)
        for position in (position for scan in scans for position in scan.positions):
            positions[position.version].insert(0, position)
        damages = [scan.damage for scan in scans if scan.damage is not None]
        for version in range(after + 1, upto + 1):
            if version not in positions:
                raise self._missing(version, damages)
        for damage in damages:
            LOGGER.warning("%s; no later entry is needed", damage)
        for version in range(after + 1, upto + 1):
            yield self._whole(positions[version])

    def last(self) -> int:
        """The newest version in the log; 0 if the log is empty.

        A warning is logged for each damaged file, because a newer entry may follow the damaged position.
        """
        scans = self._scans()
        for damage in (scan.damage for scan in scans if scan.damage is not None):
            LOGGER.warning("%s; later entries are ignored", damage)
        return max((position.version for scan in scans for position in scan.positions), default=0)

    def delete_upto(self, upto: int) -> None:
        """Removes the files all of whose entries have versions up to `upto` (inclusive).

        Damaged files stay, because their entries are not all known. The file that this process appends to stays, too,
        and so does a file without an entry: another process may be about to write its first one.
        """
        for path in self._files():
            scan = self._scan(path) if path != self._own else None
            if scan is not None and scan.damage is None and 0 < scan.newest <= upto:
                path.unlink(missing_ok=True)

    def _missing(self, version: int, damages: list[DamagedError]) -> StateError:
        message = f"there is no entry for version {version} of the state"
        if damages:
            return DamagedError(str(self._folder), f"{message}, and {'; '.join(map(str, damages))}")
        return StateError(f"{self._folder}: {message}")

    def _whole(self, positions: list[EntryPosition]) -> Entry:
        """The first undamaged entry at these positions, which all have the same version.

        Raises DamagedError if all of them are damaged.
        """
        *others, last = positions
        for position in others:
            try:
                return self._entry(position)
            except DamagedError as error:
                LOGGER.warning("%s; another entry for version %d is used", error, position.version)
        return self._entry(last)

    def _entry(self, position: EntryPosition) -> Entry:
        try:
            data = _bytes_of(position)
        except FileNotFoundError:  # the file was removed meanwhile because no start needs it any more
            raise
        except OSError as error:  # the disk cannot read a sector
            raise DamagedError(
                str(position.path), f"the entry at byte {position.start} cannot be read ({error})"
            ) from error
        if self._sum(data) != position.checksum:
            raise DamagedError(str(position.path), f"the entry at byte {position.start} is damaged")
        return Entry.of(position.version, Message.within(data))

    def _scans(self) -> list[Scan]:
        """The scans of all files, older files first."""
        return [self._scan(path) for path in self._files()]

    def _scan(self, path: Path) -> Scan:
        try:
            file = path.open("rb")
        except FileNotFoundError:  # another process has removed it
            return Scan()
        scan, start = Scan(), 0
        with file:
            size = os.fstat(file.fileno()).st_size
            while start + HEAD <= size:
                head = file.read(HEAD)
                mark, version, length, checksum = START.unpack(head[: START.size])
                if SUM.pack(self._sum(head[: START.size])) != head[START.size :] or mark != MARK:
                    scan.damage = DamagedError(str(path), f"the entry at byte {start} is damaged, or another bucket's")
                    return scan
                position = EntryPosition(path, start, version, length, checksum)
                if position.end > size:  # the process that writes the entry goes on, or was killed
                    scan.begun = version
                    return scan
                scan.positions.append(position)
                start = position.end
                file.seek(start)
        return scan

    def _sum(self, *parts: Body) -> int:
        if len(parts) == 1:
            return xxh3_64_intdigest(parts[0], self._seed)
        digest = xxh3_64(seed=self._seed)
        for part in parts:
            digest.update(part)
        return digest.intdigest()

    def _files(self) -> list[Path]:
        """The files of the log, the oldest first."""
        return sorted(self._folder.glob("*.log"), key=_number)

    def _fresh(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in count(max(map(_number, self._files()), default=0) + 1):
            try:
                path = self._folder / f"{number}.log"
                path.touch(exist_ok=False)
            except FileExistsError:
                continue
            if self._forced:
                force_entry(path, self._folder.parent.parent.parent)
            return path
        raise AssertionError


def _number(path: Path) -> int:
    return int(path.stem)


def _bytes_of(position: EntryPosition) -> memoryview:
    """The body of an entry: its bytes after the head."""
    with position.path.open("rb") as file:
        if position.size > MAX_READ:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return memoryview(mapped)[position.start + HEAD : position.end]
        file.seek(position.start + HEAD)
        return memoryview(file.read(position.size))
