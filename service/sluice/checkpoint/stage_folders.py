"""Where the stages of a pipeline have their checkpoints.

    one stage        the folder of the pipeline
    several stages   a folder for each, named after the stage, in the folder of the pipeline

A changed file may add a second stage, or leave only one. The stage with the name of the pipeline then keeps its folder.
The folder of a stage that was removed is not changed: if the file has the stage again, the stage continues from there.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sluice.checkpoint.checkpoint_identity import FILE, folder_of, stored
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.replacement import RESTORING
from sluice.model.spec import Pipeline
from sluice.model.stages import stages

#: the file in the folder of a stage that is gone, and whose loss was accepted
RETIRED = "retired"


def placed_stages(pipeline: Pipeline) -> tuple[Pipeline, ...]:
    """The stages of the pipeline (`model/stages.py`), each with the folder of its checkpoint."""
    folder = folder_of(pipeline)
    return tuple(_placed(one, folder) if one.name == pipeline.name else one for one in stages(pipeline))


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
            found = stored(FolderStore(part))
            return found is not None and found.pipeline == name
    return False
