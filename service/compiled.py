"""Where compiled kernels are kept between runs: in a folder named after the sources.

numba notices a change in the file of a kernel, not one in a file that the kernel calls into: with one folder for each
state of the sources, what runs is always what stands here. Where the installed package cannot be written (a container),
the user's cache serves, which begins with what was compiled when the package was installed. Where the package itself
stands says nothing: what was compiled goes with it into an archive, and is found where that is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.core.caching import UserProvidedCacheLocator
from numba.np import arrayobj

from service.files import PACKAGE

__all__ = ["njit"]

#: the modules with kernels, with what goes into them, and this one, which says how they are compiled
SOURCES = ("compiled.py", "engine/**/*.py", "wire/**/*.py", "kafka/murmur2.py", "times.py")


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


class Locator(UserProvidedCacheLocator):
    """Keeps the kernels of a module below its path in the package; numba goes by where that stands."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        if path.is_relative_to(PACKAGE):
            return str(path.parent.relative_to(PACKAGE))
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


def _name(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in package.glob(pattern)):
        digest.update(path.read_bytes())
    return f"kernels-{digest.hexdigest()[:16]}"


def _copy(installed: Path, users: Path) -> None:
    """To a folder beside, which is renamed, so that nobody ever sees half of it."""
    users.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=users.parent) as name:
        shutil.copytree(installed, Path(name, users.name))
        Path(name, users.name).rename(users)


# What the environment says goes before; numba makes these attributes as it is imported.
config.CACHE_DIR = config.CACHE_DIR or str(folder())  # type: ignore[attr-defined]
config.CACHE_LOCATOR_CLASSES = (  # type: ignore[attr-defined]
    config.CACHE_LOCATOR_CLASSES or f"{__name__}.{Locator.__name__}"  # type: ignore[attr-defined]
)


def _from_the_front(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:  # noqa: ANN401, ARG001
    """No kernel counts from the end of an array, so none asks whether an index is negative (`make test-bounds`)."""
    return context.cast(builder, index, kind, types.intp)


arrayobj.fix_integer_index = _from_the_front
