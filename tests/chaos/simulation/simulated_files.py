"""Files in memory, behind what the product uses of `pathlib`, `os`, `mmap` and `shutil`.

A file has the bytes that all processes see, and those that the disk has; a folder has both kinds of entries. A process
that is killed loses what its buffers have. A loss of power leaves what was forced (`fsync`), and a part of the rest,
which the seed chooses.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any, Self

from tests.chaos.simulation.scheduler import world

#: bytes of a buffer of a file that is written
BUFFER = 8192


class Inode:
    __slots__ = ("data", "durable", "durable_entries", "entries", "number")
    count = 0

    def __init__(self, *, folder: bool) -> None:
        Inode.count += 1
        self.number = Inode.count
        self.data, self.durable = bytearray(), b""
        self.entries: dict[str, Inode] | None = {} if folder else None
        self.durable_entries: dict[str, Inode] = {}

    @property
    def is_folder(self) -> bool:
        return self.entries is not None


class Disk:
    """A disk of a machine, or of several."""

    def __init__(self) -> None:
        self.root = Inode(folder=True)
        #: whether all writes fail; and the role of the process whose next write does
        self.full, self.failing = False, ""
        self.open_files: dict[int, Inode] = {}
        self._next = 1000

    def find(self, path: PurePosixPath) -> Inode | None:
        inode: Inode | None = self.root
        for part in path.parts[1:]:
            if inode is None or inode.entries is None:
                return None
            inode = inode.entries.get(part)
        return inode

    def need(self, path: PurePosixPath) -> Inode:
        inode = self.find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return inode

    def folder_of(self, path: PurePosixPath) -> dict[str, Inode]:
        entries = self.need(path.parent).entries
        if entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path.parent))
        return entries

    def descriptor(self, inode: Inode) -> int:
        self._next += 1
        self.open_files[self._next] = inode
        return self._next

    def require_room(self, *, last: bool = True) -> None:
        """`last`: whether this is the last part of a write. A single write that fails leaves the parts before it."""
        once = last and self.failing == world().running.process.role
        if self.full or once:
            self.failing = "" if once else self.failing
            raise OSError(errno.ENOSPC, "No space left on device")

    def copy(self, source: Inode, target: PurePosixPath) -> None:
        """Copies a folder with all that it has."""
        self.folder_of(target)[target.name] = _copied(source)

    def lose_power(self, seeded: Random) -> None:
        self._lose(self.root, seeded, top=True)

    def _lose(self, inode: Inode, seeded: Random, *, top: bool = False) -> None:
        if inode.entries is None:
            if inode.data != inode.durable:
                inode.data = bytearray(_left(bytes(inode.data), inode.durable, seeded))
            inode.durable = bytes(inode.data)
            return
        if not top:
            for name in [*inode.entries.keys() | inode.durable_entries.keys()]:
                now, then = inode.entries.get(name), inode.durable_entries.get(name)
                if now is not then and seeded.random() < 0.7:  # the disk does not have the change
                    if then is None:
                        del inode.entries[name]
                    else:
                        inode.entries[name] = then
        inode.durable_entries = dict(inode.entries)
        for name in sorted(inode.entries):
            self._lose(inode.entries[name], seeded)


def _copied(source: Inode) -> Inode:
    made = Inode(folder=source.is_folder)
    made.data[:], made.durable = source.data, bytes(source.data)
    if source.entries is not None and made.entries is not None:
        made.entries |= {name: _copied(inode) for name, inode in source.entries.items()}
        made.durable_entries = dict(made.entries)
    return made


def _left(data: bytes, durable: bytes, seeded: Random) -> bytes:
    """What a loss of power leaves of a file that was not forced."""
    if not data.startswith(durable):
        return durable
    kept = seeded.randint(len(durable), len(data))
    torn = seeded.random() < 0.3
    return data[:kept] + bytes(len(data) - kept) if torn else data[:kept]


def disk() -> Disk:
    found: Disk = world().disk  # type: ignore[attr-defined]
    return found


def tick(what: str, path: object) -> None:
    world().tick(f"{what} {path}")


class Path(PurePosixPath):
    """`pathlib.Path` on the disk of the world."""

    __slots__ = ()

    def __truediv__(self, other: str | PurePosixPath) -> Path:  # type: ignore[override]
        return _joined(str(self), str(other))

    def with_name(self, name: str) -> Path:  # type: ignore[override]
        return _joined(str(self.parent), name)

    def absolute(self) -> Self:
        return self if self.is_absolute() else type(self)("/", self)

    def exists(self) -> bool:
        return disk().find(self) is not None

    def is_dir(self) -> bool:
        inode = disk().find(self)
        return inode is not None and inode.is_folder

    def is_file(self) -> bool:
        inode = disk().find(self)
        return inode is not None and not inode.is_folder

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        if self.exists():
            if not exist_ok:
                raise FileExistsError(errno.EEXIST, "File exists", str(self))
            return
        if parents:
            self.parent.mkdir(parents=True, exist_ok=True)
        disk().require_room()
        disk().folder_of(self)[self.name] = Inode(folder=True)

    def touch(self, *, exist_ok: bool = True) -> None:
        self.open("ab" if exist_ok else "xb").close()

    def open(self, mode: str = "r", buffering: int = -1) -> File:
        if "r" in mode:
            tick("read", self)
            inode = disk().need(self)
        else:
            tick("open", self)
            inode = self._opened(mode)
        if inode.is_folder:
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(self))
        return File(self, inode, buffered=bool(buffering))

    def _opened(self, mode: str) -> Inode:
        entries, inode = disk().folder_of(self), disk().find(self)
        if inode is None:
            disk().require_room()
            inode = entries[self.name] = Inode(folder=False)
        elif "x" in mode:
            raise FileExistsError(errno.EEXIST, "File exists", str(self))
        elif "w" in mode:
            inode.data.clear()
        return inode

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def unlink(self, *, missing_ok: bool = False) -> None:
        tick("unlink", self)
        if missing_ok and not self.exists():
            return
        disk().need(self)
        del disk().folder_of(self)[self.name]

    def rename(self, target: PurePosixPath) -> None:
        tick(f"rename {self} to", target)
        inode = disk().need(self)
        disk().folder_of(target)[target.name] = inode
        del disk().folder_of(self)[self.name]

    replace = rename

    def hardlink_to(self, target: PurePosixPath) -> None:
        tick("link", self)
        if self.exists():
            raise FileExistsError(errno.EEXIST, "File exists", str(self))
        disk().folder_of(self)[self.name] = disk().need(target)

    def rmdir(self) -> None:
        if disk().need(self).entries:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(self))
        del disk().folder_of(self)[self.name]

    def iterdir(self) -> Iterator[Self]:
        return (self / name for name in sorted(disk().need(self).entries or ()))

    def glob(self, pattern: str) -> Iterator[Self]:
        inode = disk().find(self)
        names = sorted((inode.entries or ()) if inode else ())
        return (self / name for name in names if fnmatch.fnmatchcase(name, pattern.rstrip("/")))

    def stat(self) -> SimpleNamespace:
        inode = disk().need(self)
        return SimpleNamespace(st_ino=inode.number, st_size=len(inode.data), st_mtime_ns=0)


@lru_cache(2048)  # a path is parsed for each operation of a file otherwise
def _joined(path: str, other: str) -> Path:
    return Path(path, other)


class File:
    """An open file. What is written lies in its buffer until it is flushed."""

    def __init__(self, path: Path, inode: Inode, *, buffered: bool) -> None:
        self._path, self._inode, self._buffered = path, inode, buffered
        self._buffer = bytearray()
        self._at = 0
        self._number = disk().descriptor(inode)
        self._closed = False

    def fileno(self) -> int:
        return self._number

    def tell(self) -> int:
        return len(self._inode.data) + len(self._buffer) if self._buffer else self._at

    def seek(self, at: int) -> int:
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        end = len(self._inode.data) if size < 0 else self._at + size
        data = bytes(self._inode.data[self._at : end])
        self._at += len(data)
        return data

    def readinto(self, room: memoryview) -> int:
        data = self.read(len(room))
        room[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        before = len(self._buffer)
        self._buffer += data
        size = len(self._buffer) - before
        self._at += size
        if not self._buffered or before + size >= BUFFER:
            self.flush()
        return size

    def flush(self) -> None:
        """A write of several bytes is not one step: the process may be killed in the middle of it."""
        if not self._buffer:
            return
        cut = int(world().random.random() * (len(self._buffer) + 1))
        for part, last in ((self._buffer[:cut], False), (self._buffer[cut:], True)):
            if part:
                tick("write", f"{len(part)} bytes to {self._path}")
                disk().require_room(last=last)
                self._inode.data += part
        self._buffer = bytearray()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self.flush()
            finally:
                disk().open_files.pop(self._number, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _force(number: int) -> None:
    inode = disk().open_files[number]
    tick("force", number)
    if inode.entries is None:
        inode.durable = bytes(inode.data)
    else:
        inode.durable_entries = dict(inode.entries)


def _open(path: PurePosixPath, _flags: int) -> int:
    return disk().descriptor(disk().need(path))


def _close(number: int) -> None:
    disk().open_files.pop(number, None)


def _fstat(number: int) -> SimpleNamespace:
    return SimpleNamespace(st_size=len(disk().open_files[number].data))


class Entry:
    def __init__(self, path: Path) -> None:
        self.name, self.path, self._path = path.name, str(path), path

    def is_dir(self) -> bool:
        return self._path.is_dir()


class _Scan:
    def __init__(self, path: PurePosixPath) -> None:
        self._entries = [Entry(child) for child in Path(path).iterdir()]

    def __enter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __exit__(self, *_: object) -> None: ...


class _Os:
    """`os` with simulated files; the rest is the real one."""

    fsync = fdatasync = staticmethod(_force)
    open, close, fstat, scandir = staticmethod(_open), staticmethod(_close), staticmethod(_fstat), _Scan

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _rmtree(path: PurePosixPath, *, ignore_errors: bool = False) -> None:
    if not Path(path).exists():
        if ignore_errors:
            return
        disk().need(path)
    for child in list(Path(path).iterdir()):
        if child.is_dir():
            _rmtree(child)
        else:
            child.unlink()
    Path(path).rmdir()


OS = _Os()
SHUTIL = SimpleNamespace(rmtree=_rmtree)
MMAP = SimpleNamespace(ACCESS_READ=1, mmap=lambda number, _size, access: bytes(disk().open_files[number].data))  # noqa: ARG005
