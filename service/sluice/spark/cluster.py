"""One machine or a cluster: what the master URL of Spark names, and how the workers of a cluster get Python and the
jars.

There are two cases. Either Python, the package and the jars are installed on the workers at the same paths as on this
machine. Or Python and the package are in an archive (`spark.archives`), which Spark sends to the workers and unpacks in
the folder where a worker starts; Spark then sends the jars, too (`spark.jars`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.model.errors import SluiceError

#: maximum number of attempts of a task before the batch fails, Spark's default on clusters: a worker may be killed
ATTEMPTS = 4

#: Spark properties of a cluster
PROPERTIES = {
    # Java of an executor starts tasks and passes packed rows on; its code runs some times in each batch. So the
    # optimising compiler pays as little as in the driver (java_process.py), and several threads of a collector neither.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
}


def is_cluster(master: str) -> bool:
    """Whether this master URL names a cluster: any but local, local[N] and local[N,F]."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def repeating(master: str) -> str:
    """The master URL with which Spark repeats failed tasks. Plain `local[*]` fails at the first failure of a task."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


def python(archives: str) -> str:
    """The path of the Python interpreter for all workers, on this machine and elsewhere.

    `archives` is the value of `spark.archives`. The path into an archive is relative to the current folder, here as on
    the workers. Raises SluiceError if the interpreter does not exist below the current folder.
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
    """The properties of Spark that give executors the jars.

    With an archive for executors Spark sends them the jars; otherwise executors have the jars at the same paths.
    """
    if _unpacked(archives):
        return {"spark.jars": ",".join(jars)}
    return {"spark.executor.extraClassPath": os.pathsep.join(jars)}


def _unpacked(archives: str) -> str:
    """The name of the folder (after `#`) into which the first archive is unpacked; empty if there is none."""
    return archives.split(",", maxsplit=1)[0].partition("#")[2]
