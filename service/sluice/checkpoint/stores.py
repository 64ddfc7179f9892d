"""Opens the store of a checkpoint. A store for another kind of location is one more case of `store_at`."""

from __future__ import annotations

from pathlib import Path

from sluice.checkpoint.checkpoint_identity import folder_of
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.checkpoint.folder_store import FolderStore
from sluice.model.spec import Pipeline


def store_at(location: str) -> CheckpointStore:
    """The store at this location: the path of a folder."""
    return FolderStore(Path(location))


def store_of(pipeline: Pipeline) -> CheckpointStore:
    """The store of a pipeline's checkpoint. Raises CheckpointError if `checkpoint:` names no folder."""
    return store_at(str(folder_of(pipeline)))
