"""Fetches the jars of deploy/ivy.xml with the Ivy of PySpark's wheel; `python -m sluice.jvm.jars` does it ahead."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from sluice.files import project_file
from sluice.jvm.java import find_java
from sluice.model.errors import SluiceError

Configuration = Literal["spark", "broker"]


class JarsError(SluiceError):
    exit_code = 3


def jars(configuration: Configuration) -> list[Path]:
    """The jars of one configuration of deploy/ivy.xml; all are fetched when they aren't there yet."""
    folder = folder_of_jars()
    if not _complete(folder):
        _retrieve(folder)
    return sorted((folder / configuration).glob("*.jar"))


def folder_of_jars() -> Path:
    """`SLUICE_JARS`, else a folder in the virtual environment, shared by all that runs in it."""
    return Path(os.environ.get("SLUICE_JARS") or Path(sys.prefix, "share", "sluice", "jars"))


def _complete(folder: Path) -> bool:
    """Whether the folder was filled from today's ivy.xml, of which it holds a copy."""
    copy = folder / "ivy.xml"
    return copy.exists() and copy.read_bytes() == project_file("deploy/ivy.xml").read_bytes()


def _retrieve(folder: Path) -> None:
    """Fills a folder beside and renames it, so that nobody ever sees half of the jars."""
    java = find_java()
    sys.stderr.write(f"Fetching the jars of Spark's Kafka connector and of the broker (60 MB) into {folder} ...\n")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="jars-", dir=folder.parent) as name:
            _run_ivy(java, Path(name))
            shutil.copy(project_file("deploy/ivy.xml"), Path(name, "jars"))
            shutil.rmtree(folder, ignore_errors=True)
            Path(name, "jars").rename(folder)
    except OSError as error:
        if _complete(folder):  # another process was faster
            return
        raise JarsError(f"cannot write the jars to {folder} ({error}); name another with SLUICE_JARS") from error


def _run_ivy(java: str, work: Path) -> None:
    ivy = [
        java,
        f"-Divy.default.ivy.user.dir={work}",  # else it writes to the home folder
        *("-jar", str(_ivy_jar()), "-ivy", str(project_file("deploy/ivy.xml")), "-cache", str(work / "cache")),
        *("-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(work / "jars" / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    done = subprocess.run(ivy, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip(" .\t"))[-3000:]
        raise JarsError(f"the jars could not be fetched; is the Maven repository within reach? Ivy says:\n{said}")


def _ivy_jar() -> Path:
    """Found without importing PySpark, which takes half a second."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsError("PySpark is not installed")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


if __name__ == "__main__":
    try:
        jars("spark")
    except SluiceError as error:
        sys.stderr.write(f"sluice: {error}\n")
        sys.exit(error.exit_code)
