"""Where compiled kernels are kept between runs: in a folder named after the sources.

numba notices a change in the file of a kernel, not one in a file that the kernel calls into: with one folder for each
state of the sources, what runs is always what stands here. Where the installed package cannot be written (a container),
the user's cache serves, which begins with what was compiled when the package was installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

#: the folders with kernels, and with what goes into them
SOURCES = ("engine", "wire", "kafka")
PACKAGE = Path(__file__).parent


def folder(package: Path = PACKAGE) -> Path:
    """Where numba may write; numba needs that even to read."""
    installed = package / "__pycache__" / _name(package)
    if os.access(package, os.W_OK):
        return installed
    users = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sluice" / installed.name
    if installed.exists() and not users.exists():
        with suppress(OSError):  # another process was faster, or nothing can be written: then kernels are compiled
            _copy(installed, users)
    return users


def keep() -> None:
    """Tells numba, unless the environment does. It must not have been imported before."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(folder())


def _name(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in (package / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return f"kernels-{digest.hexdigest()[:16]}"


def _copy(installed: Path, users: Path) -> None:
    """To a folder beside, which is renamed, so that nobody ever sees half of it."""
    users.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=users.parent) as name:
        shutil.copytree(installed, Path(name, users.name))
        Path(name, users.name).rename(users)
