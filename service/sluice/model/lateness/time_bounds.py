"""Bounds of the value of an expression of event times.

A value is described as `scale * anchor + [low, high]`. The anchor is a time in nanoseconds since 1970 that the caller
chooses, such as the end of the pane that fires. So the difference of two times, a mean of two times, or a time that was
converted to another unit has bounds, too. A value that does not depend on the anchor has the scale 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.types import FLOAT64, INT64, TIMESTAMP, Type
from sluice.time_units import MILLISECOND, SECOND

#: a finite bound, or an infinity
Bound = Fraction | int | float
#: the length of the longest day of a zone, in nanoseconds
LONGEST_DAY = 26 * 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class Value:
    """All values from `scale * anchor + low` to `scale * anchor + high`, in the unit of the expression's type."""

    scale: Fraction
    low: Bound
    high: Bound

    def moved(self, low: Bound, high: Bound | None = None) -> Value:
        """The value plus something from `low` to `high`, or plus `low`."""
        return Value(self.scale, self.low + low, self.high + (low if high is None else high))

    def times(self, factor: Fraction) -> Value:
        ends = sorted((_product(self.low, factor), _product(self.high, factor)))
        return Value(self.scale * factor, *ends)

    def joined(self, other: Value) -> Value | None:
        """Either of two values. If one of them does not depend on the anchor, neither does the result. None if they
        depend on it in different ways.
        """
        if self.scale != other.scale:
            return None if self.scale and other.scale else ANYTHING
        return Value(self.scale, min(self.low, other.low), max(self.high, other.high))


