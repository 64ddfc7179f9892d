"""Aggregation functions of a part of the tuples: of arguments that may be null (NU18 to NU21), and with a condition.

A function takes no notice of null: it is the function for the type without `?`, and this module gives it the tuples in
which its argument is present. Summaries and counted values have a guard, which is the word of presence; listed tuples
are filtered. A function that takes a value as it is, such as First, is computed twice: of the values, and of whether
they are present.

A function with `where: c` (FN1) is that of arguments which are null where c is not true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import or_null
from sluice.engine.aggregates.aggregate_function import Function, Kept, Results, presence_of, results, value_of
from sluice.engine.contents import summaries
from sluice.engine.contents.fired_contents import FiredContents
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.types import BOOLEAN, optional_of

Make = Callable[[AggregateCall], Function]

#: function of one tuple -> the argument that it takes as it is (NU20, NU21). Of a list of values no element is null
TAKEN = {"First": 0, "Last": 0, "Any": 0, "ArgMin": 1, "ArgMax": 1, "ArgMinLast": 1, "ArgMaxLast": 1}
#: function -> the arguments whose nulls it handles itself
HANDLED = {"Count": (0,), "CollectArgMin": (1,), "CollectArgMax": (1,)}
#: the functions that handle null in all arguments
FREE = frozenset({"Custom"})
#: the functions of the tuples of all groups of a firing
OF_FIRING = frozenset({"CountGroups", "CountByGroup"})
NO, YES = Literal(value=False, type=BOOLEAN), Literal(value=True, type=BOOLEAN)


def function_of(call: AggregateCall, make: Make) -> Function:
    """The function of a call whose arguments may be null. `make` makes the function for arguments without null."""
    if call.where is not None:
        return _of_part(call, call.where, make)
    place = TAKEN.get(call.function)
    optional = [] if call.function in FREE else [n for n, e in enumerate(call.arguments) if e.type.optional]
    if place in optional and len(call.arguments) == place + 1:
        return _taken(call, place, make)
    skipped = [n for n in optional if n not in HANDLED.get(call.function, ())]
    if not skipped:
        return make(call)
    plain = AggregateCall(
        call.function,
        tuple(value_of(e) if n in skipped else e for n, e in enumerate(call.arguments)),
        call.type.present,
    )
    return _of_present(make(plain), [presence_of(call.arguments[n]) for n in skipped], optional=call.type.optional)


def _of_part(call: AggregateCall, where: Expression, make: Make) -> Function:
    """The function of the tuples for which `where` is true (FN1), neither null nor an error (FN3). Of these, First and
    Last take the value as it is (FN5).
    """
    holds = Call("?:", (Call("orElse", (where, NO), where.type), NO), BOOLEAN)
    if call.function in OF_FIRING:
        return _of_firing(make(call), holds)
    if call.function in FREE:
        listed = replace(call, arguments=call.arguments[:1] + _parts(call.arguments[1:], holds))
        return _of_present(make(listed), [holds], optional=True)
    arguments = _parts(call.arguments or (YES,), holds)
    part = replace(call, arguments=arguments, where=None)
    if TAKEN.get(call.function) == 0 and len(arguments) == 1:
        if call.arguments[0].type.optional:
            return _of_present(_taken(part, 0, make), [holds], optional=True)
        return _of_present(make(replace(part, arguments=(value_of(arguments[0]),), type=call.type.present)),
                           [presence_of(arguments[0])], optional=True)  # fmt: skip
    return function_of(part, make)


def _parts(arguments: Sequence[Expression], holds: Expression) -> tuple[Expression, ...]:
    """The arguments, which are null where `holds` is false. A further one stays as it is if it cannot have an error."""
    return tuple(
        Call("if", (holds, argument, Literal(None, optional_of(argument.type))), optional_of(argument.type))
        if place == 0 or not isinstance(argument, Literal | Attribute)
        else argument
        for place, argument in enumerate(arguments)
    )


def _of_firing(function: Function, holds: Expression) -> Function:
    """The function of the groups that have tuples for which `holds` is true, and of the number of these (FN4)."""

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array | Results:
        return function.finish(replace(contents, size=contents.summary[:, at[0]], grouped=True), at)

    return Function(finish, (Kept(summaries.SUM_INT, holds),))


def _taken(call: AggregateCall, place: int, make: Make) -> Function:
    """The function that takes argument `place` as it is, also if that is null."""
    argument = call.arguments[place]

    def over(word: Expression) -> Function:
        arguments = (*call.arguments[:place], word)
        optional = any(e.type.optional for e in arguments)
        type_ = optional_of(word.type) if optional else word.type
        return function_of(AggregateCall(call.function, arguments, type_), make)

    values, presence = over(value_of(argument)), over(presence_of(argument))

    def finish(contents: FiredContents, at: Sequence[int]) -> Results:
        count = len(values.kept)
        found_values, failed = results(values.finish(contents, at[:count]))
        present = results(presence.finish(contents, at[count:])).values.fill_null(False)  # noqa: FBT003
        return Results(or_null(found_values, present.to_numpy(zero_copy_only=False)), failed)

    return Function(finish, (*values.kept, *presence.kept))


def _of_present(function: Function, guards: Sequence[Expression], *, optional: bool) -> Function:
    """The function of the tuples for which all guards are true. `optional`: its result is null if there are none."""
    kept = tuple(replace(summary, guard=_single(guards)) for summary in function.kept)
    counted = tuple(replace(counting, guard=_single(guards)) for counting in function.counted)
    lists = (*function.lists, *guards) if function.lists or not (kept or counted) else ()
    before, behind = len(kept) + len(function.lists), len(kept) + len(lists)

    def finish(contents: FiredContents, at: Sequence[int]) -> pa.Array | Results:
        inner = [*at[:before], *at[behind:]]
        if counted:
            assert contents.counted is not None  # noqa: S101 - called for windows that count values
            size = contents.counted.distinct(at[-1])
            return _masked(function.finish(contents, inner), size > 0) if optional else function.finish(contents, inner)
        if lists:
            contents = contents.only(
                np.logical_and.reduce([contents.listed[:, column] != 0 for column in at[before:behind]])
            )
        else:
            contents = replace(contents, size=contents.summary[:, at[0] - 1], listed=contents.listed[:0])
        if not optional:
            return function.finish(contents, inner)
        has_tuples = contents.size > 0
        if has_tuples.all():
            return results(function.finish(contents, inner))
        values, failed = results(function.finish(contents.rows(has_tuples), inner))
        errors = np.zeros(len(has_tuples), np.bool_)
        errors[has_tuples] = failed
        return Results(values.take(pa.array(np.cumsum(has_tuples) - 1, mask=~has_tuples)), errors)

    return Function(finish, kept, lists, counted)


def _masked(unmasked: pa.Array | Results, present: np.ndarray) -> Results:
    values, failed = results(unmasked)
    return Results(or_null(values, present), failed & present)


def _single(guards: Sequence[Expression]) -> Expression:
    (guard,) = guards
    return guard
