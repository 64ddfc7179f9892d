"""What an aggregation function is to the rest of the engine: the data that it needs, and how its results are computed.

The data of a function are expressions over a tuple. Of a value of an optional type two words are stored, and two calls
name them: `value_of(x)` is the value, that of the type's `empty` where x is null, and `presence_of(x)` is whether x is
present. Both are read from the stored x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sluice.engine.contents import summaries
from sluice.engine.contents.fired_contents import FiredContents
from sluice.model.expressions import AggregateCall, Call, Expression, Literal
from sluice.model.types import BOOLEAN, optional_of

#: the names of the calls that name a word of a stored value of an optional type. No pipeline file has them
VALUE, PRESENCE = "#value", "#presence"


class Results(NamedTuple):
    """The results of a function whose results may be null: a column, and the rows whose null is an error."""

    values: pa.Array
    failed: np.ndarray


#: `finish(found, at)` computes the column of results. `at` has the first word of each summary in `kept`, then the
#: column of each expression in `lists`, then the number of each series in `counted`. A null in an array is an
#: error: the function has no value
Finish: TypeAlias = Callable[[FiredContents, Sequence[int]], pa.Array | Results]


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary that a function needs. The companion is an expression, `summaries.NONE` or `summaries.TIMES`.

    guard   a boolean expression: a tuple counts if it is true. None: all tuples count
    """

    code: int
    value: Expression
    companion: Expression | int = summaries.NONE
    guard: Expression | None = None


@dataclass(frozen=True, slots=True)
class Counting:
    """A series of counted values (multisets.py) that a function needs: the expression, whether it is rounded, and the
    guard (see `Kept`).
    """

    value: Expression
    rounded: bool = False
    guard: Expression | None = None


def share_of(call: AggregateCall) -> float:
    """The share of a percentile; the share of Median, which gives none, is 0.5."""
    share = call.arguments[1] if len(call.arguments) > 1 else None
    return float(share.value) if isinstance(share, Literal) else 0.5


@dataclass(frozen=True, slots=True)
class Function:
    """How a call is computed, and the data that it needs.

    finish   computes the results
    kept     the summaries
    lists    the expressions whose values are listed for each tuple of the window
    counted  the series of counted values
    """

    finish: Finish
    kept: tuple[Kept, ...] = ()
    lists: tuple[Expression, ...] = ()
    counted: tuple[Counting, ...] = ()

    @property
    def reads(self) -> list[Expression]:
        """The expressions over a tuple that the function needs."""
        parts = [e for k in self.kept for e in (k.value, k.companion, k.guard)]
        parts += [*self.lists, *(e for c in self.counted for e in (c.value, c.guard))]
        return [e for e in parts if e is not None and not isinstance(e, int)]


def value_of(value: Expression) -> Expression:
    return Call(VALUE, (value,), value.type.present) if value.type.optional else value


def presence_of(value: Expression) -> Expression:
    """Whether a value of an optional type is present."""
    return Call(PRESENCE, (value,), BOOLEAN)


def words_of(value: Expression) -> tuple[Expression, ...]:
    """The words of a value."""
    return (value_of(value), presence_of(value)) if value.type.optional else (value,)


def stored(word: Expression) -> Expression:
    """The expression that is stored, of which this one names a word: x for `value_of(x)`, and f(x), which is null where
    x is, for f(`value_of(x)`).
    """
    if not isinstance(word, Call):
        return word
    if word.function in (VALUE, PRESENCE):
        return word.arguments[0]
    arguments = tuple(map(stored, word.arguments))
    return word if arguments == word.arguments else Call(word.function, arguments, optional_of(word.type))


def results(values: pa.Array | Results) -> Results:
    """The results of `finish`, with the rows that have an error."""
    if isinstance(values, Results):
        return values
    if not values.null_count:
        return Results(values, np.zeros(len(values), np.bool_))
    return Results(values, values.is_null().to_numpy(zero_copy_only=False))
