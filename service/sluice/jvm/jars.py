"""Downloads the jars that deploy/ivy.xml lists, with the Ivy in PySpark's wheel.

This happens at the first use, or before it with `python -m sluice.jvm.jars`.
"""

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
    """The jars of one configuration in deploy/ivy.xml. Downloads all configurations if they are missing or outdated.

    Raises JarsError if the jars cannot be downloaded or written, and JavaError if there is no suitable Java.
    """
    folder = folder_of_jars()
    if not _complete(folder):
        _retrieve(folder)
    return sorted((folder / configuration).glob("*.jar"))


def folder_of_jars() -> Path:
    """The folder of the jars: the environment variable `SLUICE_JARS`, or a folder in the virtual environment."""
    return Path(os.environ.get("SLUICE_JARS") or Path(sys.prefix, "share", "sluice", "jars"))


def _complete(folder: Path) -> bool:
    """Whether the folder has the jars of the present ivy.xml: `_retrieve` puts a copy of ivy.xml into the folder."""
    copy = folder / "ivy.xml"
    return copy.exists() and copy.read_bytes() == project_file("deploy/ivy.xml").read_bytes()


def _retrieve(folder: Path) -> None:
    sys.stderr.write(f"Fetching the jars of Spark's Kafka connector and of the broker (60 MB) into {folder} ...\n")
    try:
        retrieve(project_file("deploy/ivy.xml"), folder)
    except OSError as error:
        if _complete(folder):  # another process was faster
            return
        raise JarsError(f"cannot write the jars to {folder} ({error}); name another with SLUICE_JARS") from error


def retrieve(ivy_file: Path, folder: Path) -> None:
    """Downloads the jars of all configurations of an Ivy file to `folder/<configuration>`, with a copy of the file.

    They are downloaded into a temporary folder, which is then renamed, so that no process ever sees an incomplete
    folder. Raises JarsError if they cannot be downloaded, JavaError if there is no Java, OSError if the folder cannot
    be written.
    """
    java = find_java()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=folder.parent) as name:
        _run_ivy(java, ivy_file, Path(name))
        shutil.copy(ivy_file, Path(name, "jars", "ivy.xml"))
        shutil.rmtree(folder, ignore_errors=True)
        Path(name, "jars").rename(folder)


def _run_ivy(java: str, ivy_file: Path, work: Path) -> None:
    ivy = [
        java,
        f"-Divy.default.ivy.user.dir={work}",  # by default Ivy writes to the home folder
        *("-jar", str(_ivy_jar()), "-ivy", str(ivy_file), "-cache", str(work / "cache")),
        *("-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(work / "jars" / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    done = subprocess.run(ivy, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip(" .\t"))[-3000:]
        raise JarsError(f"the jars could not be fetched; is the Maven repository within reach? Ivy says:\n{said}")


def _ivy_jar() -> Path:
    """The path of Ivy in the PySpark package. Does not import PySpark, which would take half a second."""
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
