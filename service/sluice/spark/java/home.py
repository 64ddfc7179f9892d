"""A folder for SPARK_HOME that makes Spark's Python processes import the installed PySpark instead of an archive.

Every Python process that Spark starts has `python/lib/pyspark.zip` of SPARK_HOME at the start of its import path.
Python compiles modules from an archive again in every process, which takes 1 s in each of the 10 processes of a start.
The folder has links to the folders `bin` and `jars` of PySpark, but no such archive.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

LINKS = ("bin", "jars")


def spark_home() -> Path:
    """The folder, which is created if it does not exist; the folder of PySpark itself if it cannot be created.

    Does not import PySpark. Raises ModuleNotFoundError if it is not installed.
    """
    installed = find_spec("pyspark")
    if installed is None:
        message = "No module named 'pyspark'"
        raise ModuleNotFoundError(message, name="pyspark")
    package = Path(str(installed.origin)).parent
    home = Path(sys.prefix, "share", "sluice", "spark")
    try:
        if not all((home / name).resolve() == package / name for name in LINKS):
            _make(home, package)
    except OSError:
        return package
    return home


def _make(home: Path, package: Path) -> None:
    """Creates each link in a temporary folder and renames it, so that no other process ever finds it missing."""
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as beside:
        for name in LINKS:
            Path(beside, name).symlink_to(package / name)
            Path(beside, name).replace(home / name)


if __name__ == "__main__":
    spark_home()
