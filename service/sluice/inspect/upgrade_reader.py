"""Reads from the checkpoints of a pipeline what a changed pipeline file keeps of their state."""

from __future__ import annotations

from sluice.checkpoint.checkpoint_identity import CheckpointError, folder_of
from sluice.model.changes.operator_changes import Changes
from sluice.model.spec import Pipeline
from sluice.state.upgrade.file_changes import file_changes


def read_changes(pipeline: Pipeline) -> Changes:
    """What becomes of the state of each operator. Raises CheckpointError if there is no checkpoint to compare with."""
    changes = file_changes(pipeline)
    if changes is None:
        message = f"checkpoint {folder_of(pipeline)}: it does not exist; the service creates it at its first start"
        raise CheckpointError(message)
    return changes
