"""Typed expressions as values. `parse` (grammar.py) makes them, `engine/stream/expression_eval.py` computes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sluice.model.types import Type


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float | str
    type: Type


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute of the input tuple; in a join, of the tuple of that port (`left`, `right`)."""

    name: str
    type: Type
    port: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of its arguments. An operator is a function with its sign as name: `+`, `<=`, `and`, `if`."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregation function over the tuples of a group; its arguments are computed per input tuple."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


Expression = Literal | Attribute | Call | AggregateCall


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it, outermost first."""
    yield expression
    if isinstance(expression, Call | AggregateCall):
        for argument in expression.arguments:
            yield from walk(argument)
