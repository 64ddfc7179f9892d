"""The identity of a checkpoint: a file in its folder that names the pipeline for which the checkpoint was made.

A start is refused if the pipeline has another name, or if its definition has changed since then.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sluice.model.errors import SluiceError
from sluice.model.fingerprint import fingerprint as digest
from sluice.model.spec import Pipeline

FILE = "sluice.json"
#: version of the checkpoint's format, which is raised with every change of it
FORMAT = 4
#: name of the file that a running service locks (folder_lock.py)
LOCK = "sluice.lock"


class CheckpointError(SluiceError):
    exit_code = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a checkpoint.

    pipeline      name of the pipeline
    fingerprint   digest of the pipeline's definition
    buckets       number of buckets
    query         random id of the checkpoint; the ledger has it, too
    format        version of the checkpoint's format
    """

    pipeline: str
    fingerprint: str
    buckets: int
    query: str
    format: int = FORMAT


def claim(folder: Path, pipeline: str, fingerprint: str, buckets: int | None, default_buckets: int) -> Identity:
    """The identity of the checkpoint in `folder`. Makes it if the folder does not exist or has at most a lock file.

    `buckets`, if not None, must be the number of buckets that an existing checkpoint has. A new checkpoint gets
    `buckets` or else `default_buckets`. Raises CheckpointError if the folder cannot be used for this pipeline.
    """
    file = folder / FILE
    if not file.exists():
        return _made(file, Identity(pipeline, fingerprint, buckets or default_buckets, str(uuid.uuid4())))
    found = known(folder, pipeline, fingerprint)
    if buckets not in (None, found.buckets):
        raise CheckpointError(_refused(folder, f"it has {found.buckets} buckets, not {buckets}"))
    return found


def known(folder: Path, pipeline: str, fingerprint: str) -> Identity:
    """The identity of the existing checkpoint in `folder`. Raises CheckpointError if it is not this pipeline's."""
    found = _read(folder / FILE)
    if found.pipeline != pipeline:
        raise CheckpointError(_refused(folder, f"it belongs to the pipeline {found.pipeline}"))
    if found.fingerprint != fingerprint:
        raise CheckpointError(_refused(folder, "the pipeline file has changed since it was made"))
    return found


def folder_of(pipeline: Pipeline) -> Path:
    return Path(pipeline.checkpoint).absolute()


def fingerprint_of(pipeline: Pipeline) -> str:
    """A digest of the pipeline's definition without the number of buckets, which the identity has itself."""
    return digest(replace(pipeline, settings=replace(pipeline.settings, buckets=None)))


def batches(folder: Path) -> tuple[int | None, int | None]:
    """The numbers of the last committed batch and of the last planned batch; None if there is none."""
    return last_batch(folder / "commits"), last_batch(folder / "offsets")


def last_batch(log: Path) -> int | None:
    """The number of the last batch in one of Spark's logs, None if the log is empty."""
    return max(batches_in(log), default=None)


def batches_in(log: Path) -> set[int]:
    """The numbers of the batches in one of Spark's logs. Spark removes old entries."""
    return {int(entry.name) for entry in log.glob("*") if entry.name.isdigit()}


def _made(file: Path, identity: Identity) -> Identity:
    folder = file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(entry.name != LOCK for entry in folder.iterdir()):
            raise CheckpointError(
                _refused(folder, f"there are files in it, but no {FILE}: it is not a checkpoint of Sluice")
            )
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(asdict(identity) | {"checksum": _checksum(identity)}, indent=2) + "\n")
        part.replace(file)
    except OSError as error:
        message = f"checkpoint {folder}: cannot be written ({error})"
        raise CheckpointError(message) from error
    return identity


def _read(file: Path) -> Identity:
    try:
        fields = json.loads(file.read_text())
        checksum = fields.pop("checksum", "")
        identity = Identity(**fields)
    except FileNotFoundError:
        message = f"checkpoint {file.parent}: it does not exist; the service creates it at its first start"
        raise CheckpointError(message) from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(_refused(file.parent, f"{FILE} cannot be read ({error})")) from error
    if identity.format != FORMAT:
        raise CheckpointError(_refused(file.parent, f"it has format {identity.format}, this version writes {FORMAT}"))
    if checksum != _checksum(identity):
        raise CheckpointError(_refused(file.parent, f"{FILE} is damaged, its checksum differs"))
    return identity


def _checksum(identity: Identity) -> str:
    """The checksum of all fields. It detects damage, such as a flipped bit that changes the number of buckets."""
    text = json.dumps(asdict(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refused(folder: Path, why: str) -> str:
    return (
        f"checkpoint {folder}: {why}. Start with the pipeline file that it was made for, or name another folder "
        "(--checkpoint) to start anew: the outputs of what is read again are then written again."
    )
