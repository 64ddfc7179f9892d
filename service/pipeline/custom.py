"""`Custom("package.module:Class", ...)`: an aggregation function that users write in Python (reference 7.4).

    class Range:
        signature = "float64 -> float64"

        def init(self): self.least, self.most = math.inf, -math.inf
        def add(self, value): self.least, self.most = min(self.least, value), max(self.most, value)
        def result(self): return self.most - self.least

The class is imported where the pipeline file is checked, and again wherever it runs.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Protocol

from service.pipeline.errors import nearest
from service.pipeline.functions import CONSTANTS, VARIABLES, Function, Signature, read_signature
from service.pipeline.types import parse_type

METHODS = ("init", "add", "result")


class Custom(Protocol):
    """What a class of a `Custom` function offers: for each group of each firing a new object of it is asked in order.

    Values are int, float, str and bool, lists of them, and of a timestamp the nanoseconds since 1970 as an int.
    """

    #: the types of the arguments and of the result, as docs/expressions.md writes them
    signature: str

    def init(self) -> object:
        """Before the first tuple. Neither this nor `result` sees attributes (A24)."""

    def add(self, *values: Any) -> object:  # noqa: ANN401 - as the signature says
        """One tuple's arguments; the tuples come in the order of their arrival."""

    def result(self) -> object:
        """After the last tuple. None: there is no value, and the output is a dead letter."""


class CustomError(ValueError):
    """Why a name stands for no such class: what was expected, and the nearest word."""

    def __init__(self, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


def load(name: str) -> type[Custom]:
    """The class that `package.module:Class` names. Raises CustomError."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise CustomError('a Python class as "package.module:Class"')
    try:
        found = vars(importlib.import_module(module))
    except Exception as error:
        raise CustomError(f"a Python module that can be imported ({type(error).__name__}: {error})") from error
    if not isinstance(found.get(attribute), type):
        raise CustomError(f"a class of the module {module}", nearest(attribute, _classes(found)))
    return _checked(found[attribute])


def function(made: type[Custom]) -> Function:
    """How expressions may call it."""
    return Function("Custom", (read_signature(made.signature),), made.__name__)


def _classes(found: dict[str, Any]) -> list[str]:
    return [name for name, value in found.items() if isinstance(value, type)]


def _checked(made: type[Any]) -> type[Custom]:
    missing = [name for name in METHODS if not callable(getattr(made, name, None))]
    if missing:
        raise CustomError(f"a class with the methods {', '.join(METHODS)} ({made.__name__} has no {missing[0]})")
    text = getattr(made, "signature", None)
    signature = read_signature(text) if isinstance(text, str) and text.count("->") == 1 else None
    if signature is None or not _known(signature):
        raise CustomError(
            f'a class with a signature such as "float64, int64 -> float64" ({made.__name__} has {text!r})'
        )
    try:
        inspect.signature(made).bind()
        for name, count in (("init", 0), ("add", len(signature.parameters)), ("result", 0)):
            inspect.signature(getattr(made, name)).bind(*range(1 + count))
    except TypeError as error:
        raise CustomError(f"methods that fit the signature {signature} ({made.__name__}: {error})") from error
    return made


def _known(signature: Signature) -> bool:
    """Whether its words are types, or stand for those of the arguments."""
    words = [word.removeprefix("list<").removesuffix(">") for word in (*signature.parameters, signature.result)]
    free = {word for word in words[:-1] if word in VARIABLES}
    return not signature.kernel and all(word in free or (word not in CONSTANTS and _is_type(word)) for word in words)


def _is_type(word: str) -> bool:
    try:
        parse_type(word)
    except ValueError:
        return False
    return True
