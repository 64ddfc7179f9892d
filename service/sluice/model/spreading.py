"""By what the tuples of an input stream may be spread over buckets, so that nobody can tell one bucket from many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.model.expressions import AggregateCall, Attribute, Expression, walk
from sluice.model.spec import (
    Aggregate,
    Count,
    Custom,
    Join,
    Map,
    Operator,
    Output,
    Pipeline,
    Side,
    Sort,
    Stream,
    Time,
    Windowed,
)
from sluice.model.unparse import expressions

Keys = tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class KeyRequirement:
    """By what an operator wants the tuples of a stream to be spread; `key` (): together, and why."""

    operator: str
    key: Keys
    why: str = ""


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """The expressions by which each input stream's tuples are spread; None where everything must be in one bucket."""

    keys: Mapping[str, Keys] | None
    #: why it must
    why: tuple[str, ...] = ()


def spread_by(pipeline: Pipeline) -> Mapping[str, Keys] | None:
    """As `layout` says."""
    return layout(pipeline).keys


def layout(pipeline: Pipeline) -> SpreadPlan:
    """By what the tuples may be spread.

    Tuples that meet in a window partition of any operator, or in a join, must agree in these expressions. The
    partitions of a window meet nobody else, so its `partition_by` serves; behind another operator it must say the same
    of the input stream.
    """
    keys: dict[str, Keys] = {}
    why: list[str] = []
    for stream in pipeline.inputs:
        wishes = list(dict.fromkeys(_needed(pipeline, stream.name)))
        why += _together(stream, wishes)
        keys[stream.name] = wishes[0].key if wishes else ()
    return SpreadPlan(None, tuple(dict.fromkeys(why))) if why else SpreadPlan(keys)


def _together(stream: Stream, wishes: list[KeyRequirement]) -> Iterator[str]:
    """Why all tuples of the stream must be in one bucket."""
    for wish in wishes:
        if not wish.key:
            yield f"{wish.operator}: {wish.why}"
    if len({wish.key for wish in wishes}) > 1 and all(wish.key for wish in wishes):
        several = " and ".join(f"{wish.operator} by {expressions(wish.key)}" for wish in wishes)
        yield f"{stream.name} would be spread in two ways: {several}"


def independent(join: Join) -> tuple[int, ...]:
    """The places of the equalities that hold apart all that can meet or displace each other in this join.

    Tuples only meet with equal keys; and a window's partition, unless each tuple leaves it by itself, must lie within
    one key.
    """
    pairs = enumerate(zip(join.left.equality, join.right.equality, strict=True))
    return tuple(n for n, (left, right) in pairs if _within(join.left, left) and _within(join.right, right))


def equalities_apart(pipeline: Pipeline, join: Join) -> tuple[int, ...]:
    """The places of the equalities by which the tuples of a join are spread over buckets, in the order of the key.

    Those that hold apart all that can meet, or fewer where an operator behind the join asks for these.
    """
    for output in join.outputs:
        for wish in _needed(pipeline, output.stream, made=True):
            places = _equalities(join, output, wish.key)
            if places:
                return places
    return independent(join)


def _within(side: Side, key: Expression) -> bool:
    if side.window.partition_eviction:
        return False
    alone = isinstance(side.window.eviction, Time) or side.window.eviction == Count(0)
    return alone or key in side.partition_by


def _needed(pipeline: Pipeline, stream: str, *, made: bool = False) -> Iterator[KeyRequirement]:
    """What all that read a stream, and all behind them, want its tuples to be spread by.

    `made`: a windowed operator is before it. Each of its marks closes what all keys have sent, so a punct() window
    behind it must see them all.
    """
    for operator in pipeline.operators:
        for port, name in enumerate(operator.inputs):
            if name == stream:
                yield from _wanted(pipeline, operator, port, made=made)
                why = _whole(pipeline.streams[stream], operator)
                if why:
                    yield KeyRequirement(operator.name, (), why)


def _whole(stream: Stream, operator: Operator) -> str:
    """Why, if one bucket must see the whole stream for this operator, whatever that does."""
    of = stream.event_time
    if of is not None and of.lag is not None:
        return f"the tuples of all keys of {stream.name} make its watermarks (E3)"
    if of is not None and of.idle_after is not None:
        return f"the tuples of all keys of {stream.name} say which topic partition is idle"
    if stream.marks_in == "aligned" and not _storing(operator):
        return f"what waits for an aligned mark of {stream.name} comes in at one moment, in an order of all keys"
    return ""


def _storing(operator: Operator) -> bool:
    """Whether tuples are only stored, and nothing comes of them before the next mark (T18)."""
    return isinstance(operator, Windowed) and operator.window.only_stores


