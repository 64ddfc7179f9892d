"""A loss of power that is as bad as POSIX allows: the disk keeps only what was forced to it.

The processes of a service write each call of `fsync` to a journal (pausing/sitecustomize.py). After they were killed,
`lose_power` removes the entries of folders that no forced listing of the folder has, and cuts files to the size that
was forced.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


def recording(force: Callable[[int], None], journal: Path) -> Callable[[int], None]:
    """`os.fsync` or `os.fdatasync`, and notes what the disk has after the call, by inode."""

    def run(descriptor: int) -> None:
        force(descriptor)
        about = os.fstat(descriptor)
        line: dict[str, object] = {"file": about.st_ino, "size": about.st_size}
        if stat.S_ISDIR(about.st_mode):
            with os.scandir(descriptor) as entries:
                line = {"folder": about.st_ino, "entries": {entry.name: entry.inode() for entry in entries}}
        with journal.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    return run


@dataclass(slots=True)
class Forced:
    """By inode: the sizes of files and the entries of folders that the disk has."""

    sizes: dict[int, int] = field(default_factory=dict)
    entries: dict[int, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, journal: Path) -> Forced:
        found = cls()
        for line in journal.read_text().splitlines():
            one = json.loads(line)
            if "file" in one:
                found.sizes[one["file"]] = one["size"]
            else:
                found.entries[one["folder"]] = one["entries"]
        return found


def lose_power(folder: Path, journal: Path) -> list[Path]:
    """Changes the files in `folder` to what the disk has for sure. Returns the files and folders that were lost."""
    return list(_lose(folder, Forced.of(journal)))


def _lose(folder: Path, forced: Forced) -> Iterator[Path]:
    kept = forced.entries.get(folder.stat().st_ino, {})
    for path in list(folder.iterdir()):
        inode = path.stat().st_ino
        if kept.get(path.name) != inode:
            yield path
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        elif path.is_dir():
            yield from _lose(path, forced)
        elif path.stat().st_size > forced.sizes.get(inode, 0):
            yield path
            os.truncate(path, forced.sizes.get(inode, 0))
