"""The folder of a service's temporary files, and of those of the programs that it starts.

A service that is killed leaves it, so each start removes the folders of services that have ended. A folder belongs to a
service that runs if its file LOCK is locked: the kernel releases the lock however the process ends, and forked
processes do not inherit it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from sluice.processes import environment_variable

PREFIX, LOCK = "sluice-run-", "lock"
#: the longest path of the folder: a longer one leaves no room for the names of Unix sockets in it
MAX_PATH = 60


@contextmanager
def own_folder() -> Iterator[None]:
    """Inside the context, all temporary files of this process and of its children are in a folder, which is removed at
    its end. First removes the folders of earlier services of this user that were killed.

    Has no effect if the path would be too long, or if no folder can be made.
    """
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    try:
        folder, lock = _locked_folder(parent)
    except OSError:
        yield
        return
    with lock:
        try:
            with _temporary(folder) if len(str(folder)) <= MAX_PATH else nullcontext():
                yield
        finally:
            with suppress(OSError):
                _remove(folder)


@contextmanager
def _temporary(folder: Path) -> Iterator[None]:
    """Inside the context `folder` is that of Python's temporary files, also of processes that start in it."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        with environment_variable("TMPDIR", str(folder)):
            yield
    finally:
        tempfile.tempdir = before


def _locked_folder(parent: Path) -> tuple[Path, BinaryIO]:
    """A new folder, and its locked file, which gets its name when it is locked."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    part = folder / f".{LOCK}"
    lock = part.open("wb")
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    part.rename(folder / LOCK)
    return folder, lock


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is of another user, it is just being removed, or its service runs
            if folder.stat().st_uid == os.getuid():
                with (folder / LOCK).open("r+b") as lock:
                    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(folder)


def _remove(folder: Path) -> None:
    """Removes the folder. If a process still writes into it, its lock file stays, for a later start."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK:
            path.unlink(missing_ok=True)
    if [path.name for path in folder.iterdir()] == [LOCK]:
        (folder / LOCK).unlink()
        folder.rmdir()
