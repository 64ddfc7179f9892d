"""One service at a time works with a checkpoint: it locks a file in the folder for as long as its process lives.

The lock is the kernel's (`flock`): it ends with the process, however that ends, and leaves nothing that a later start
would have to judge. The file itself stays. What it says about the process that has the lock serves messages alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sluice.checkpoint.checkpoint_identity import LOCK, CheckpointError
from sluice.model.errors import SluiceError

LOGGER = logging.getLogger("sluice")
#: what a file system without locks answers
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class OccupiedError(SluiceError):
    """Another process runs the pipeline on this checkpoint."""

    exit_code = 5


@contextmanager
def locked(folder: Path, pipeline: str) -> Iterator[None]:
    """Inside, no other process can lock the checkpoint in `folder`, which is made if it is not there.

    Raises OccupiedError at once where another process has the lock. A file system without locks is logged; what
    protects the outputs there is the fencing of Kafka's producers.
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
            f"End that one first; its process has the lock of {LOCK} until it ends"
        )
        raise OccupiedError(message) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        LOGGER.warning(
            "checkpoint %s: its file system has no locks (%s): a second instance will not be noticed at its start",
            folder, error.strerror,
        )  # fmt: skip
        return
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat("T", "seconds")}
    file.truncate(0)
    file.write(json.dumps(holder).encode() + b"\n")
    file.flush()


def _holder(file: BinaryIO) -> str:
    """The process that has the lock, in words."""
    file.seek(0)
    try:
        fields = json.loads(file.read())
        return f"process {fields['pid']} on {fields['host']}, since {fields['since']}"
    except (ValueError, KeyError, TypeError):  # it is just being written
        return "its process is not known"
