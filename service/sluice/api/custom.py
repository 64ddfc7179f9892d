"""The interface of `Custom("package.module:Class", ...)`, an aggregation function in Python.

    class Range:
        signature = "float64 -> float64"

        def init(self): self.least, self.most = math.inf, -math.inf
        def add(self, value): self.least, self.most = min(self.least, value), max(self.most, value)
        def result(self): return self.most - self.least

A class with the one method `results` gets the tuples of all windows that fired as arrays, and returns an array:

    class Spread:
        signature = "float64 -> float64"

        def results(self, offsets, values):
            numbers = values.to_numpy()
            return np.maximum.reduceat(numbers, offsets[:-1]) - np.minimum.reduceat(numbers, offsets[:-1])

A class with `lift` and `combine` is computed as the tuples come, and stores no tuples:

    class GeometricMean:
        signature = "float64 -> float64"
        combine = ("sum", "sum")

        def lift(self, values): return np.log(values), np.ones(len(values))
        def result(self, logarithms, counts): return np.exp(logarithms / counts)

A class with `lift` and a `combine` of its own combines the numbers of many pairs at once:

    class Rise:
        signature = "float64 -> float64"

        def lift(self, values): return values, values, np.zeros(len(values))  # the least, the greatest, the best rise
        def combine(self, older, younger):
            rise = np.maximum(younger[1] - older[0], np.maximum(older[2], younger[2]))
            return np.minimum(older[0], younger[0]), np.maximum(older[1], younger[1]), rise
        def result(self, least, greatest, rise): return rise

In the output of a map, a class with the method `values` gets the tuples of a batch as arrays, and returns an array:

    class Score:
        signature = "float64, float64 -> float64"

        def values(self, heights, weights):
            return np.tanh(heights.to_numpy() * 0.2 - weights.to_numpy())

docs/reference/spl-windows.md, section 7.2, and docs/reference/functions.md have the rules. The class is imported when
the pipeline file is checked and in each process that runs the pipeline, so importing it must have no side effects. Its
results must depend only on the values: a batch may be computed again after a failure.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Protocol

from sluice.api.class_loader import ClassError, bind, resolve
from sluice.model.functions import CONSTANTS, VARIABLES, Function, Signature, never, read_signature
from sluice.model.types import parse_type

if TYPE_CHECKING:  # the check of a file imports none of them
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa

METHODS = ("init", "add", "result")
#: the method of a class that computes all windows at once (FN6)
AT_ONCE = "results"
#: the method of a class that computes a value for each tuple (FN16)
OF_TUPLES = "values"
#: the methods of a class that lifts the tuples (FN11, FN13), and the words that say how its numbers are combined
LIFTING = ("lift", "result")
COMBINED = ("sum", "min", "max", "first", "last")


class Custom(Protocol):
    """The interface of the class of a `Custom` function.

    For each group of each firing the service makes a new object, calls `init`, then `add` for each tuple, then
    `result`. Values are int, float, str and bool, and lists of them. A timestamp is an int: nanoseconds since 1970.
    Null is None; only a parameter with a `?`, such as `float64?`, takes optional arguments (NU23).
    """

    #: the types of the arguments and of the result, in the notation of docs/expressions.md
    signature: str

    def init(self) -> object:
        """Called before the first tuple. Like `result`, it gets no attributes (A24)."""

    def add(self, *values: Any) -> object:  # noqa: ANN401 - as the signature says
        """Called with the arguments of one tuple, for all tuples in order of arrival."""

    def result(self) -> object:
        """Called after the last tuple. None is null if the type of the result has a `?`, such as
        `float64?`. Otherwise it means that there is no value: the output becomes a dead letter.
        """


class CustomArrays(Protocol):
    """The interface of the class of a `Custom` function that computes the results of all windows at once (FN6)."""

    #: as that of `Custom`
    signature: str

    def results(self, offsets: np.ndarray, *columns: pa.Array) -> pa.Array | np.ndarray:
        """The result of each window, in their order, as an array; null is what None is for `Custom.result`.

        columns  the arguments, in the order of the windows, and inside of a window in order of arrival. A timestamp is
                 in nanoseconds, a null of a parameter with a `?` is null
        offsets  window n has the tuples from offsets[n], inclusive, to offsets[n + 1], exclusive. No window is empty
        """


class CustomValues(Protocol):
    """The interface of the class of a `Custom` function in the output of a map (FN16)."""

    #: as that of `Custom`, with at least one argument
    signature: str

    def values(self, *columns: pa.Array) -> pa.Array | np.ndarray:
        """The value for each tuple, in their order, as an array; null is what None is for `Custom.result`.

        `columns` are the arguments of these tuples. A tuple with a null argument is not among them, unless the
        parameter has a `?`.
        """


class CustomLifted(Protocol):
    """The interface of the class of a `Custom` function that lifts the tuples, with words as `combine` (FN11)."""

    #: as that of `Custom`, with at least one argument
    signature: str
    #: how the numbers of two runs of tuples become one, a word of COMBINED for each array that `lift` returns
    combine: tuple[str, ...]

    def lift(self, *columns: pa.Array) -> Sequence[pa.Array | np.ndarray]:
        """The numbers of each tuple, as arrays of float64. `columns` are the arguments of some tuples."""

    def result(self, *numbers: np.ndarray) -> pa.Array | np.ndarray:
        """The result of each window. `numbers` has the combined numbers of its tuples, an array for each word."""


class CustomCombined(Protocol):
    """The interface of the class of a `Custom` function that lifts the tuples and combines their numbers (FN13)."""

    #: as that of `Custom`, with at least one argument
    signature: str

    def lift(self, *columns: pa.Array) -> Sequence[pa.Array | np.ndarray]:
        """As `lift` of CustomLifted: an array for each parameter of `result`."""

    def combine(self, older: list[np.ndarray], younger: list[np.ndarray]) -> Sequence[pa.Array | np.ndarray]:
        """The numbers of many runs of tuples: run n is older[.][n] followed by younger[.][n]. It must be associative;
        older tuples come first, so it need not be commutative.
        """

    def result(self, *numbers: np.ndarray) -> pa.Array | np.ndarray:
        """As `result` of CustomLifted, with a parameter for each number."""


def lifts(user_class: object) -> bool:
    """Whether the class lifts the tuples."""
    return callable(getattr(user_class, "lift", None))


def combines(user_class: object) -> bool:
    """Whether a class that lifts the tuples combines their numbers itself."""
    return callable(getattr(user_class, "combine", None))


def numbers_of(user_class: type[Any]) -> int:
    """How many numbers a class that lifts the tuples has of each."""
    if not combines(user_class):
        return len(user_class.combine)
    kinds = [parameter.kind for parameter in inspect.signature(user_class.result).parameters.values()]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) + kinds.count(inspect.Parameter.POSITIONAL_ONLY) - 1


def at_once(user_class: object) -> bool:
    """Whether the class computes all windows at once."""
    return callable(getattr(user_class, AT_ONCE, None))


def load(name: str) -> type[Custom]:
    """The class that `package.module:Class` names. Raises ClassError."""
    return _checked(resolve(name, object))


def load_of_tuples(name: str) -> type[CustomValues]:
    """As `load`, for the output of a map (FN16)."""
    user_class: type[Any] = resolve(name, object)
    if not callable(getattr(user_class, OF_TUPLES, None)):
        raise ClassError(f"a class with the method {OF_TUPLES}, in the output of a map (rule FN16)")
    if not _signature(user_class).parameters:
        raise ClassError(f"a class whose signature has an argument ({user_class.__name__})")
    return _fitting(user_class, {OF_TUPLES: len(_signature(user_class).parameters)})


def function_of_tuples(user_class: type[CustomValues]) -> Function:
    """The function that the class implements for a tuple. Null in an argument gives null (NU7), unless the class asks
    for it by a parameter with a `?`.
    """
    signature = read_signature(user_class.signature)
    asks = any(word.endswith("?") for word in signature.parameters)
    return Function("Custom", (signature,), user_class.__name__, nulls=not asks)


def function(user_class: type[Custom]) -> Function:
    """The function that the class implements, as the checks of expressions read it: its name and its signature."""
    return Function("Custom", (read_signature(user_class.signature),), user_class.__name__, optional=never, nulls=False)


def _checked(user_class: type[Any]) -> type[Custom]:
    methods = _methods(user_class)
    missing = [name for name in methods if not callable(getattr(user_class, name, None))]
    if missing:
        raise ClassError(f"a class with the methods {', '.join(METHODS)} ({user_class.__name__} has no {missing[0]})")
    signature = _signature(user_class)
    count, numbers = len(signature.parameters), _numbers(user_class, signature) if lifts(user_class) else 0
    counts = {"init": 0, "add": count, "result": numbers, AT_ONCE: 1 + count, "lift": count, "combine": 2}
    return _fitting(user_class, {name: counts[name] for name in methods})


def _signature(user_class: type[Any]) -> Signature:
    """The signature of a class. Raises ClassError if it has none, or a wrong one."""
    text = getattr(user_class, "signature", None)
    signature = read_signature(text) if isinstance(text, str) and text.count("->") == 1 else None
    if signature is None or not _known(signature):
        raise ClassError(
            f'a class with a signature such as "float64, int64 -> float64" ({user_class.__name__} has {text!r})'
        )
    return signature


def _fitting(user_class: type[Any], counts: Mapping[str, int]) -> type[Any]:
    """The class, if it can be made without arguments, and each of the methods be called with so many."""
    try:
        bind(user_class, counts)
    except TypeError as error:
        raise ClassError(
            f"methods that fit the signature {user_class.signature} ({user_class.__name__}: {error})"
        ) from error
    return user_class


def _methods(user_class: type[Any]) -> tuple[str, ...]:
    """The methods that a class of its form needs."""
    if lifts(user_class):
        return (*LIFTING, "combine") if combines(user_class) else LIFTING
    return (AT_ONCE,) if at_once(user_class) else METHODS


def _numbers(user_class: type[Any], signature: Signature) -> int:
    """How many numbers a class with `lift` has of a tuple. Raises ClassError if `combine` or `result` is wrong."""
    if not signature.parameters:
        raise ClassError(f"a class with lift whose signature has an argument ({user_class.__name__})")
    words = getattr(user_class, "combine", None)
    if combines(user_class):
        if numbers_of(user_class) > 0:
            return numbers_of(user_class)
        raise ClassError(f"a method result with a parameter for each number that lift returns ({user_class.__name__})")
    if not isinstance(words, tuple) or not words or any(word not in COMBINED for word in words):
        combine_words = ", ".join(COMBINED)
        kinds = f"a method combine(older, younger), or a tuple of the words {combine_words} as combine"
        raise ClassError(f"a class with {kinds} ({user_class.__name__} has {words!r})")
    return len(words)


def _known(signature: Signature) -> bool:
    """Whether each word of the signature is a type or a type variable. The result has only variables of parameters."""
    words = [re.sub(r"^list<|>?\??$", "", word) for word in (*signature.parameters, signature.result)]
    free = {word for word in words[:-1] if word in VARIABLES}
    return not signature.kernel and all(word in free or (word not in CONSTANTS and _is_type(word)) for word in words)


def _is_type(word: str) -> bool:
    try:
        parse_type(word)
    except ValueError:
        return False
    return True
