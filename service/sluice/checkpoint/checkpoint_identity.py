"""The identity of a checkpoint: an object in it that names the pipeline for which the checkpoint was made.

A start is refused if the pipeline has another name, or if its definition has changed since then.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes, put_bytes
from sluice.model.errors import SluiceError
from sluice.model.fingerprint import digest_of, plain
from sluice.model.spec import Pipeline

#: name of the object with the identity
FILE = "sluice.json"
#: version of the checkpoint's format, which is raised with every change of it
FORMAT = 4
#: name of the file with the definition of the pipeline, from which a refusal says what has changed
DEFINITION = "pipeline.json"
#: a pipeline as JSON data
Definition = dict[str, Any]
#: name of the file that a running service locks (checkpoint_folder.py)
LOCK = "sluice.lock"


#: what to do about a checkpoint that cannot be used: to start the service, and for a command that only reads
TO_START = (
    "Start with the pipeline file that it was made for. Or start anew, with both --checkpoint ANOTHER_FOLDER and "
    "--reset-ledger: outputs of records that are read again are then written again."
)
#: what to do if only the identity is damaged: a restore makes it again (docs/checkpoint.md)
TO_RESTORE = (
    "Remove the folder, or start with --checkpoint ANOTHER_FOLDER: the start then restores the checkpoint from the "
    "ledger and the input topics."
)
TO_READ = "Give the pipeline file that it was made for."


class CheckpointError(SluiceError):
    exit_code = 4


class UnreadableStateError(CheckpointError):
    """The files of a bucket do not lead to the state that a batch needs. The next start restores the checkpoint."""

    exit_code = 6


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
    store: CheckpointStore, pipeline: str, fingerprint: str, buckets: int | None, default_buckets: int,
    *, definition: Definition | None = None, lost: Identity | None = None,
) -> Identity:  # fmt: skip
    """The identity of the checkpoint in `store`. Makes it if the store is empty or has at most a lock file.

    `lost`: the identity of the checkpoint that the ledger names, if that checkpoint was lost. The one in `store`, of
    which no batch was ever written, gets this identity.

    A new checkpoint gets `buckets` or else `default_buckets`; an existing one keeps its number. Raises
    CheckpointError if the checkpoint cannot be used for this pipeline. With `definition` (`definition_of`), which is
    kept in the store, the message names what has changed.
    """
    present = stored(store)
    identity = lost or present
    if identity is None:
        identity = _made(store, Identity(pipeline, fingerprint, buckets or default_buckets, str(uuid.uuid4())))
    else:
        _require_owner(store, identity, pipeline, fingerprint, definition)
        if present is None:
            _made(store, identity)
        elif identity != present:
            write(store, identity)
    if definition is not None and (definition_in(store) is None or identity is lost):
        _put(store, DEFINITION, definition)
    return identity


def write(store: CheckpointStore, identity: Identity) -> None:
    """Writes the identity into a store, in place of the one that it may have."""
    _put(store, FILE, asdict(identity) | {"checksum": _checksum(identity)})


def write_definition(store: CheckpointStore, definition: Definition) -> None:
    """Writes the definition of the pipeline into a store, in place of the one that it may have."""
    _put(store, DEFINITION, definition)


def known(
    store: CheckpointStore, pipeline: str, fingerprint: str, definition: Definition | None = None,
    *, advice: str = TO_START,
) -> Identity:  # fmt: skip
    """The identity of the existing checkpoint in `store`.

    Raises CheckpointError, which ends with `advice`, if it is not this pipeline's.
    """
    identity = stored(store)
    if identity is None:
        message = f"checkpoint {store.location()}: it does not exist; the service creates it at its first start"
        raise CheckpointError(message)
    _require_owner(store, identity, pipeline, fingerprint, definition, advice=advice)
    return identity


def read_identity(store: CheckpointStore, pipeline: Pipeline) -> Identity:
    """The identity of the checkpoint in `store`, for a command that only reads it. Raises as `known` does."""
    return known(store, pipeline.name, fingerprint_of(pipeline), definition_of(pipeline), advice=TO_READ)


def folder_of(pipeline: Pipeline) -> Path:
    """The folder of the checkpoint. Raises CheckpointError if `checkpoint:` names a URL instead of a folder."""
    if "://" in pipeline.checkpoint:
        message = f"checkpoint {pipeline.checkpoint}: URLs are not supported, name a folder that all processes share"
        raise CheckpointError(message)
    return Path(pipeline.checkpoint).absolute()


def definition_of(pipeline: Pipeline) -> Definition:
    """The part of the pipeline's definition of which `fingerprint_of` is a digest, as JSON data without secrets."""
    definition: Definition = plain(replace(pipeline, settings=replace(pipeline.settings, buckets=None)))
    return definition


