"""Replaces parts of a checkpoint folder by restored ones. A start after a kill finds all old parts or all new ones.

The restored parts are first written to the folder `restoring/` of the checkpoint. Then the file `restoring/complete` is
created. Then the parts are moved into the checkpoint folder, one by one. A start that finds the file `complete` moves
the rest of the parts; a start that finds `restoring/` without it removes the folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sluice.checkpoint.checkpoint_identity import DEFINITION, FILE
from sluice.checkpoint.spark_logs import PARTS
from sluice.files import force

#: the folder in a checkpoint in which the restored parts are written, and the object in it that is written last
RESTORING, COMPLETE = "restoring", "complete"
#: the entry of the ledger with which a changed pipeline begins, until the ledger has it (state/upgrade/)
CHANGE = "change.json"
#: the parts of a checkpoint that are replaced, if they have been restored
REPLACED = ("buckets", *PARTS, DEFINITION, FILE, CHANGE)


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
