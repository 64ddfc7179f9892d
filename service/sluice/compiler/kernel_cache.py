"""The cache of compiled kernels on disk: one file per kernel, stamp and types of the arguments.

The name of a file says all that its code depends on, so a file never changes, processes can write at the same time, and
a compiled kernel always matches the present sources. A process that needs code which another process compiles waits
for it.

    engine/contents/block_stacks.run-<stamp>-<key>.code
      stamp: a hash of the definitions that the kernel reaches (kernel_stamps.py) and of the versions of the compiler
      key: a hash of the types of the arguments, the CPU and the compiler's settings

numba's own cache recompiles a kernel if the kernel's own file changes, but not if a file changes whose functions the
kernel calls.

Code is read from the folder `__pycache__/kernels` of the package, and from the user's cache if the package's folder is
read-only (as in a container). New code is written to the one of the two that is writable. Paths in a folder are
relative to the package, so a package that is archived and unpacked elsewhere still finds its kernels.

A folder also has a table of stamps for each version of the sources that was used with it. `prune` removes code that no
table names.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import pickle
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import config, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from sluice.compiler.kernel_stamps import Sources
from sluice.files import PACKAGE

#: the number of versions of the sources whose code a folder keeps
MAX_VERSIONS = 8
#: the age in seconds at which an incomplete file belongs to a process that ended
MAX_WRITE_SECONDS = 3600.0
#: the longest wait for code that another process compiles, and the time between two checks for it, in seconds
MAX_WAIT_SECONDS, POLL_SECONDS = 120.0, 0.05
#: settings of numba that change the code, by their names in `numba.config`
SETTINGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")
#: the first part of every stamp
VERSIONS = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)

#: what reading a damaged file may raise
DAMAGED = (OSError, EOFError, ValueError, pickle.UnpicklingError)


def folders(package: Path = PACKAGE) -> tuple[Path, ...]:
    """The folders to read from. The first one is the folder to write to.

    The environment variable `NUMBA_CACHE_DIR` names another single folder.
    """
    if config.CACHE_DIR:  # type: ignore[attr-defined]
        return (Path(config.CACHE_DIR),)  # type: ignore[attr-defined]
    installed = package / "__pycache__" / "kernels"
    if os.access(package, os.W_OK):
        return (installed,)
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sluice" / "kernels", installed


class KernelCache(_Cache):
    """The compiled code of one kernel. numba calls its methods."""

    def __init__(self, function: Callable[..., Any], *, machine_code: bool = True) -> None:
        """`machine_code`: False keeps only the intermediate code, which suffices for a function that is inlined."""
        self._machine_code = machine_code
        self._folders = _folders()
        self._name = f"{_module_path(function)}.{function.__qualname__}-{stamp_of(function)}"
        self._enabled = True
        self._locks: dict[str, Lock] = {}

    @property
    def cache_path(self) -> str:
        return str((self._folders[0] / self._name).parent)

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for path in (self._folders[0] / self._name).parent.glob(f"{Path(self._name).name}-*"):
            path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
        """The code for the types of a signature; None if no folder has it."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if not self._enabled:
            return None
        overload = self._load(path, target_context)
        if overload is None and (lock := self._lock(path)):
            if lock.acquire():
                overload = self._load(path, target_context)
            if overload is None:
                self._locks[path] = lock
            else:
                lock.release()
        return overload

    def _load(self, path: str, target_context: Any) -> Any:  # noqa: ANN401
        for folder in self._folders:
            with suppress(*DAMAGED):
                return CompileResult._rebuild(target_context, *_read(folder / path))  # type: ignore[no-untyped-call] # noqa: SLF001
        return None

    def _lock(self, path: str) -> Lock | None:
        """The lock of a process that compiles; None if no folder is writable."""
        try:
            return Lock(self._folders[0] / f"{path}.lock")
        except OSError:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401
        """Writes the code. Without a folder to write to, each process compiles for itself."""
        path = self._path(sig, data.codegen)
        if self._enabled and not data.library.has_dynamic_globals:
            with suppress(OSError):
                saved = data if self._machine_code else data._replace(library=_Intermediate(data.library))
                content: bytes = dumps(saved._reduce())  # type: ignore[no-untyped-call] # noqa: SLF001
                _write(self._folders[0] / path, _sealed(content))
        if lock := self._locks.pop(path, None):
            lock.release()

    def _path(self, sig: Any, codegen: Any) -> str:  # noqa: ANN401
        args, result = normalize_signature(sig)  # type: ignore[no-untyped-call]
        kinds = [_layout(argument) for argument in args], result and _layout(result)
        settings = [getattr(config, name) for name in SETTINGS]
        key = repr((kinds, codegen.magic_tuple(), settings, self._machine_code))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.code"


