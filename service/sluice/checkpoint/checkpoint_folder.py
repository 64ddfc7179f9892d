"""The folder of a checkpoint: its store, its place, its restored parts, and its lock.

Store: a folder or an object store. A store for another kind of location is one more case of `store_at`.

Place: the stages of a pipeline have their checkpoints in

    one stage        the folder of the pipeline
    several stages   a folder for each, named after the stage, in the folder of the pipeline

A changed file may add a second stage, or leave only one. The stage with the name of the pipeline then keeps its folder.
The folder of a stage that was removed is not changed: if the file has the stage again, the stage continues from there.

Restored parts are first written to the folder `restoring/` of the checkpoint. Then the file `restoring/complete` is
created. Then the parts are moved into the checkpoint folder, one by one. A start that finds the file `complete` moves
the rest of the parts; a start that finds `restoring/` without it removes the folder. So a start after a kill finds all
old parts or all new ones.

Lock: a service locks a file in the folder (`flock`) until its process ends, so two services never work with one
checkpoint at the same time. The operating system releases the lock, however the process ends, so a later start never
finds a stale lock. The file stays in the folder. It names the process that has the lock; only messages use that.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sluice.checkpoint.checkpoint_identity import DEFINITION, FILE, LOCK, CheckpointError, folder_of, stored
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.object_store import ObjectStore
from sluice.checkpoint.offset_log import PARTS
from sluice.files import force
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.model.stages import stages

#: the file in the folder of a stage that is gone, and whose loss was accepted
RETIRED = "retired"
#: the folder in a checkpoint in which the restored parts are written, and the object in it that is written last
RESTORING, COMPLETE = "restoring", "complete"
#: the object that says that the files of a bucket could not be used; a restore replaces it with the buckets
UNREADABLE = "buckets/unreadable"
#: the entry of the ledger with which a changed pipeline begins, until the ledger has it (state/upgrade/)
CHANGE = "change.json"
#: the parts of a checkpoint that are replaced, if they have been restored
REPLACED = ("buckets", *PARTS, DEFINITION, FILE, CHANGE)
LOGGER = logging.getLogger("sluice")
#: error numbers of a file system without locks
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def store_at(location: str, options: Mapping[str, str] | None = None, *, forced: bool = False) -> CheckpointStore:
    """The store at this location: the path of a folder, or the URL of an object store with its options.

    With `forced`, what is put into a folder survives a loss of power.
    """
    if "://" in location:
        return ObjectStore(location.rstrip("/"), tuple(sorted((options or {}).items())))
    return FolderStore(Path(location), forced)


def store_of(pipeline: Pipeline) -> CheckpointStore:
    """The store of a pipeline's checkpoint. Raises CheckpointError if `checkpoint:` names no folder."""
    return store_at(str(folder_of(pipeline)), forced=pipeline.settings.survives_power_loss)


def snapshot_store_of(pipeline: Pipeline) -> CheckpointStore | None:
    """The store of `state:` for a pipeline or a stage, each of which has a prefix of its own; None without `state:`."""
    settings = pipeline.settings
    if settings.state is None:
        return None
    location = settings.state if "://" in settings.state else str(Path(settings.state).absolute())
    return store_at(f"{location.rstrip('/')}/{pipeline.name}", settings.state_options, forced=True)


def placed_stages(pipeline: Pipeline) -> tuple[Pipeline, ...]:
    """The stages of the pipeline (`model/stages.py`), each with the folder of its checkpoint."""
    folder = folder_of(pipeline)
    return tuple(_placed(stage, folder) if stage.name == pipeline.name else stage for stage in stages(pipeline))


def _placed(stage: Pipeline, folder: Path) -> Pipeline:
    """The stage with the name of the pipeline, whose folder is `folder`."""
    inside = folder / stage.name
    other = inside if folder_of(stage) == folder else folder
    if _has_checkpoint(folder_of(stage), stage.name) or not _has_checkpoint(other, stage.name):
        return stage
    return replace(stage, settings=replace(stage.settings, checkpoint=str(other)))


def _has_checkpoint(folder: Path, name: str) -> bool:
    """Whether the folder has a checkpoint of the stage with this name, which a killed start may have half replaced."""
    for part in (folder, folder / RESTORING):
        if (part / FILE).is_file():
            identity = stored(FolderStore(part))
            return identity is not None and identity.pipeline == name
    return False


def adopt(folder: Path) -> None:
    """Replaces the parts of the checkpoint in `folder` by restored ones that are complete. Removes incomplete ones."""
    new = folder / RESTORING
    if (new / COMPLETE).exists():
        for part in REPLACED:
            if (new / part).exists():
                _remove(folder / f".{part}.crc")  # Hadoop's checksums of the old file
                _remove(folder / part)
                (new / part).rename(folder / part)
        force(folder)  # the new parts must be on the disk before COMPLETE is removed
        (new / COMPLETE).unlink()
    if new.exists():
        shutil.rmtree(new)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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
