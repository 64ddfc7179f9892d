"""Downloads the jars that deploy/ivy.xml lists, with the Ivy in PySpark's wheel.

This happens at the first use, or before it with `python -m sluice.jvm.jars`: the jars of Spark, or of the
configurations that the arguments name. The jars of the broker are for the demo and for tests only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, cast, get_args

from sluice.files import project_file
from sluice.jvm.java import find_java
from sluice.model.errors import SluiceError
from sluice.package_extras import install

Configuration = Literal["spark", "broker"]
#: configuration -> whose jars these are, and their size in MB
WHAT: dict[Configuration, tuple[str, int]] = {"spark": ("Spark's Kafka connector", 10), "broker": ("the broker", 43)}


class JarsError(SluiceError):
    exit_code = 3


def jars(configuration: Configuration) -> list[Path]:
    """The jars of one configuration in deploy/ivy.xml. Downloads them if they are missing or outdated.

    Raises JarsError if the jars cannot be downloaded or written, and JavaError if there is no suitable Java.
    """
    folder = folder_of_jars()
    if not _complete(folder, configuration):
        _retrieve(folder, configuration)
    return sorted((folder / configuration).glob("*.jar"))


def folder_of_jars() -> Path:
    """The folder of the jars: the environment variable `SLUICE_JARS`, or a folder in the virtual environment."""
    return Path(os.environ.get("SLUICE_JARS") or Path(sys.prefix, "share", "sluice", "jars"))


def _complete(folder: Path, configuration: Configuration) -> bool:
    """Whether the folder has the jars of the present ivy.xml."""
    return _current(folder) and (folder / configuration).is_dir()


def _current(folder: Path) -> bool:
    """Whether the folder is one of the present ivy.xml: `_retrieve` puts a copy of ivy.xml into the folder."""
    copy = folder / "ivy.xml"
    return copy.exists() and copy.read_bytes() == project_file("deploy/ivy.xml").read_bytes()


def _retrieve(folder: Path, configuration: Configuration) -> None:
    name, size = WHAT[configuration]
    sys.stderr.write(f"Fetching the jars of {name} ({size} MB) into {folder} ...\n")
    ivy_file = project_file("deploy/ivy.xml")
    try:
        with _fetched(ivy_file, folder, configuration) as jars_of:
            if not _current(folder):
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(exist_ok=True)
            (jars_of / configuration).rename(folder / configuration)
            shutil.copy(ivy_file, folder / "ivy.xml")
    except OSError as error:
        if _complete(folder, configuration):  # another process was faster
            return
        raise JarsError(f"cannot write the jars to {folder} ({error}); name another with SLUICE_JARS") from error


def retrieve(ivy_file: Path, folder: Path) -> None:
    """Downloads the jars of all configurations of an Ivy file to `folder/<configuration>`, with a copy of the file.

    They are downloaded into a temporary folder, which is then renamed, so that no process ever sees an incomplete
    folder. Raises JarsError if they cannot be downloaded, JavaError if there is no Java, OSError if the folder cannot
    be written.
    """
    with _fetched(ivy_file, folder, "*") as jars_of:
        shutil.copy(ivy_file, jars_of / "ivy.xml")
        shutil.rmtree(folder, ignore_errors=True)
        jars_of.rename(folder)


@contextmanager
def _fetched(ivy_file: Path, folder: Path, configurations: str) -> Iterator[Path]:
    """A temporary folder beside `folder` with a folder of jars for each configuration (`*`: of all of them)."""
    java = find_java()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jars-", dir=folder.parent) as name:
        _run_ivy(java, ivy_file, Path(name), configurations)
        yield Path(name, "jars")


def _run_ivy(java: str, ivy_file: Path, work: Path, configurations: str) -> None:
    ivy = [
        java,
        f"-Divy.default.ivy.user.dir={work}",  # by default Ivy writes to the home folder
        *("-jar", str(_ivy_jar()), "-ivy", str(ivy_file), "-cache", str(work / "cache")),
        *("-confs", configurations, "-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(work / "jars" / "[conf]" / "[artifact]-[revision].[ext]")),
    ]
    ended = subprocess.run(ivy, capture_output=True, text=True, check=False)
    if ended.returncode:
        output = "\n".join(line for line in (ended.stdout + ended.stderr).splitlines() if line.strip(" .\t"))[-3000:]
        raise JarsError(f"the jars could not be fetched; is the Maven repository within reach? Ivy says:\n{output}")


def _ivy_jar() -> Path:
    """The path of Ivy in the PySpark package. Does not import PySpark, which would take half a second."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsError(install("pyspark", "run"))
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


if __name__ == "__main__":
    try:
        for name in sys.argv[1:] or ["spark"]:
            if name not in get_args(Configuration):
                sys.exit(f"sluice: expected {' or '.join(get_args(Configuration))}, got {name}")
            jars(cast("Configuration", name))
    except SluiceError as error:
        sys.stderr.write(f"sluice: {error}\n")
        sys.exit(error.exit_code)
