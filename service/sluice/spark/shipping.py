"""How the workers of a cluster come by Python, the package and the jars.

Installed at the same path as here, all of them; or in an archive that Spark sends along (`spark.archives`) and unpacks
in the folder in which a worker starts, while the jars go as Spark's own do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.model.errors import SluiceError


def python(archives: str) -> str:
    """The interpreter of the workers, and of those that Spark starts here. `archives` is Spark's property.

    Raises SluiceError where the archive's is not found from this folder, as the workers will find it from theirs.
    """
    name = _unpacked(archives)
    if not name:
        return sys.executable
    inside = Path(name, "bin", "python")
    if not inside.exists():
        msg = f"spark.archives: expected {inside} in {Path.cwd()}: start where {name} is the unpacked archive"
        raise SluiceError(msg)
    return str(inside)


def classes(archives: str, jars: Sequence[str]) -> dict[str, str]:
    """The properties that give the workers the jars: of the installed package, or sent along."""
    if _unpacked(archives):
        return {"spark.jars": ",".join(jars)}
    return {"spark.executor.extraClassPath": os.pathsep.join(jars)}


def _unpacked(archives: str) -> str:
    """The folder of the first archive; without one, or without a name for it, nothing."""
    return archives.split(",", maxsplit=1)[0].partition("#")[2]
