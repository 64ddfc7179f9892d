"""The checkpoint store in a folder of a file system that all processes of the service share.

An object is a file; the parts of its name are folders. `put` writes a file with another name and then renames it, which
POSIX file systems do atomically. With `forced`, a put ends when the disk has the file and its entry in the folder.
Otherwise an object may be missing or damaged after a loss of power, which the checksums of its reader detect.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from sluice.checkpoint.checkpoint_store import Write
from sluice.files import force_entry

#: the name of a file that a `put` writes: the name of its object, a number that no other file has, and this ending
PART = ".part"
PART_NAME = re.compile(r"(.+)\.[0-9a-f]+\.part")
#: error numbers of a file system without hard links, such as SMB
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class FolderStore:
    """The objects of a checkpoint as files of `folder`. The first `put` creates it. Contract: `CheckpointStore`."""

    folder: Path
    forced: bool = False

    def get(self, name: str) -> StoredFile:
        return StoredFile(self.folder / name)

    def put(self, name: str, write: Write) -> None:
        with self._written(name, write) as part:
            part.replace(self.folder / name)
            self._force_entry(name)

    def create(self, name: str, data: bytes) -> bool:
        try:
            with self._written(name, lambda file: file.write(data)) as part:
                self._link(part, self.folder / name, data)
                self._force_entry(name)
        except FileExistsError:
            return False
        return True

    def _link(self, part: Path, path: Path, data: bytes) -> None:
        """Gives a complete file its name. Raises FileExistsError if there is a file of this name."""
        try:
            path.hardlink_to(part)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with path.open("xb", buffering=0) as file:  # a kill between the two lines leaves an empty file
                try:
                    file.write(data)
                    os.fsync(file.fileno())
                except OSError:  # the disk may be full now, and an empty object would stay when it has room again
                    path.unlink()
                    raise

    @contextmanager
    def _written(self, name: str, write: Write) -> Iterator[Path]:
        """A complete file beside the one of this name, until the end of the block."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PART}")
        try:
            with part.open("xb") as file:
                write(file)
                if self.forced:
                    file.flush()
                    os.fsync(file.fileno())
            yield part
        finally:
            part.unlink(missing_ok=True)

    def _force_entry(self, name: str) -> None:
        if self.forced:
            force_entry(self.folder / name, self.folder.parent)

    def list(self, prefix: str = "", *, incomplete: bool = False) -> Iterator[str]:
        inside = prefix.rpartition("/")[0]
        for name in _files(self.folder / inside, f"{inside}/" if inside else ""):
            part = PART_NAME.fullmatch(name)
            if bool(part) == incomplete and name.startswith(prefix):
                yield part[1] if part else name

    def delete(self, name: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        for other in path.parent.glob(f"*{PART}"):
            part = PART_NAME.fullmatch(other.name)
            if part and part[1] == path.name:
                other.unlink(missing_ok=True)

    def location(self, name: str = "") -> str:
        return str(self.folder / name)


class StoredFile:
    """An object of a folder (contract: `StoredObject`)."""

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self._file: BinaryIO = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size

    def read_into(self, start: int, room: memoryview) -> int:
        self._file.seek(start)
        read = 0
        while read < len(room) and (count := self._file.readinto(room[read:])):  # type: ignore[attr-defined]
            read += count
        return read

    def content(self) -> memoryview:
        if not self.size:  # an empty file cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _files(folder: Path, before: str) -> Iterator[str]:
    """The names of the files in a folder and in its folders, each after `before`. None if the folder does not exist."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(Path(entry.path), f"{before}{entry.name}/")
            else:
                yield before + entry.name