class Lock:
    """A lock on a file that one process has at a time. It ends with the process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("wb")

    def acquire(self) -> bool:
        """Waits for the lock, MAX_WAIT_SECONDS at most. Returns whether another process had it."""
        end = time.monotonic() + MAX_WAIT_SECONDS
        waited = False
        while not self._taken() and time.monotonic() < end:
            waited = True
            time.sleep(POLL_SECONDS)
        return waited

    def release(self) -> None:
        self._path.unlink(missing_ok=True)  # a process that waits for it finds the code before it compiles
        self._file.close()

    def _taken(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # another process has it; systems differ in the error
            return False
        except OSError:  # the file system has no locks: each process compiles for itself
            return True
        return True


class _Intermediate:
    """A library of compiled code from which numba keeps the intermediate code in place of machine code."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - numba's
        self._final_module = library._final_module  # noqa: SLF001
        self.serialize_using_object_code = library.serialize_using_bitcode


def stamp_of(function: Callable[..., Any]) -> str:
    """The stamp of a kernel at the top of a module of this package.

    Of any other function: a hash of its file and of all sources of this package.
    """
    stamp = _stamps().get(f"{function.__module__}.{function.__qualname__}")
    if stamp and _in_package(function):
        return stamp
    code = function.__code__
    cells = [repr(cell.cell_contents) for cell in function.__closure__ or ()]
    text = Path(code.co_filename).read_bytes() if Path(code.co_filename).exists() else code.co_code
    return _hash(_version(PACKAGE).encode(), text, repr((code.co_firstlineno, cells)).encode())


def prune(folder: Path, versions: int = MAX_VERSIONS) -> None:
    """Removes code that is not of the `versions` versions of the sources that were used last with the folder."""
    tables = sorted(folder.glob("stamps-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    kept = {stamp for path in tables[:versions] for stamp in json.loads(path.read_text()).values()}
    for path in tables[versions:]:
        path.unlink(missing_ok=True)
    for path in folder.rglob("*.code"):
        if path.stem.split("-")[-2] not in kept:
            path.unlink(missing_ok=True)
    for path in [*folder.rglob("*.part"), *folder.rglob("*.lock")]:
        if path.stat().st_mtime < time.time() - MAX_WRITE_SECONDS:
            path.unlink(missing_ok=True)
    for path in folder.parent.glob("kernels-*"):  # the folders of versions up to 0.1
        shutil.rmtree(path, ignore_errors=True)


def stamps(package: Path, among: tuple[Path, ...]) -> dict[str, str]:
    """The stamps of all kernels of a package, from its table in one of the folders, or by analysis of the sources."""
    name = f"stamps-{_version(package)}.json"
    table: dict[str, str] = {}
    for folder in among:
        with suppress(*DAMAGED):
            table = json.loads((folder / name).read_text())
            break
    table = table or Sources(package).stamps(repr(VERSIONS).encode())
    with suppress(OSError):
        if (among[0] / name).exists():
            os.utime(among[0] / name)  # the time of its last use
        else:
            _write(among[0] / name, json.dumps(table).encode())
            prune(among[0])
    return table


@cache
def _folders() -> tuple[Path, ...]:
    return folders()


@cache
def _stamps() -> dict[str, str]:
    return stamps(PACKAGE, _folders())


@cache
def _version(package: Path) -> str:
    """A hash of all sources of the package, and of the versions of the compiler."""
    return _hash(repr(VERSIONS).encode(), *(path.read_bytes() for path in sorted(package.rglob("*.py"))))


def _layout(kind: Any) -> str:  # noqa: ANN401 - numba's types have no type hints
    """A type as text. numba's own text of a named tuple leaves out the names of its fields."""
    class_: Any = getattr(kind, "instance_class", None)
    if class_ is not None:
        fields = [f"{name}: {_layout(inner)}" for name, inner in zip(kind.fields, kind.types, strict=True)]
        return f"{class_.__module__}.{class_.__qualname__}({', '.join(fields)})"
    if isinstance(kind, types.Tuple):
        return f"({', '.join(_layout(inner) for inner in kind)})"
    return str(kind)


def _module_path(function: Callable[..., Any]) -> str:
    path = Path(inspect.getfile(function)).with_suffix("")
    if _in_package(function):
        return str(path.relative_to(PACKAGE))
    return f"elsewhere/{path.stem}-{_hash(str(path).encode())}"


def _in_package(function: Callable[..., Any]) -> bool:
    return Path(inspect.getfile(function)).is_relative_to(PACKAGE)


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def _sealed(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big") + content


def _read(path: Path) -> Any:  # noqa: ANN401
    sealed = path.read_bytes()
    if _sealed(sealed[4:]) != sealed:
        raise ValueError(path)
    return pickle.loads(sealed[4:])  # noqa: S301 - this cache wrote it


def _write(path: Path, content: bytes) -> None:
    """Writes to a temporary file and renames it, so that no process reads an incomplete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(suffix=".part", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(content)
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(part).unlink()
        raise
