"""Starts the service: first Java, which needs none of its modules, and beside it all that has to be imported.

The service has a folder for its temporary files and for the temporary files of the programs that it starts. A service
that is killed leaves it, so each start removes the folders of services that have ended. A folder belongs to a service
that runs if its file LOCK is locked: the kernel releases the lock however the process ends, and forked processes do not
inherit it.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sluice.model.errors import SluiceError
from sluice.processes import environment_variable, signals_end_at_once
from sluice.running.service_options import Options, Restart
from sluice.spark.pipeline.early_processes import early_processes

#: the open files that the service and the process of Java need at least, each; Java opens all jars of Spark
FEWEST_FILES = 512
#: the limit of open files with which no service of many pipelines has too few
MOST_FILES = 65536

if TYPE_CHECKING:
    from sluice.running.pipeline_folder import Found

    #: the pipelines at the start, and what gives those of a watched folder again
    Wished = tuple[Found, Callable[[], Found | None] | None]


PREFIX, LOCK = "sluice-run-", "lock"
#: the longest path of the folder: a longer one leaves no room for the names of Unix sockets in it
MAX_PATH = 60


def start(load: Callable[[], Wished], options: Options, *, single: bool) -> None:
    """Runs the service of the pipelines that `load` gives until it ends. An error of `load` ends the start.

    `single`: whether it is the service of one pipeline file.
    """
    require_open_files()
    with signals_end_at_once(), own_folder(), early_processes(options.master, load) as ((wished, scan), early):
        from sluice.arrow_without_pandas import keep_pandas_out  # noqa: PLC0415

        keep_pandas_out()
        from sluice.running.service import serve, serve_several  # noqa: PLC0415 - it takes 2 s, beside the start of Java

        only = next(iter(wished.wanted.values())) if single else None
        if only and not options.standby and options.restart_of(only.pipeline) is Restart.NEVER:
            serve(only.pipeline, only.file, options, early)
        else:
            serve_several(wished, scan, options, early, only=only if options.standby else None)


class LimitError(SluiceError):
    exit_code = 3


def require_open_files() -> None:
    """Sets the limit of open files to MOST_FILES, or as near to it as allowed. Raises LimitError if Java needs more."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    file_limit = MOST_FILES if hard < 0 else min(hard, MOST_FILES)  # -1: no limit
    if 0 <= limit < file_limit:
        with suppress(OSError, ValueError):  # macOS may refuse what it says is allowed
            resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit, hard))
            limit = file_limit
    if 0 <= limit < FEWEST_FILES:
        message = (
            f"a process may have only {limit} open files (ulimit -n): expected at least {FEWEST_FILES}, as Java opens "
            "all jars of Spark, and each client of Kafka its connections. Raise the limit in the shell or in the unit "
            "that starts the service (LimitNOFILE of systemd)"
        )
        raise LimitError(message)


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
    """Inside the context `folder` is the folder of Python's temporary files, also of processes that start in it."""
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
