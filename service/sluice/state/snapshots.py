"""Whole states of a bucket as files: each is complete before it has its name, and equal whoever wrote it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

ENDING = ".state"
Write = Callable[[pa.NativeFile], None]


class Snapshots:
    """Those in `folder`, named by the version of the state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, version: int, write: Write) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{version}.{os.getpid()}.part"
        try:
            with pa.OSFile(str(part), "wb") as file:
                write(file)
            part.replace(self._path(version))
        finally:
            part.unlink(missing_ok=True)

    def newest(self, upto: int) -> int:
        """The newest version that is not after `upto`; 0 where there is none."""
        return max((version for version in self._versions() if version <= upto), default=0)

    def read(self, version: int) -> memoryview:
        """The bytes of a snapshot, read from the file as they are looked at."""
        return memoryview(pa.memory_map(str(self._path(version))).read_buffer())

    def forget(self, before: int) -> None:
        """Removes those of versions before this one, and what nobody finished."""
        for version in self._versions():
            if version < before:
                self._path(version).unlink(missing_ok=True)
        for part in self._folder.glob("*.part"):
            if int(part.name.partition(".")[0]) < before:
                part.unlink(missing_ok=True)

    def _versions(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob(f"*{ENDING}")]

    def _path(self, version: int) -> Path:
        return self._folder / f"{version}{ENDING}"