def _wanted(pipeline: Pipeline, operator: Operator, port: int, *, made: bool) -> Iterator[KeyRequirement]:
    """What one of those wants of the stream at this port."""
    windowed = not isinstance(operator, Map)
    behind = [
        (output, wish)
        for output in operator.outputs
        for wish in _needed(pipeline, output.stream, made=made or windowed)
    ]
    if isinstance(operator, Join):
        yield from _of_join(operator, port, behind)
        return
    if not isinstance(operator, Map):
        yield _own(pipeline, operator, made=made)
    yield from (_through(operator, output, wish) for output, wish in behind)


def _own(pipeline: Pipeline, operator: Windowed, *, made: bool) -> KeyRequirement:
    """What a window wants of its own input."""
    why = (
        sees_all(operator)
        or operator.window.needs_one_bucket(sort=isinstance(operator, Sort), behind_window=made)
        or _windows_in_order(pipeline, operator)
    )
    if not (operator.partition_by or why):
        why = "its window has no partitions"
    return KeyRequirement(operator.name, () if why else operator.partition_by, why)


def _windows_in_order(pipeline: Pipeline, operator: Windowed) -> str:
    """Why, if an operator behind this window depends on the order of the windows that one watermark fires.

    Behind a windowed operator a tuple no longer tells its window, by which buckets are put together (merge.py).
    """
    several = operator.window.fires_at_watermarks
    behind = any(_fires_as_they_come(pipeline, output.stream) for output in operator.outputs)
    return "a window behind it takes its panes in their order" if several and behind else ""


def _fires_as_they_come(pipeline: Pipeline, stream: str) -> bool:
    readers = [operator for operator in pipeline.operators if stream in operator.inputs]
    windows = [reader.window for reader in readers if isinstance(reader, Windowed)]
    maps = [output.stream for reader in readers if isinstance(reader, Map) for output in reader.outputs]
    return any(not window.fires_at_watermarks for window in windows) or any(
        _fires_as_they_come(pipeline, output) for output in maps
    )


def sees_all(operator: Windowed) -> str:
    """Why, if an output counts the tuples of all partitions, as CountAll does but where the window tumbles (A18)."""
    if operator.window.counts_own_partition:
        return ""
    parts = [part for output in operator.outputs for _, e in output.attributes for part in walk(e)]
    called = {part.function for part in parts if isinstance(part, AggregateCall)}
    by_group = isinstance(operator, Aggregate) and bool(operator.group_by)
    if "CountAll" in called:
        return "CountAll counts the tuples of all partitions (A18)"
    if "CountByGroup" in called and not by_group:
        return "CountByGroup without group_by counts the tuples of all partitions (A18)"
    return ""


# ---- tracing a key upstream ------------------------------------------------------------------------------------------


def _through(operator: Windowed | Map, output: Output, wish: KeyRequirement) -> KeyRequirement:
    """A wish over the attributes of an output, over those of the operator's input where that can be said."""
    attributes = dict(output.attributes)
    traced = tuple(_source(operator, attributes[e.name]) for e in wish.key if isinstance(e, Attribute))
    key = tuple(e for e in traced if e is not None)
    return _traced(wish, key, output) if len(key) == len(wish.key) else _traced(wish, (), output)


def _traced(wish: KeyRequirement, key: Keys, output: Output) -> KeyRequirement:
    if key or wish.why:
        return KeyRequirement(wish.operator, key, wish.why)
    why = f"{expressions(wish.key)} of {output.stream} cannot be told from the tuples that it is made of"
    return KeyRequirement(wish.operator, (), why)


def _source(operator: Windowed | Map, expression: Expression) -> Expression | None:
    """An attribute of an aggregate's output can be traced where it is a partition attribute, which its tuples share.

    What a class sends comes from nowhere that can be told.
    """
    if isinstance(operator, Custom):
        return None
    if not isinstance(operator, Aggregate):
        return expression
    match expression:
        case AggregateCall(("First" | "Last" | "Any" | "Min" | "Max"), (argument,)) if (
            argument in operator.partition_by
        ):
            return argument
    return None


def _of_join(join: Join, port: int, behind: list[tuple[Output, KeyRequirement]]) -> Iterator[KeyRequirement]:
    """The keys that a join wants: its equalities, or those of them by which what is behind it wants its output."""
    side = (join.left, join.right)[port]
    apart = independent(join)
    if not behind:
        yield _apart(join, side, apart)
    for output, wish in behind:
        places = _equalities(join, output, wish.key)
        own = _apart(join, side, apart)
        if own.key and places and set(places) <= set(apart):
            yield KeyRequirement(wish.operator, tuple(side.equality[n] for n in places))
        else:
            yield _traced(wish, (), output) if own.key else own


def _apart(join: Join, side: Side, apart: tuple[int, ...]) -> KeyRequirement:
    if apart:
        return KeyRequirement(join.name, tuple(side.equality[n] for n in apart))
    why = "its equalities do not hold apart all that meets" if join.left.equality else "it has no equalities"
    return KeyRequirement(join.name, (), why)


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
