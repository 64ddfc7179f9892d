"""The cache of compiled kernels on disk: one folder per version of the sources, named by their hash.

numba recompiles a kernel if the kernel's own file changes, but not if a file changes whose functions the kernel calls.
With one folder per hash of all sources, a compiled kernel always matches the present sources.

The folder is below `__pycache__` of the package. If the package folder is read-only (as in a container), the folder is
below the user's cache instead, and starts as a copy of the kernels that were compiled at installation. Paths in the
cache are relative to the package, so a package that is archived and unpacked elsewhere still finds its kernels.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.itanium_mangler import mangle_identifier
from numba.np import arrayobj

from sluice.files import PACKAGE

Function = TypeVar("Function", bound=Callable[..., Any])

#: the modules that define kernels or that kernels depend on, including this module, which sets the compiler's options
SOURCES = ("columns/**/*.py", "engine/**/*.py", "wire/**/*.py", "kafka/murmur2.py", "time_units.py")


def folder(package: Path = PACKAGE) -> Path:
    """The cache folder. It is writable if possible, because numba needs write access even to read from it."""
    installed = package / "__pycache__" / _name(package)
    if os.access(package, os.W_OK):
        return installed
    users = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sluice" / installed.name
    if installed.exists() and not users.exists():
        with suppress(OSError):  # another process made it, or it is read-only: kernels are then compiled
            _copy(installed, users)
    return users


class Locator(UserProvidedCacheLocator):
    """The folder of a module's compiled code, by the module's path in the package (numba uses the absolute path)."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(_users_folder() / self.get_suitable_cache_subpath(py_file))

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Locator | None:
        """None if the folder is not writable: numba then compiles the function in each process."""
        found: Locator | None = super(UserProvidedCacheLocator, cls).from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        return found

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        if path.is_relative_to(PACKAGE):
            return str(path.parent.relative_to(PACKAGE))
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


class Implementation(CompileResultCacheImpl):
    _locator_classes = [Locator]  # noqa: RUF012 - numba declares it like this


class KernelCache(FunctionCache):
    """numba's cache of one function with the locator of this module. numba's global settings stay as they are."""

    _impl_class = Implementation


@cache
def _users_folder() -> Path:
    """The environment variable `NUMBA_CACHE_DIR` if it is set, otherwise `folder()`."""
    return Path(config.CACHE_DIR or folder())  # type: ignore[attr-defined]


def compiled(function: Function, **options: Any) -> Function:  # noqa: ANN401 - numba's options
    """Compiles the function with numba, caches the result on disk, and makes its indices follow `_index`."""
    dispatcher = njit(**options)(function)
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher._cache = KernelCache(function)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as cache=True does
    _own.add(mangle_identifier(f"{function.__module__}.{function.__qualname__}").removesuffix("E"))  # type: ignore[no-untyped-call]
    return dispatcher  # type: ignore[no-any-return]


def _name(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in package.glob(pattern)):
        digest.update(path.read_bytes())
    return f"kernels-{digest.hexdigest()[:16]}"


def _copy(installed: Path, users: Path) -> None:
    """Copies to a temporary folder and renames it, so that no process ever reads an incomplete copy."""
    users.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=users.parent) as name:
        shutil.copytree(installed, Path(name, users.name))
        Path(name, users.name).rename(users)


#: mangled names of the kernels that `compiled` made
_own: set[str] = set()
#: matches a mangled function name up to numba's version and type tags
_MANGLED = re.compile(r"_Z(.*?)B\d+v\d+(?:B|E)")
_any_index = arrayobj.fix_integer_index


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:  # noqa: ANN401
    """Replaces numba's code for an array index: in kernels of this package a negative index gets no special treatment.

    These kernels never index from the end of an array, so the test for a negative index is left out. numba has no
    option for this. All other functions keep numba's rule, by which -1 is the last element.
    """
    found = _MANGLED.match(builder.function.name)
    if found is None or found[1] not in _own:
        return _any_index(context, builder, kind, index, size)  # type: ignore[no-untyped-call]
    return context.cast(builder, index, kind, types.intp)


arrayobj.fix_integer_index = _index
