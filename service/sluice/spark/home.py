"""A home for Spark in which its Python processes find the installed PySpark instead of an archive of it.

Every Python process that Spark starts has `python/lib/pyspark.zip` of its home in front of everything. What is imported
from an archive is compiled each time, which takes a second of each of the ten processes of a start. Here there is none.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

LINKS = ("bin", "jars")


def spark_home() -> Path | None:
    """The home, which is made when it is not there; None where it cannot be: then the package's own serves."""
    installed = find_spec("pyspark")
    assert installed is not None  # noqa: S101 - who calls has imported it
    package = Path(str(installed.origin)).parent
    home = Path(sys.prefix, "share", "sluice", "spark")
    try:
        if not all((home / name).resolve() == package / name for name in LINKS):
            _make(home, package)
    except OSError:
        return None
    return home


def _make(home: Path, package: Path) -> None:
    """Each link is made beside and renamed, so that nobody ever sees none."""
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as beside:
        for name in LINKS:
            Path(beside, name).symlink_to(package / name)
            Path(beside, name).replace(home / name)


if __name__ == "__main__":
    spark_home()
