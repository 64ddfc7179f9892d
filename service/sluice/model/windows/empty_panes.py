"""Results of panes without tuples (docs/reference/extensions.md, rules EP1 to EP8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.model.expressions import AggregateCall, Call, Expression, Literal, walk
from sluice.model.types import BOOLEAN, optional_of
from sluice.model.unparse import seconds
from sluice.model.windows.kinds import WINDOW_FUNCTIONS

#: functions that are 0 in an empty pane, and functions of an empty pane that are computed as those of any other
COUNTS, COMPUTED = frozenset({"Count", "CountDistinct"}), frozenset({"CountAll", "CountGroups", *WINDOW_FUNCTIONS})
#: functions that have the value of the key if their argument is one
OF_ONE_VALUE = frozenset({"First", "Last", "Any", "Min", "Max"})
#: the function that says whether a pane is empty
IS_EMPTY = "isEmpty"
#: how many empty panes of a key that follow each other come out at one watermark at most: an hour of one-second panes
MOST = 3_600


@dataclass(frozen=True, slots=True)
class EmptyPanes:
    """Which empty panes come out, and which attributes repeat the value of the result before.

    forget_after   how long a key lives behind its latest pane with tuples, in nanoseconds of event time (EP2)
    previous       (stream, attribute) of the outputs that have the value of the result before (EP4)
    """

    forget_after: int
    previous: tuple[tuple[str, str], ...] = ()

    @property
    def clause(self) -> str:
        """As messages show it."""
        repeated = f", previous: {', '.join(name for _, name in self.previous)}" if self.previous else ""
        return f"forget_after: {seconds(self.forget_after)} s{repeated}"


def needs_fill(expression: Expression, partition_by: Sequence[Expression]) -> bool:
    """Whether an attribute depends on tuples, beside their number and their key, so that an empty pane has no
    value (EP3).
    """
    calls = (part for part in walk(expression) if isinstance(part, AggregateCall))
    return not all(
        call.function in COUNTS | COMPUTED or is_key(call, partition_by)
        for call in calls
    )  # fmt: skip


def is_key(call: AggregateCall, partition_by: Sequence[Expression]) -> bool:
    """Whether the call has the same value for all tuples of a key."""
    return (
        call.function in OF_ONE_VALUE and call.where is None and len(call.arguments) == 1
        and _of_key(call.arguments[0], partition_by)
    )  # fmt: skip


def _of_key(expression: Expression, partition_by: Sequence[Expression]) -> bool:
    if expression in partition_by or isinstance(expression, Literal):
        return True
    return isinstance(expression, Call) and all(_of_key(part, partition_by) for part in expression.arguments)


def null_if_empty(expression: Expression) -> Expression:
    """`isEmpty() ? null : x` (EP3)."""
    kind = optional_of(expression.type)
    return Call("if", (AggregateCall(IS_EMPTY, (), BOOLEAN), Literal(None, kind), expression), kind)


def zero_if_empty(expression: Expression) -> Expression:
    """`isEmpty() ? 0 : x`, with the value of the type that stands for zero (EP3)."""
    kind = expression.type
    return Call("if", (AggregateCall(IS_EMPTY, (), BOOLEAN), Literal(kind.present.empty, kind), expression), kind)
