"""Classes of the user's, named as "package.module:Class"."""

from __future__ import annotations

import importlib
from typing import TypeVar

from sluice.model.errors import nearest

C = TypeVar("C")


class ClassError(ValueError):
    """Why a name stands for no class that can be used: what was expected, and the nearest word."""

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def resolve(name: str, base: type[C]) -> type[C]:
    """The subclass of `base` that it names. Raises ClassError."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise ClassError('a Python class as "package.module:Class"')
    try:
        found = vars(importlib.import_module(module))
    except Exception as error:
        raise ClassError(f"a Python module that can be imported ({type(error).__name__}: {error})") from error
    classes = {name: value for name, value in found.items() if isinstance(value, type) and issubclass(value, base)}
    if attribute not in classes:
        what = "class of" if base is object else f"subclass of {base.__name__} in"
        raise ClassError(f"a {what} the module {module}", nearest(attribute, classes))
    return classes[attribute]
