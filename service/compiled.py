"""Where compiled kernels are kept between runs: in a folder named after the sources.

numba notices a change in the file of a kernel, not one in a file that the kernel calls into: with one folder for each
state of the sources, what runs is always what stands here. Where the installed package cannot be written, the user's
cache serves.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

#: the folders with kernels, and with what goes into them
SOURCES = ("engine", "wire", "kafka")


def folder() -> Path:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in (here / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    users = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sluice"
    cache = here / "__pycache__" if os.access(here, os.W_OK) else users
    return cache / f"kernels-{digest.hexdigest()[:16]}"


def keep() -> None:
    """Tells numba, unless the environment does. It must not have been imported before."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(folder())
