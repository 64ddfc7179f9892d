"""Finds the Java that runs Spark and the broker.

`python -m sluice.jvm.java` checks it; for that, no other Python package need be installed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from sluice.model.errors import SluiceError

OLDEST = 17
#: open files with which Java has enough
ENOUGH_FILES = 1024

HELP = (
    "Java {oldest} or newer is needed, and {found}. "
    "Install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17), "
    "or point JAVA_HOME at the one to use."
)


class JavaError(SluiceError):
    exit_code = 3


class NoJavaError(JavaError):
    """There is no Java, or only one that is too old."""

    def __init__(self, version: str) -> None:
        super().__init__(HELP.format(oldest=OLDEST, found=version))


def find_java() -> str:
    """The path of the `java` program in JAVA_HOME, or else on PATH.

    Raises NoJavaError if there is none, or if it is older than version OLDEST, and JavaError if it does not run.
    """
    program = _program()
    version = _version(program)
    if version < OLDEST:
        raise NoJavaError(f"{program} is Java {version}")
    return program


def _program() -> str:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if program is None:
        raise NoJavaError(f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH")
    return program


def _version(program: str) -> int:
    """The feature release: 17 for version `17.0.15`, 8 for `1.8.0_402`."""
    try:
        ended = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{program} does not run: {error}") from error
    printed = ended.stderr + ended.stdout  # an error of the virtual machine itself is written to the latter
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None:
        words = " ".join(printed.split())[:300] or f"it ended with exit code {ended.returncode}"
        raise JavaError(f"{program} does not run: {words}{low_limits()}")
    return int(version[1])


def low_limits() -> str:
    """The limits of this process that may keep Java from running, in words; empty if it has none."""
    memory, files = (resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE))
    limits = [] if memory == resource.RLIM_INFINITY else [f"{memory >> 20} MiB of address space (ulimit -v)"]
    limits += [f"{files} open files (ulimit -n)"] if 0 <= files < ENOUGH_FILES else []
    return f"; a process may have only {' and '.join(limits)}" if limits else ""


if __name__ == "__main__":
    try:
        find_java()
    except SluiceError as error:
        sys.stderr.write(f"sluice: {error}\n")
        sys.exit(error.exit_code)
