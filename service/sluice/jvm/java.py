"""Finds the Java that runs Spark and the broker.

`python -m sluice.jvm.java` checks it; for that, no other Python package need be installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sluice.model.errors import SluiceError

OLDEST = 17

HELP = (
    "Java {oldest} or newer is needed, and {found}. "
    "Install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17), "
    "or point JAVA_HOME at the one to use."
)


class JavaError(SluiceError):
    exit_code = 3

    def __init__(self, found: str) -> None:
        super().__init__(HELP.format(oldest=OLDEST, found=found))


def find_java() -> str:
    """The path of the `java` program: that of JAVA_HOME, or else the one on PATH.

    Raises JavaError if there is none, if it does not run, or if it is older than version OLDEST.
    """
    program = _program()
    version = _version(program)
    if version < OLDEST:
        raise JavaError(f"{program} is Java {version}")
    return program


def _program() -> str:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if program is None:
        raise JavaError(f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH")
    return program


def _version(program: str) -> int:
    """The feature release: 17 for version `17.0.15`, 8 for `1.8.0_402`."""
    try:
        printed = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{program} does not run ({error})") from error
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None:
        raise JavaError(f"{program} -version says: {printed.strip()[:200] or 'nothing'}")
    return int(version[1])


if __name__ == "__main__":
    try:
        find_java()
    except SluiceError as error:
        sys.stderr.write(f"sluice: {error}\n")
        sys.exit(error.exit_code)
