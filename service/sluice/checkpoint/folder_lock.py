"""The lock of a checkpoint folder: it prevents two services from working with one checkpoint at the same time.

A service locks a file in the folder (`flock`) until its process ends. The operating system releases the lock, however
the process ends, so a later start never finds a stale lock. The file stays in the folder. It names the process that has
the lock; only messages use that.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sluice.checkpoint.checkpoint_identity import LOCK, CheckpointError
from sluice.model.errors import SluiceError

LOGGER = logging.getLogger("sluice")
#: error numbers of a file system without locks
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class OccupiedError(SluiceError):
    """Another process runs the pipeline on this checkpoint."""

    exit_code = 5


@contextmanager
def locked(folder: Path, pipeline: str) -> Iterator[None]:
    """Locks the checkpoint in `folder` during the block. Creates the folder if it does not exist.

    Raises OccupiedError at once if another process has the lock, and CheckpointError if the folder cannot be written.
    If the file system has no locks, logs a warning; only the fencing of Kafka's producers then protects the outputs.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("ab+")
    except OSError as error:
        message = f"checkpoint {folder}: cannot be written ({error})"
        raise CheckpointError(message) from error
    with file:
        _lock(file, folder, pipeline)
        yield


def _lock(file: BinaryIO, folder: Path, pipeline: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = (
            f"checkpoint {folder}: another instance of the pipeline {pipeline} runs with it ({_holder(file)}). "
            f"End that instance first; its process holds the lock of {LOCK} until it ends"
        )
        raise OccupiedError(message) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        LOGGER.warning(
            "checkpoint %s: its file system has no locks (%s), so a second instance is not detected when it starts",
            folder, error.strerror,
        )  # fmt: skip
        return
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat("T", "seconds")}
    with suppress(OSError):  # the disk may be full. A file object would try again when it is closed
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), json.dumps(holder).encode() + b"\n")


def _holder(file: BinaryIO) -> str:
    """A text that names the process that has the lock."""
    file.seek(0)
    try:
        fields = json.loads(file.read())
        return f"process {fields['pid']} on {fields['host']}, since {fields['since']}"
    except (ValueError, KeyError, TypeError):  # the other process is writing it at this moment
        return "its process is unknown"
