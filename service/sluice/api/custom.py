"""`Custom("package.module:Class", ...)`: an aggregation function that users write in Python (reference 7.4).

    class Range:
        signature = "float64 -> float64"

        def init(self): self.least, self.most = math.inf, -math.inf
        def add(self, value): self.least, self.most = min(self.least, value), max(self.most, value)
        def result(self): return self.most - self.least

The class is imported where the pipeline file is checked, and again wherever it runs.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from sluice.api.class_loader import ClassError, resolve
from sluice.model.functions import CONSTANTS, VARIABLES, Function, Signature, read_signature
from sluice.model.types import parse_type

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


def load(name: str) -> type[Custom]:
    """The class that `package.module:Class` names. Raises ClassError."""
    return _checked(resolve(name, object))


def function(made: type[Custom]) -> Function:
    """How expressions may call it."""
    return Function("Custom", (read_signature(made.signature),), made.__name__)


def _checked(made: type[Any]) -> type[Custom]:
    missing = [name for name in METHODS if not callable(getattr(made, name, None))]
    if missing:
        raise ClassError(f"a class with the methods {', '.join(METHODS)} ({made.__name__} has no {missing[0]})")
    text = getattr(made, "signature", None)
    signature = read_signature(text) if isinstance(text, str) and text.count("->") == 1 else None
    if signature is None or not _known(signature):
        raise ClassError(f'a class with a signature such as "float64, int64 -> float64" ({made.__name__} has {text!r})')
    try:
        inspect.signature(made).bind()
        for name, count in (("init", 0), ("add", len(signature.parameters)), ("result", 0)):
            inspect.signature(getattr(made, name)).bind(*range(1 + count))
    except TypeError as error:
        raise ClassError(f"methods that fit the signature {signature} ({made.__name__}: {error})") from error
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
