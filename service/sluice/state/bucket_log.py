"""The log of a bucket: the rows of each batch as they came in, from which `feed` makes the state again.

Whoever appends has a file of his own, so a task that runs twice, or goes on after it was given up, cannot spoil what
another writes. Of two entries with one version the one in the newer file counts; they are equal in any case, as a batch
that runs again gets equal rows.

An entry begins with 40 bytes that have a checksum of their own, so that no length is believed before it was verified.
A process that is killed leaves a file that ends inside an entry: this entry does not exist, its batch was not answered.
Any other difference is damage. What stands behind a damaged place in a file cannot be found any more.
"""

from __future__ import annotations

import mmap
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

from sluice.batch.envelope import Body, Packed
from sluice.columns.tables import StateError
from sluice.state.integrity import LOGGER, DamagedError, Owner
from sluice.state.message import Message

#: of an entry: raised with every change of the format
MARK = 0x51CE0003
#: mark, version of the state that the entry leads to, bytes that follow, their checksum; behind it its own checksum
START, SUM = struct.Struct("<4Q"), struct.Struct("<Q")
HEAD = START.size + SUM.size
#: entries that have more bytes are mapped into memory, so that the bytes are read when they are used
MAX_READ = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a bucket. `version`: of the state that it leads to, which has had so many batches."""

    version: int
    rows: list[Packed]

    @property
    def message(self) -> Message:
        return Message(tuple(holds for holds, _ in self.rows), [body for _, body in self.rows])

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return HEAD + self.message.size

    @classmethod
    def of(cls, version: int, message: Message) -> Entry:
        return cls(version, list(zip(message.numbers, message.bodies, strict=True)))


class Place(NamedTuple):
    """Where an entry stands."""

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
    """The complete entries of a file, and the first damaged place, behind which others may stand."""

    places: list[Place] = field(default_factory=list)
    damage: DamagedError | None = None


class Log:
    """The log in `folder`; nothing is written, and no folder made, before the first `append`."""

    def __init__(self, folder: Path, owner: Owner = Owner()) -> None:  # noqa: B008 - it cannot be changed
        self._folder, self._seed = folder, owner.seed
        #: the one that this writer appends to
        self._own: Path | None = None

    def append(self, entry: Entry) -> None:
        path, self._own = self._own or self._fresh(), None
        message = entry.message
        start = START.pack(MARK, entry.version, message.size, self._sum(message.head, *message.bodies))
        with path.open("ab") as file:
            file.write(start + SUM.pack(self._sum(start)))
            message.write(file.write)
        self._own = path  # not if that failed: behind half an entry there must be no other

    def turn(self) -> None:
        """What is appended from now on goes to a new file."""
        self._own = None

    def entries(self, after: int, upto: int) -> Iterator[Entry]:
        """Those that lead from the state of one version to that of another.

        Raises StateError where one is missing, and DamagedError where that is due to a damaged file. Damage that
        hides no entry that is needed is logged.
        """
        if after >= upto:
            return
        scans = self._scans()
        places: dict[int, list[Place]] = defaultdict(list)
        for place in (place for scan in scans for place in scan.places):
            places[place.version].insert(0, place)
        damages = [scan.damage for scan in scans if scan.damage is not None]
        for version in range(after + 1, upto + 1):
            if version not in places:
                raise self._missing(version, damages)
        for damage in damages:
            LOGGER.warning("%s; no entry behind it is needed", damage)
        for version in range(after + 1, upto + 1):
            yield self._whole(places[version])

    def last(self) -> int:
        """The newest version; 0 while there is none. Of damage, behind which a newer one may stand, the log tells."""
        scans = self._scans()
        for damage in (scan.damage for scan in scans if scan.damage is not None):
            LOGGER.warning("%s; entries behind it are not seen", damage)
        return max((place.version for scan in scans for place in scan.places), default=0)

    def forget(self, upto: int) -> None:
        """Removes the files that hold no entry after this version. What a damaged file holds is not known."""
        for path in self._files():
            scan = self._scan(path) if path != self._own else None
            if scan is not None and scan.damage is None and all(place.version <= upto for place in scan.places):
                path.unlink(missing_ok=True)

    def _missing(self, version: int, damages: list[DamagedError]) -> StateError:
        message = f"there is no entry for version {version} of the state"
        if damages:
            return DamagedError(self._folder, f"{message}, and {'; '.join(map(str, damages))}")
        return StateError(f"{self._folder}: {message}")

    def _whole(self, places: list[Place]) -> Entry:
        """The first of these entries of one version that is not damaged."""
        *others, last = places
        for place in others:
            try:
                return self._entry(place)
            except DamagedError as error:
                LOGGER.warning("%s; another entry for version %d is used", error, place.version)
        return self._entry(last)

    def _entry(self, place: Place) -> Entry:
        try:
            data = _bytes_of(place)
        except FileNotFoundError:  # it was removed meanwhile, as no longer needed
            raise
        except OSError as error:  # the disk cannot read a sector
            raise DamagedError(place.path, f"the entry at byte {place.start} cannot be read ({error})") from error
        if self._sum(data) != place.checksum:
            raise DamagedError(place.path, f"the entry at byte {place.start} is damaged")
        return Entry.of(place.version, Message.within(data))

    def _scans(self) -> list[Scan]:
        """Of older files first."""
        return [self._scan(path) for path in self._files()]

    def _scan(self, path: Path) -> Scan:
        found, size, start = Scan(), path.stat().st_size, 0
        with path.open("rb") as file:
            while start + HEAD <= size:
                head = file.read(HEAD)
                mark, version, length, checksum = START.unpack(head[: START.size])
                if SUM.pack(self._sum(head[: START.size])) != head[START.size :] or mark != MARK:
                    found.damage = DamagedError(path, f"the entry at byte {start} is damaged, or another bucket's")
                    return found
                place = Place(path, start, version, length, checksum)
                if place.end > size:  # whoever wrote it was killed
                    return found
                found.places.append(place)
                start = place.end
                file.seek(start)
        return found

    def _sum(self, *parts: Body) -> int:
        if len(parts) == 1:
            return xxh3_64_intdigest(parts[0], self._seed)
        digest = xxh3_64(seed=self._seed)
        for part in parts:
            digest.update(part)
        return digest.intdigest()

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


def _bytes_of(place: Place) -> memoryview:
    """The bytes of an entry behind its head."""
    with place.path.open("rb") as file:
        if place.size > MAX_READ:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return memoryview(mapped)[place.start + HEAD : place.end]
        file.seek(place.start + HEAD)
        return memoryview(file.read(place.size))
