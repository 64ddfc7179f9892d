"""Files of Maven Central that only some tests need, each fetched once with Ivy, into a folder beside the other jars."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from sluice.jvm.java import find_java

SETTINGS = Path(__file__).parent / "ivysettings.xml"


def fetched(name: str, ivy_file: Path, type_: str, unpack: Callable[[Path], None] = lambda _: None) -> Path:
    """The folder of the files of this type that the Ivy file names. SLUICE_<NAME> names another folder.

    `unpack` is called with the folder before it gets its place, so that no process ever sees an incomplete one.
    """
    folder = Path(os.environ.get(f"SLUICE_{name.upper()}") or Path(sys.prefix, "share", "sluice", name))
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder.parent) as work:
            retrieved = Path(work, "retrieved")
            _retrieve(ivy_file, type_, Path(work), retrieved)
            unpack(retrieved)
            shutil.move(retrieved, folder)
    return folder


def _retrieve(ivy_file: Path, type_: str, work: Path, folder: Path) -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    ivy = next(Path(str(spec.origin)).parent.glob("jars/ivy-*.jar"))
    files = ["-settings", str(SETTINGS), "-ivy", str(ivy_file), "-cache", str(work / "cache")]
    java = [find_java(), f"-Divy.default.ivy.user.dir={work}", "-jar", str(ivy)]
    target = str(folder / "[artifact].[ext]")
    subprocess.run([*java, *files, "-types", type_, "-warn", "-retrieve", target], check=True, capture_output=True)