def changes(before: Definition | None, now: Definition) -> list[str]:
    """What differs between two definitions, with the names of the fields: `operator average: outputs and window`."""
    if before is None:
        return []
    differences = []
    for word, part in (("stream", "streams"), ("operator", "operators")):
        old, new = _by_name(before.get(part)), _by_name(now.get(part))
        differences += [f"{word} {name} is gone" for name in old if name not in new]
        differences += [f"{word} {name} is new" for name in new if name not in old]
        differing = {name: _differing(old[name], new[name]) for name in new if name in old}
        differences += [f"{word} {name}: {' and '.join(fields)}" for name, fields in differing.items() if fields]
    rest = [key for key in _differing(before, now) if key not in ("streams", "operators", "settings")]
    return differences + _differing(before.get("settings", {}), now.get("settings", {})) + rest


def _differing(before: Definition, now: Definition) -> list[str]:
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _by_name(part: Any) -> Definition:  # noqa: ANN401 - JSON
    return dict(part) if isinstance(part, dict) else {entry["name"]: entry for entry in part or ()}


def definition_in(store: CheckpointStore) -> Definition | None:
    """The definition of the pipeline for which the checkpoint was made.

    None if the store has no definition, because an earlier version of the service made the checkpoint; or one that does
    not fit the identity, because a process was killed between the writes of the two.
    """
    identity = stored(store)
    try:
        definition: Definition = json.loads(get_bytes(store, DEFINITION))
    except (OSError, ValueError):
        return None
    return definition if identity is not None and digest_of(definition) == identity.fingerprint else None


def in_stored_order(pipeline: Pipeline, store: CheckpointStore) -> Pipeline:
    """The pipeline with its streams in the order of the checkpoint, followed by the streams that the checkpoint lacks.

    States and logs refer to a stream by its number. The order in the file is no part of the fingerprint, so it may
    change while the checkpoint is in use.
    """
    stored_names = list((definition_in(store) or {}).get("streams", ()))
    names = sorted(
        pipeline.streams, key=lambda name: stored_names.index(name) if name in stored_names else len(stored_names)
    )
    return replace(pipeline, streams={name: pipeline.streams[name] for name in names})


def fingerprint_of(pipeline: Pipeline) -> str:
    """A digest of the pipeline's definition. The number of buckets is left out: it is a field of the identity."""
    return digest_of(definition_of(pipeline))


def _require_owner(
    store: CheckpointStore, identity: Identity, pipeline: str, fingerprint: str, definition: Definition | None,
    *, advice: str = TO_START,
) -> None:  # fmt: skip
    """Raises CheckpointError if the identity belongs to another pipeline, or to another definition of this one."""
    if identity.pipeline != pipeline:
        raise CheckpointError(_refused(store, f"it belongs to the pipeline {identity.pipeline}", advice))
    if identity.fingerprint != fingerprint:
        differences = changes(definition_in(store), definition) if definition is not None else []
        named = f" ({', '.join(differences)})" if differences else ""
        raise CheckpointError(_refused(store, f"the pipeline file has changed since it was made{named}", advice))


def _made(store: CheckpointStore, identity: Identity) -> Identity:
    try:
        foreign = any(name != LOCK for name in store.list())
    except OSError as error:
        raise _unwritable(store, error) from error
    if foreign:
        raise CheckpointError(
            _refused(store, f"there are files in it, but no {FILE}: it is not a checkpoint of Sluice")
        )
    write(store, identity)
    return identity


def _put(store: CheckpointStore, name: str, data: Definition) -> None:
    try:
        put_bytes(store, name, (json.dumps(data, indent=2) + "\n").encode())
    except OSError as error:
        raise _unwritable(store, error) from error


def _unwritable(store: CheckpointStore, error: OSError) -> CheckpointError:
    return CheckpointError(f"checkpoint {store.location()}: cannot be written ({error})")


def stored(store: CheckpointStore) -> Identity | None:
    """The identity in the store; None if there is none. Raises CheckpointError if it is damaged, or of another
    format.
    """
    try:
        fields = json.loads(get_bytes(store, FILE))
        checksum = fields.pop("checksum", "")
        identity = Identity(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(_refused(store, f"{FILE} cannot be read ({error})", TO_RESTORE)) from error
    if checksum != _checksum(identity) and (checksum or identity.format == FORMAT):
        raise CheckpointError(_refused(store, f"{FILE} is damaged, its checksum differs", TO_RESTORE))
    if identity.format != FORMAT:
        raise CheckpointError(_refused(store, f"it has format {identity.format}, this version writes {FORMAT}"))
    return identity


def _checksum(identity: Identity) -> str:
    """The checksum of all fields. It detects damage, such as a flipped bit that changes the number of buckets."""
    text = json.dumps(asdict(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refused(store: CheckpointStore, why: str, advice: str = TO_START) -> str:
    return f"checkpoint {store.location()}: {why}. {advice}"