#: a number that does not depend on the anchor, such as a constant
ANYTHING = Value(Fraction(0), -math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Span:
    """The times from `low` to `high`, in nanoseconds behind the anchor."""

    low: Bound = -math.inf
    high: Bound = math.inf

    def value(self, type_: Type, tick: int) -> Value:
        """The times in the unit of an attribute: `tick` nanoseconds of an int64, else as the type has it."""
        unit = {TIMESTAMP: 1, FLOAT64: SECOND}.get(type_, tick)
        return Value(Fraction(1), self.low, self.high).times(Fraction(1, unit))


@dataclass(frozen=True, slots=True)
class TupleTimes:
    """The event times of the tuples that an output is made of.

    any       of each of them
    last      of the one that came last
    greatest  the greatest one
    """

    attribute: str
    tick: int
    any: Span
    last: Span
    greatest: Span


@dataclass(frozen=True, slots=True)
class TimeScope:
    """The times that the attributes and functions of an expression can have.

    tuples   side of a join, or None -> the times of its tuples; a side is missing if it has no event time
    window   the function that describes the window -> its time
    tick     nanoseconds of a unit of an int64 that such a function gives
    missing  the sides that have their default tuple
    """

    tuples: Mapping[str | None, TupleTimes]
    window: Mapping[str, Span]
    tick: int = 1
    missing: frozenset[str] = frozenset()


def bounds(e: Expression, scope: TimeScope, which: str = "any") -> Value | None:
    """The bounds of the value of an expression; None if nothing is known of it.

    `which`: the tuple, by its field in TupleTimes, whose attributes stand outside of aggregation functions.
    """
    match e:
        case Literal(bool() | str() | None):
            return None
        case Literal(value):
            number = Fraction(str(value)) if math.isfinite(float(value)) else None
            return None if number is None else Value(Fraction(0), number, number)
        case Attribute(name, type_, port):
            return _attribute(name, type_, port, scope, which)
        case AggregateCall():
            return _aggregate(e, scope)
        case Call():
            return _call(e, scope, which)


def _attribute(name: str, type_: Type, port: str | None, scope: TimeScope, which: str) -> Value | None:
    if port in scope.missing:
        return ANYTHING
    times = scope.tuples.get(port)
    if times is None or name != times.attribute:
        return None
    span: Span = getattr(times, which)
    return span.value(type_, times.tick)


#: the aggregation functions whose value is one of the values of an argument, or between them -> the argument
SELECTING = dict.fromkeys(("First", "Last", "Any", "Max", "Min", "Average", "Median", "Percentile"), 0) | dict.fromkeys(
    ("ArgMax", "ArgMin", "ArgMaxLast", "ArgMinLast"), 1
)


def _aggregate(e: AggregateCall, scope: TimeScope) -> Value | None:
    """Of a function that describes the window, that counts, or that selects a value."""
    if e.function in scope.window:
        return scope.window[e.function].value(e.type, scope.tick)
    if e.function == "Count":
        return Value(Fraction(0), 0, math.inf)
    number = SELECTING.get(e.function)
    if number is None or e.type.element is not None:
        return None
    selected = e.arguments[number]
    if e.function in ("Last", "Any") and e.where is None:
        return bounds(selected, scope, "last")
    span = bounds(selected, scope)
    greatest = bounds(selected, scope, "greatest") if e.function == "Max" and e.where is None else None
    return span if span is None or greatest is None else Value(span.scale, max(span.low, greatest.low), span.high)


# ---- scalar functions ------------------------------------------------------------------------------------------------


def _call(e: Call, scope: TimeScope, which: str) -> Value | None:
    if e.function == "if":
        return _either(bounds(e.arguments[1], scope, which), bounds(e.arguments[2], scope, which))
    values = [bounds(argument, scope, which) for argument in e.arguments]
    function = FUNCTIONS.get(e.function)
    return None if function is None else function(values, e)


def _either(left: Value | None, right: Value | None) -> Value | None:
    return None if left is None or right is None else left.joined(right)


def _product(bound: Bound, factor: Bound) -> Bound:
    """Infinity times 0 is 0, as in bounds."""
    return 0 if not factor or not bound else bound * factor


def _constant(value: Value | None) -> Fraction | None:
    """The value if it is the same for all outputs."""
    fixed = value is not None and not value.scale and value.low == value.high
    return Fraction(value.low) if value is not None and fixed else None


def _sum(values: Sequence[Value | None], e: Call) -> Value | None:
    left, right = values
    if left is None or right is None:
        return None
    right = right.times(_unit(e))
    return Value(left.scale + right.scale, left.low + right.low, left.high + right.high)


def _difference(values: Sequence[Value | None], e: Call) -> Value | None:
    if len(values) == 1:
        return None if values[0] is None else values[0].times(Fraction(-1))
    left, right = values
    if left is None or right is None:
        return None
    right = right.times(_unit(e))
    difference = Value(left.scale - right.scale, left.low - right.high, left.high - right.low)
    seconds = e.type == FLOAT64 and e.arguments[0].type == TIMESTAMP
    return difference.times(Fraction(1, SECOND)) if seconds else difference


def _unit(e: Call) -> Fraction:
    """Seconds as nanoseconds where a timestamp is moved by seconds."""
    moved = e.type == TIMESTAMP and e.arguments[1].type != TIMESTAMP
    return Fraction(SECOND if moved else 1)


def _multiple(values: Sequence[Value | None], _: Call) -> Value | None:
    for value, constant in (values, values[::-1]):
        factor = _constant(constant)
        if value is not None and factor is not None:
            return value.times(factor)
    return None


def _quotient(values: Sequence[Value | None], _: Call) -> Value | None:
    value, divisor = values[0], _constant(values[1])
    return value.times(1 / divisor) if value is not None and divisor else None


def _remainder(values: Sequence[Value | None], e: Call) -> Value | None:
    divisor = _constant(values[1])
    if not divisor:
        return None
    largest = abs(divisor) - (1 if e.type == INT64 else 0)
    return Value(Fraction(0), -largest, largest)


def _smaller(values: Sequence[Value | None], _: Call) -> Value | None:
    left, right = values
    if left is None or right is None or left.scale != right.scale:
        return _either(left, right)
    return Value(left.scale, min(left.low, right.low), min(left.high, right.high))


def _larger(values: Sequence[Value | None], _: Call) -> Value | None:
    """The larger one of two times is at least as large as the one of them that has bounds."""
    left, right = values
    if left is None or right is None:
        only = left or right
        return None if only is None else Value(only.scale, only.low, math.inf)
    if left.scale != right.scale:
        timed = max(left, right, key=lambda value: value.scale)
        return Value(timed.scale, timed.low, math.inf)
    return Value(left.scale, max(left.low, right.low), max(left.high, right.high))


def _first(low: Bound, high: Bound) -> Callable[[Sequence[Value | None], Call], Value | None]:
    """The first argument plus something from `low` to `high`."""
    return lambda values, _: None if values[0] is None else values[0].moved(low, high)


def _whole(low: int, high: int) -> Callable[[Sequence[Value | None], Call], Value | None]:
    """The first argument as a whole number; an int64 is one."""
    rounded = _first(low, high)
    return lambda values, e: values[0] if e.arguments[0].type == INT64 else rounded(values, e)


def _rounded(values: Sequence[Value | None], e: Call) -> Value | None:
    digits = _constant(values[1]) if len(values) > 1 else Fraction(0)
    if values[0] is None or digits is None or e.arguments[0].type == INT64:
        return values[0] if digits is not None else None
    half = Fraction(1, 2) / Fraction(10) ** int(digits)
    return values[0].moved(-half, half)


def _floored(values: Sequence[Value | None], _: Call) -> Value | None:
    """`floorTime(time, seconds)`."""
    length = _constant(values[1])
    return None if values[0] is None or length is None else values[0].moved(1 - length * SECOND, 0)


def _in_unit(factor: Fraction, below: int = 0) -> Callable[[Sequence[Value | None], Call], Value | None]:
    """The first argument in another unit; what is cut off is less than `below` of that unit."""

    def converted(values: Sequence[Value | None], e: Call) -> Value | None:
        if values[0] is None or (len(e.arguments) > 1):
            return None
        return values[0].times(factor).moved(-below, 0)

    return converted


def _timestamp(values: Sequence[Value | None], _: Call) -> Value | None:
    return None if values[0] is None else values[0].times(Fraction(SECOND))


def _or_else(values: Sequence[Value | None], _: Call) -> Value | None:
    return _either(values[0], values[1])


FUNCTIONS: Mapping[str, Callable[[Sequence[Value | None], Call], Value | None]] = {
    "+": _sum, "-": _difference, "*": _multiple, "/": _quotient, "%": _remainder, "min": _smaller, "max": _larger,
    "floor": _whole(-1, 0), "ceil": _whole(0, 1), "trunc": _whole(-1, 1), "round": _rounded, "int64": _whole(-1, 1),
    "float64": _first(0, 0), "toSeconds": _in_unit(Fraction(1, SECOND)),
    "toMilliseconds": _in_unit(Fraction(1, MILLISECOND), 1), "toNanoseconds": _in_unit(Fraction(1)),
    "fromMilliseconds": _in_unit(Fraction(MILLISECOND)), "fromNanoseconds": _in_unit(Fraction(1)),
    "timestamp": _timestamp, "floorTime": _floored, "startOfDay": _first(-LONGEST_DAY, 0), "orElse": _or_else,
}  # fmt: skip
