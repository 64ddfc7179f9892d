"""Typed expressions as immutable trees.

config/syntax/typed_expressions.py parses them, engine/stream/expression_eval.py computes their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sluice.model.types import Type


@dataclass(frozen=True, slots=True)
class Literal:
    #: a value of the type (`Value`), None for null
    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute of the input tuple; in a join, of the tuple of side `port` (`left` or `right`)."""

    name: str
    type: Type
    port: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a scalar function. An operator is a function whose name is its sign: `+`, `<=`, `and`, `if`."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregation function over the tuples of a group. Its arguments are computed for each input tuple.

    where   a boolean expression: the function is that of the tuples for which it is true (FN1). None: of all tuples
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    where: Expression | None = None


Expression = Literal | Attribute | Call | AggregateCall

#: the function whose calls have the values of an earlier tuple: `previous(x, n)` (PV1)
PREVIOUS = "previous"


def certain(expression: Expression) -> Expression:
    """The expression `x!`: its null is an error (NU13). An expression that is never null stays as it is."""
    return Call("!", (expression,), expression.type.present) if expression.type.optional else expression


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all expressions inside it, outermost first."""
    yield expression
    if isinstance(expression, Call | AggregateCall):
        for argument in expression.arguments:
            yield from walk(argument)
    if isinstance(expression, AggregateCall) and expression.where is not None:
        yield from walk(expression.where)


def previous_calls(expressions: Iterable[Expression]) -> tuple[Call, ...]:
    """The distinct calls of `previous` in these expressions, in their order."""
    parts = (part for expression in expressions for part in walk(expression))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, Call) and part.function == PREVIOUS))


def steps_back(call: Call) -> int:
    """How many tuples before the present one a call of `previous` reads: the constant n, or 1."""
    _, *number = call.arguments
    return number[0].value if number and isinstance(number[0], Literal) else 1


def null_from(expression: Expression) -> Iterator[Expression]:
    """The parts of an expression from which its null comes: attributes, `try(x)`, the constant null (NU31)."""
    match expression:
        case _ if not expression.type.optional:
            return
        case Call("if", (_, *branches)):
            parts: Iterable[Expression] = branches
        case Call("?:" | "coalesce", (*_, last)):
            parts = [last]
        case AggregateCall(where=condition) if condition is not None:  # there may be no tuple for which it is true
            parts = ()
        case Call(name, arguments) | AggregateCall(name, arguments) if name not in ("try", "Custom"):
            parts = arguments
        case _:
            parts = ()
    sources = [source for part in parts for source in null_from(part)]
    yield from sources or [expression]


def over_group(expression: Expression) -> Expression:
    """The expression with `Last` around attributes outside of aggregate calls: the last tuple has their values (A3)."""
    parts = list(walk(expression))
    if not any(isinstance(part, Attribute) for part in parts):
        return expression
    if not any(isinstance(part, AggregateCall) for part in parts):
        return AggregateCall("Last", (expression,), expression.type)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(map(over_group, expression.arguments)), expression.type)
    return expression
