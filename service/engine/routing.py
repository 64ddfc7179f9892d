"""By what the tuples of an input stream may be spread over buckets, so that nobody can tell one bucket from many."""

from __future__ import annotations

from collections.abc import Iterator

from service.pipeline.expressions import AggregateCall, Attribute, Expression, walk
from service.pipeline.spec import (
    Aggregate,
    Count,
    Join,
    Map,
    Operator,
    Output,
    Pipeline,
    Punct,
    Side,
    SlidingTime,
    Sort,
    Time,
    TimeInterval,
    Tumbling,
    Window,
)

Keys = tuple[Expression, ...]


def spread_by(pipeline: Pipeline) -> dict[str, Keys] | None:
    """The expressions by which each input stream's tuples are spread; None where everything must be in one bucket.

    Tuples that meet in a window partition of any operator, or in a join, must agree in these expressions. The
    partitions of a window meet nobody else, so its `partition_by` serves; behind another operator it must say the same
    of the input stream.
    """
    keys: dict[str, Keys] = {}
    for stream in pipeline.inputs:
        needed = _needed(pipeline, stream.name)
        if needed and stream.event_time is not None and stream.event_time.lag is not None:
            return None  # the tuples of all keys make the watermarks (E3)
        if len(needed) > 1 or () in needed:
            return None
        keys[stream.name] = needed.pop() if needed else ()
    return keys


def independent(join: Join) -> tuple[int, ...]:
    """The places of the equalities that hold apart all that can meet or displace each other in this join.

    Tuples only meet with equal keys; and a window's partition, unless each tuple leaves it by itself, must lie within
    one key.
    """
    pairs = enumerate(zip(join.left.equality, join.right.equality, strict=True))
    return tuple(n for n, (left, right) in pairs if _within(join.left, left) and _within(join.right, right))


def _within(side: Side, key: Expression) -> bool:
    if side.window.partition_eviction:
        return False
    alone = isinstance(side.window.eviction, Time) or side.window.eviction == Count(0)
    return alone or key in side.partition_by


def _needed(pipeline: Pipeline, stream: str, *, made: bool = False) -> set[Keys]:
    """What all that read a stream, and all behind them, want its tuples to be spread by.

    `made`: a windowed operator is before it. Each of its marks closes what all keys have sent, so a punct() window
    behind it must see them all.
    """
    return {
        key
        for operator in pipeline.operators
        for port, name in enumerate(operator.inputs)
        if name == stream
        for key in _wanted(pipeline, operator, port, made=made)
    }


def _wanted(pipeline: Pipeline, operator: Operator, port: int, *, made: bool) -> set[Keys]:
    """What one of those wants of the stream at this port."""
    windowed = not isinstance(operator, Map)
    behind = [
        (output, key) for output in operator.outputs for key in _needed(pipeline, output.stream, made=made or windowed)
    ]
    match operator:
        case Join():
            return set(_of_join(operator, port, behind))
        case Map():
            own = set()
        case Aggregate() | Sort():
            alone = not sees_all(operator) and not _together(operator.window, made=made)
            own = {operator.partition_by if alone else ()}
    return own | {_through(operator, output, key) for output, key in behind}


def sees_all(operator: Aggregate | Sort) -> bool:
    """Whether an output counts the tuples of all partitions, as CountAll does but where the window tumbles (A18)."""
    if isinstance(operator.window, Tumbling):
        return False
    parts = [part for output in operator.outputs for _, e in output.attributes for part in walk(e)]
    called = {part.function for part in parts if isinstance(part, AggregateCall)}
    by_group = isinstance(operator, Aggregate) and bool(operator.group_by)
    return "CountAll" in called or ("CountByGroup" in called and not by_group)


def _together(window: Window, *, made: bool) -> bool:
    """Whether one bucket must see all tuples, whatever their keys.

    A timeInterval with a discard age must: whether a late tuple's pane was complete before, and how often it fired, is
    a matter of all partitions (E29, E34). So must slidingTime: the tuples of all keys move stream time (T1). And where
    partitions leave, which of them does depends on all (V8, V10, V12).
    """
    if isinstance(window, SlidingTime):
        return True
    if isinstance(window, TimeInterval):
        return window.discard_age > 0
    return window.partition_eviction is not None or (made and isinstance(window.eviction, Punct))


# ---- tracing a key upstream ------------------------------------------------------------------------------------------


def _through(operator: Aggregate | Map | Sort, output: Output, key: Keys) -> Keys:
    """A key over the attributes of an output, over those of the operator's input; () where that cannot be said."""
    attributes = dict(output.attributes)
    traced = tuple(_source(operator, attributes[e.name]) for e in key if isinstance(e, Attribute))
    return () if len(traced) < len(key) or None in traced else tuple(e for e in traced if e is not None)


def _source(operator: Aggregate | Map | Sort, expression: Expression) -> Expression | None:
    """An attribute of an aggregate's output can be traced where it is a partition attribute, which its tuples share."""
    if not isinstance(operator, Aggregate):
        return expression
    match expression:
        case AggregateCall(("First" | "Last" | "Any" | "Min" | "Max"), (argument,)) if (
            argument in operator.partition_by
        ):
            return argument
    return None


def _of_join(join: Join, port: int, behind: list[tuple[Output, Keys]]) -> Iterator[Keys]:
    """The keys that a join wants: its equalities, or those of them by which what is behind it wants its output."""
    side = (join.left, join.right)[port]
    apart = independent(join)
    wanted = [_equalities(join, output, key) for output, key in behind] or [apart]
    for places in wanted:
        yield tuple(side.equality[n] for n in places) if set(places) <= set(apart) else ()


def _equalities(join: Join, output: Output, key: Keys) -> tuple[int, ...]:
    """A key over the attributes of an output as places among the equalities; () where that cannot be said."""
    attributes = dict(output.attributes)
    found = [_equality(join, attributes.get(e.name), output) for e in key if isinstance(e, Attribute)]
    return tuple(n for n in found if n is not None) if len(found) == len(key) and None not in found else ()


def _equality(join: Join, expression: Expression | None, output: Output) -> int | None:
    """The equality whose value an attribute has: that of a side which is in every tuple of the output."""
    if not isinstance(expression, Attribute):
        return None
    side, other = (join.left, join.right) if expression.port == "left" else (join.right, join.left)
    standing_in = output in join.matched and other.outer and other.unmatched is None
    plain = Attribute(expression.name, expression.type)
    return None if standing_in or plain not in side.equality else side.equality.index(plain)
