"""Opens the store of a checkpoint. A store for another kind of location is one more case of `store_at`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.object_store import ObjectStore
from sluice.model.spec import Pipeline


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
