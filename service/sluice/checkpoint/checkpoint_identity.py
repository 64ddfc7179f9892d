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
from typing import Any

from sluice.model.errors import SluiceError
from sluice.model.fingerprint import fingerprint as digest
from sluice.model.fingerprint import plain
from sluice.model.spec import Pipeline

FILE = "sluice.json"
#: version of the checkpoint's format, which is raised with every change of it
FORMAT = 4
#: name of the file with the definition of the pipeline, from which a refusal says what has changed
DEFINITION = "pipeline.json"
#: a pipeline as JSON data
Definition = dict[str, Any]
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
    folder: Path, pipeline: str, fingerprint: str, buckets: int | None, default_buckets: int,
    *, definition: Definition | None = None,
) -> Identity:  # fmt: skip
    """The identity of the checkpoint in `folder`. Makes it if the folder does not exist or has at most a lock file.

    `buckets`, if not None, must be the number of buckets that an existing checkpoint has. A new checkpoint gets
    `buckets` or else `default_buckets`. Raises CheckpointError if the folder cannot be used for this pipeline. With
    `definition` (`definition_of`), which is kept in the folder, the message names what has changed.
    """
    file = folder / FILE
    if file.exists():
        found = known(folder, pipeline, fingerprint, definition)
        if buckets not in (None, found.buckets):
            raise CheckpointError(_refused(folder, f"it has {found.buckets} buckets, not {buckets}"))
    else:
        found = _made(file, Identity(pipeline, fingerprint, buckets or default_buckets, str(uuid.uuid4())))
    if definition is not None and not (folder / DEFINITION).exists():
        _keep(folder / DEFINITION, definition)
    return found


def _keep(file: Path, definition: Definition) -> None:
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(definition, indent=2) + "\n")
        part.replace(file)
    except OSError as error:
        message = f"checkpoint {file.parent}: cannot be written ({error})"
        raise CheckpointError(message) from error


def known(folder: Path, pipeline: str, fingerprint: str, definition: Definition | None = None) -> Identity:
    """The identity of the existing checkpoint in `folder`. Raises CheckpointError if it is not this pipeline's."""
    found = _read(folder / FILE)
    if found.pipeline != pipeline:
        raise CheckpointError(_refused(folder, f"it belongs to the pipeline {found.pipeline}"))
    if found.fingerprint != fingerprint:
        what = changes(_definition(folder), definition) if definition is not None else []
        named = f" ({', '.join(what)})" if what else ""
        raise CheckpointError(_refused(folder, f"the pipeline file has changed since it was made{named}"))
    return found


def folder_of(pipeline: Pipeline) -> Path:
    return Path(pipeline.checkpoint).absolute()


def definition_of(pipeline: Pipeline) -> Definition:
    """The part of the pipeline's definition of which `fingerprint_of` is a digest, as JSON data without secrets."""
    found: Definition = plain(replace(pipeline, settings=replace(pipeline.settings, buckets=None)))
    return found


def changes(before: Definition | None, now: Definition) -> list[str]:
    """What differs between two definitions, with the names of the fields: `operator average: outputs and window`."""
    if before is None:
        return []
    found = []
    for word, part in (("stream", "streams"), ("operator", "operators")):
        old, new = _by_name(before.get(part)), _by_name(now.get(part))
        found += [f"{word} {name} is gone" for name in old if name not in new]
        found += [f"{word} {name} is new" for name in new if name not in old]
        differing = {name: _differing(old[name], new[name]) for name in new if name in old}
        found += [f"{word} {name}: {' and '.join(fields)}" for name, fields in differing.items() if fields]
    rest = [key for key in _differing(before, now) if key not in ("streams", "operators", "settings")]
    return found + _differing(before.get("settings", {}), now.get("settings", {})) + rest


def _differing(before: Definition, now: Definition) -> list[str]:
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _by_name(part: Any) -> Definition:  # noqa: ANN401 - JSON
    return dict(part) if isinstance(part, dict) else {one["name"]: one for one in part or ()}


def _definition(folder: Path) -> Definition | None:
    """The definition for which the checkpoint was made; None if the folder has none, as an earlier version made it."""
    try:
        found: Definition = json.loads((folder / DEFINITION).read_text())
    except (OSError, ValueError):
        return None
    return found


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
        f"checkpoint {folder}: {why}. Start with the pipeline file that it was made for. Or start anew, with both "
        "--checkpoint ANOTHER_FOLDER and --reset-ledger: outputs of records that are read again are then written again."
    )
