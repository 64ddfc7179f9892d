"""Snapshots: the whole state of a bucket in one file for each version.

A file gets its final name only when it is complete. Two processes that write the same version write equal files, so
either may replace the other's. A checksum covers every byte (checksummed_blocks.py), and the head of the file names the
pipeline, the query, the bucket and the version.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sluice.state import checksummed_blocks
from sluice.state.integrity import LOGGER, DamagedError, Owner

ENDING = ".state"
#: ending of the second copy of a snapshot, where one was written
COPY = ".copy"
Write = Callable[[pa.NativeFile], None]


class Snapshots:
    """The snapshots in `folder`. A file name is the version of the state, with an ending."""

    def __init__(self, folder: Path, owner: Owner = Owner()) -> None:  # noqa: B008 - an Owner is immutable
        self._folder, self._owner = folder, owner

    def write(self, version: int, write: Write, *, twice: bool = False) -> None:
        """Writes a snapshot. With `twice` it writes two equal files, so that one of them may be damaged later."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._paths(version)[: 1 + twice]:
            self._write(version, path, write)

    def newest(self, upto: int) -> int:
        """The newest version up to `upto` (inclusive); 0 if there is none."""
        return next(iter(self.versions(upto)), 0)

    def versions(self, upto: int) -> list[int]:
        """The versions up to `upto` (inclusive), the newest first."""
        names = (path.stem for ending in (ENDING, COPY) for path in self._folder.glob(f"*{ending}"))
        return sorted({version for name in names if (version := int(name)) <= upto}, reverse=True)

    def read(self, version: int) -> memoryview:
        """The state as a memory map of the file. Raises DamagedError if no copy is undamaged."""
        path, copy = self._paths(version)
        if not copy.exists():
            return self._read(version, path)
        try:
            return self._read(version, path)
        except (DamagedError, FileNotFoundError) as error:
            found = self._read(version, copy)
            LOGGER.warning("%s; its second copy %s is used", error, copy.name)
            return found

    def forget(self, before: int) -> None:
        """Removes the snapshots of versions before `before` (exclusive), and their incomplete files."""
        for version in self.versions(before - 1):
            for path in self._paths(version):
                path.unlink(missing_ok=True)
        for part in self._folder.glob("*.part"):
            if int(part.name.partition(".")[0]) < before:
                part.unlink(missing_ok=True)

    def _write(self, version: int, path: Path, write: Write) -> None:
        part = self._folder / f"{version}.{os.getpid()}.part"
        try:
            with part.open("wb") as file:
                writer = checksummed_blocks.BlockWriter(file, self._description(version))
                with pa.PythonFile(writer, "w") as sink:
                    write(sink)
                writer.finish()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _read(self, version: int, path: Path) -> memoryview:
        return checksummed_blocks.read(path, self._description(version))

    def _description(self, version: int) -> checksummed_blocks.Description:
        owner = self._owner
        return {"pipeline": owner.pipeline, "query": owner.query, "bucket": owner.bucket, "version": version}

    def _paths(self, version: int) -> tuple[Path, Path]:
        return self._folder / f"{version}{ENDING}", self._folder / f"{version}{COPY}"
