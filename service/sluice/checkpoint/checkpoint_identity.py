"""The identity of a checkpoint: an object in it that names the pipeline for which the checkpoint was made.

A start is refused if the pipeline has another name, or if its definition has changed since then.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes, put_bytes
from sluice.model.errors import SluiceError
from sluice.model.fingerprint import fingerprint as digest
from sluice.model.spec import Pipeline

#: name of the object with the identity
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


def claim(
    store: CheckpointStore, pipeline: str, fingerprint: str, buckets: int | None, default_buckets: int
) -> Identity:
    """The identity of the checkpoint in `store`. Makes it if the store is empty or has at most a lock file.

    `buckets`, if not None, must be the number of buckets that an existing checkpoint has. A new checkpoint gets
    `buckets` or else `default_buckets`. Raises CheckpointError if the checkpoint cannot be used for this pipeline.
    """
    found = _read(store)
    if found is None:
        return _made(store, Identity(pipeline, fingerprint, buckets or default_buckets, str(uuid.uuid4())))
    _require_owner(store, found, pipeline, fingerprint)
    if buckets not in (None, found.buckets):
        raise CheckpointError(_refused(store, f"it has {found.buckets} buckets, not {buckets}"))
    return found


def known(store: CheckpointStore, pipeline: str, fingerprint: str) -> Identity:
    """The identity of the existing checkpoint in `store`. Raises CheckpointError if it is not this pipeline's."""
    found = _read(store)
    if found is None:
        message = f"checkpoint {store.location()}: it does not exist; the service creates it at its first start"
        raise CheckpointError(message)
    _require_owner(store, found, pipeline, fingerprint)
    return found


def folder_of(pipeline: Pipeline) -> Path:
    """The folder of the checkpoint. Raises CheckpointError if `checkpoint:` names a URL instead of a folder."""
    if "://" in pipeline.checkpoint:
        message = f"checkpoint {pipeline.checkpoint}: URLs are not supported, name a folder that all processes share"
        raise CheckpointError(message)
    return Path(pipeline.checkpoint).absolute()


def fingerprint_of(pipeline: Pipeline) -> str:
    """A digest of the pipeline's definition without the number of buckets, which the identity has itself."""
    return digest(replace(pipeline, settings=replace(pipeline.settings, buckets=None)))


def _require_owner(store: CheckpointStore, found: Identity, pipeline: str, fingerprint: str) -> None:
    """Raises CheckpointError if the identity is that of another pipeline, or of another definition of this one."""
    if found.pipeline != pipeline:
        raise CheckpointError(_refused(store, f"it belongs to the pipeline {found.pipeline}"))
    if found.fingerprint != fingerprint:
        raise CheckpointError(_refused(store, "the pipeline file has changed since it was made"))


def _made(store: CheckpointStore, identity: Identity) -> Identity:
    try:
        if any(name != LOCK for name in store.list()):
            raise CheckpointError(
                _refused(store, f"there are files in it, but no {FILE}: it is not a checkpoint of Sluice")
            )
        text = json.dumps(asdict(identity) | {"checksum": _checksum(identity)}, indent=2) + "\n"
        put_bytes(store, FILE, text.encode())
    except OSError as error:
        message = f"checkpoint {store.location()}: cannot be written ({error})"
        raise CheckpointError(message) from error
    return identity


def _read(store: CheckpointStore) -> Identity | None:
    """The identity, None if there is none. Raises CheckpointError if it is damaged or of another format."""
    try:
        fields = json.loads(get_bytes(store, FILE))
        checksum = fields.pop("checksum", "")
        identity = Identity(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(_refused(store, f"{FILE} cannot be read ({error})")) from error
    if identity.format != FORMAT:
        raise CheckpointError(_refused(store, f"it has format {identity.format}, this version writes {FORMAT}"))
    if checksum != _checksum(identity):
        raise CheckpointError(_refused(store, f"{FILE} is damaged, its checksum differs"))
    return identity


def _checksum(identity: Identity) -> str:
    """The checksum of all fields. It detects damage, such as a flipped bit that changes the number of buckets."""
    text = json.dumps(asdict(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refused(store: CheckpointStore, why: str) -> str:
    return (
        f"checkpoint {store.location()}: {why}. Start with the pipeline file that it was made for, or name another "
        "folder (--checkpoint) to start anew: the outputs of what is read again are then written again."
    )
