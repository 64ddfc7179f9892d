"""Where compiled kernels are kept between runs: in a folder named after the sources.

numba notices a change in the file of a kernel, not one in a file that the kernel calls into: with one folder for each
state of the sources, what runs is always what stands here. Where the installed package cannot be written (a container),
the user's cache serves, which begins with what was compiled when the package was installed. Where the package itself
stands says nothing: what was compiled goes with it into an archive, and is found where that is unpacked.
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

#: the modules with kernels, with what goes into them, and this one, which says how they are compiled
SOURCES = ("columns/**/*.py", "engine/**/*.py", "wire/**/*.py", "kafka/murmur2.py", "time_units.py")


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
    """Places the compiled code of a module below its path in the package. numba uses the whole path of the file."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(_users_folder() / self.get_suitable_cache_subpath(py_file))

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Locator | None:
        """None where nothing can be written: numba then compiles the function in each process."""
        found: Locator | None = super(UserProvidedCacheLocator, cls).from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        return found

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        if path.is_relative_to(PACKAGE):
            return str(path.parent.relative_to(PACKAGE))
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


class Implementation(CompileResultCacheImpl):
    _locator_classes = [Locator]  # noqa: RUF012 - as numba declares it


class KernelCache(FunctionCache):
    """numba's cache of one function, with our locator. The settings of numba stay as the user's program has them."""

    _impl_class = Implementation


@cache
def _users_folder() -> Path:
    """`NUMBA_CACHE_DIR` where the environment has it."""
    return Path(config.CACHE_DIR or folder())  # type: ignore[attr-defined]


def compiled(function: Function, **options: Any) -> Function:  # noqa: ANN401 - numba's options
    """The function as a kernel: compiled by numba, kept between runs, and with `_index` for its indices."""
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
    """To a folder beside, which is renamed, so that nobody ever sees half of it."""
    users.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=users.parent) as name:
        shutil.copytree(installed, Path(name, users.name))
        Path(name, users.name).rename(users)


#: mangled names of our kernels
_own: set[str] = set()
#: the mangled name of a function in front of numba's version and type tags
_MANGLED = re.compile(r"_Z(.*?)B\d+v\d+(?:B|E)")
_any_index = arrayobj.fix_integer_index


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:  # noqa: ANN401
    """No kernel of ours counts from the end of an array, so none tests whether an index is negative.

    numba offers no option for that. All other functions keep numba's rule, in which -1 is the last element.
    """
    found = _MANGLED.match(builder.function.name)
    if found is None or found[1] not in _own:
        return _any_index(context, builder, kind, index, size)  # type: ignore[no-untyped-call]
    return context.cast(builder, index, kind, types.intp)


arrayobj.fix_integer_index = _index
