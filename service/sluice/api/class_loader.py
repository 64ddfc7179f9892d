"""Loads the user's classes, which a pipeline file names as "package.module:Class"."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TypeVar

from sluice.model.errors import nearest

C = TypeVar("C")


class ClassError(ValueError):
    """A name in the pipeline file that is not a usable class.

    `expected` says what was expected in its place, `hint` is a similar name that exists, or None.
    """

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def search_beside(file: str | Path) -> None:
    """Lets `resolve` find modules in the folder of a pipeline file, behind all others, in this process and in those
    that it starts (FN8).
    """
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if folder not in before:
        os.environ["PYTHONPATH"] = os.pathsep.join([*before, folder])


def versioned(name: str, given: type) -> str:
    """The name of a class with the version that it states, `package.module:Class#2`. So the state of an operator does
    not go on with a class of another version (FN12).
    """
    version = getattr(given, "version", None)
    return name if version is None else f"{name}#{version}"


def resolve(name: str, base: type[C]) -> type[C]:
    """Imports the module and gives the subclass of `base` that `name` names, which may have a version. Raises
    ClassError.
    """
    module, colon, attribute = name.partition("#")[0].partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise ClassError('a Python class as "package.module:Class"')
    try:
        members = vars(importlib.import_module(module))
    except Exception as error:
        raise ClassError(f"a Python module that can be imported ({type(error).__name__}: {error})") from error
    classes = {name: value for name, value in members.items() if isinstance(value, type) and issubclass(value, base)}
    if attribute not in classes:
        kind = "class of" if base is object else f"subclass of {base.__name__} in"
        raise ClassError(f"a {kind} the module {module}", nearest(attribute, classes))
    return classes[attribute]
