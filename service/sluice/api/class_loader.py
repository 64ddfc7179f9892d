"""Loads the user's classes, which a pipeline file names as "package.module:Class".

A process reads the file of a module once. All processes of a start must have read the same content, because a batch may
run again in another one: `require_same` compares the digests (FN15).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sluice.model.errors import SluiceError, nearest

C = TypeVar("C")
#: the modules that this process has loaded for their classes: the digest of the file of each, None without a file
_DIGESTS: dict[str, str | None] = {}
#: the files of these modules, and of forgotten modules
_FILES: dict[str, str | None] = {}
#: the sets of names that `recording` gives
_RECORDS: list[set[str]] = []


class ClassChangedError(SluiceError):
    """A process of a service has loaded another content of a module than the service at its start."""

    exit_code = 6


class ClassError(ValueError):
    """A name in the pipeline file that is not a usable class.

    `expected` says what was expected in its place, `hint` is a similar name that exists, or None.
    """

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def search_beside(file: str | Path) -> None:
    """Lets `resolve` find modules in the folder of a pipeline file, behind all others, in this process and in the
    processes that it starts (FN8).
    """
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if folder not in before:
        os.environ["PYTHONPATH"] = os.pathsep.join([*before, folder])


def loaded() -> dict[str, str | None]:
    """The modules that this process has loaded for their classes, with the digests of their files at that time."""
    return dict(_DIGESTS)


def changed() -> dict[str, str]:
    """The modules whose files have another content than when this process loaded them, with the paths of the files."""
    digests = {module: digest for module, digest in _DIGESTS.items() if digest is not None}
    return {module: str(_FILES[module]) for module, digest in digests.items() if _digest(module) not in (digest, None)}


@contextmanager
def recording() -> Iterator[set[str]]:
    """The names of the modules whose classes are requested in this context, whether or not they can be imported."""
    names: set[str] = set()
    _RECORDS.append(names)
    try:
        yield names
    finally:
        _RECORDS.remove(names)


def digests_of(modules: Iterable[str]) -> dict[str, str | None]:
    """The digests of the files of these modules as they are now; None if a file cannot be read."""
    return {module: _digest(module) for module in modules}


def forget_changed(modules: Iterable[str]) -> None:
    """Lets `resolve` import modules again whose files have changed. Objects of their classes stay."""
    _forget(module for module in modules if _DIGESTS.get(module) != _digest(module))


def forget_others(modules: Mapping[str, str | None]) -> None:
    """Lets `resolve` import the modules again whose versions differ between this process and the service.

    A forked process has the versions that its parent loaded, which may be older.
    """
    _forget([module for module, digest in _DIGESTS.items() if modules.get(module, digest) != digest])


def _forget(modules: Iterable[str]) -> None:
    for module in modules:
        _DIGESTS.pop(module, None)
        sys.modules.pop(module, None)
    importlib.invalidate_caches()


def require_same(modules: Mapping[str, str | None]) -> None:
    """Raises ClassChangedError if this process has loaded one of the modules with another content (FN15).

    `modules` has the digest of each module's file, as `loaded` returned it in the service's process.
    """
    for module, digest in _DIGESTS.items():
        if modules.get(module, digest) != digest:
            raise ClassChangedError(
                f"the module {module} ({_FILES[module]}) has changed since the service started, and one start runs one "
                "version of it. The next start repeats the batch with the changed module"
            )


def bind(user_class: type, counts: Mapping[str, int]) -> None:
    """Raises TypeError unless the class can be made without arguments, and each method be called with so many."""
    inspect.signature(user_class).bind()
    for name, count in counts.items():
        inspect.signature(getattr(user_class, name)).bind(*range(1 + count))


def versioned(name: str, user_class: type) -> str:
    """The name of a class with the version that it states, `package.module:Class#2`. So the state of an operator does
    not go on with a class of another version (FN12).
    """
    version = getattr(user_class, "version", None)
    return name if version is None else f"{name}#{version}"


def resolve(name: str, base: type[C]) -> type[C]:
    """Imports the module and gives the subclass of `base` that `name` names, which may have a version. Raises
    ClassError.
    """
    module, colon, attribute = name.partition("#")[0].partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise ClassError('a Python class as "package.module:Class"')
    for names in _RECORDS:
        names.add(module)
    try:
        members = vars(importlib.import_module(module))
        _FILES[module] = getattr(sys.modules[module], "__file__", None)
        _DIGESTS.setdefault(module, _digest(module))
    except Exception as error:
        raise ClassError(f"a Python module that can be imported ({type(error).__name__}: {error})") from error
    classes = {name: value for name, value in members.items() if isinstance(value, type) and issubclass(value, base)}
    if attribute not in classes:
        kind = "class of" if base is object else f"subclass of {base.__name__} in"
        raise ClassError(f"a {kind} the module {module}", nearest(attribute, classes))
    return classes[attribute]


def _digest(module: str) -> str | None:
    """The digest of the module's file as it is now; None if it cannot be read."""
    try:
        return hashlib.sha256(Path(_FILES.get(module) or "").read_bytes()).hexdigest()
    except OSError:
        return None
