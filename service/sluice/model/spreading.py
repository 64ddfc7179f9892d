"""Computes, from the specification of a pipeline, the key by which tuples of each input are distributed over buckets.

The output of a pipeline must not depend on the number of buckets. So the key puts all tuples with equal `partition_by`
values into one bucket, and all tuples that a join may combine. If the operators that read an input have no such key in
common, the whole stage runs in one bucket, and `sluice explain` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sluice.model.expressions import PREVIOUS, AggregateCall, Attribute, Call, Expression, walk
from sluice.model.functions import RANKS
from sluice.model.spec import (
    Aggregate,
    Barrier,
    Custom,
    Dedup,
    Delay,
    Join,
    KeyedMap,
    Map,
    Operator,
    Output,
    Passing,
    Pipeline,
    Side,
    Sort,
    Stream,
    Union,
    Windowed,
)
from sluice.model.unparse import expressions
from sluice.model.windows.kinds import WINDOW_FUNCTIONS

Keys = tuple[Expression, ...]

#: beginnings of what to change in a file
PARTITIONED = "partition_by, and `partitioned` in its clause, if its results may be those of each key"
BETWEEN = "send the stream through its topic, with `exchange: true`, between"


@dataclass(frozen=True, slots=True)
class KeyRequirement:
    """The key by which an operator requires the tuples of a stream to be distributed.

    An empty `key` means that all tuples must be in one bucket; `why` is then the reason, and `instead` what to change
    in the file so that they need not, for messages. `instead` is empty if nothing would help.
    """

    operator: str
    key: Keys
    why: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """The key of each input stream; None if all tuples must be in one bucket."""

    keys: Mapping[str, Keys] | None
    #: the reasons for one bucket; empty if there are several
    why: tuple[str, ...] = ()
    #: what to change so that there are several; empty if a reason would stay
    instead: tuple[str, ...] = ()


class SharedTime(NamedTuple):
    """Which event times of an input all buckets need, because tuples of all keys move a time together (ET2).

    advances     whether a tuple moves a watermark or a stream time if its event time is above all before it
    idle_after   the silence, in nanoseconds, after which a topic partition is idle; None if it never is
    """

    advances: bool
    idle_after: int | None


def shared_times(pipeline: Pipeline) -> Mapping[str, SharedTime]:
    """The inputs of which all buckets need event times."""
    stepped = {name for operator in pipeline.operators if by_stream_time(operator) for name in operator.inputs}
    shared = {
        stream.name: SharedTime(event_time.lag is not None or stream.name in stepped, event_time.idle_after)
        for stream in pipeline.inputs
        if (event_time := stream.event_time) is not None
    }
    return {name: time for name, time in shared.items() if time != SharedTime(advances=False, idle_after=None)}


def by_stream_time(operator: Operator) -> bool:
    """Whether the tuples of all keys move the time of the operator itself (KIP T1)."""
    return isinstance(operator, Windowed) and operator.window.timed_by_topic_partition


def spread_by(pipeline: Pipeline) -> Mapping[str, Keys] | None:
    """The key by which each input stream is spread over buckets (`layout`); None if the pipeline needs one bucket."""
    return layout(pipeline).keys


def required_buckets(pipeline: Pipeline) -> int | None:
    """The number of buckets that a pipeline must have; None if any number will do."""
    return 1 if spread_by(pipeline) is None else pipeline.settings.buckets


def layout(pipeline: Pipeline) -> SpreadPlan:
    """The key of each input stream, or the reasons for one bucket.

    Tuples that meet in a window partition of any operator, or in a join, must have equal keys. The key of a window is
    its `partition_by`, because tuples of different partitions never meet. If the window reads the output of another
    operator, `partition_by` must be traced to attributes of the input stream. Event times of all keys, which windows
    need together, are given to all buckets, unless ET3 names the case.
    """
    keys: dict[str, Keys] = {}
    why: dict[str, str] = {}
    for stream in pipeline.inputs:
        requirements = list(dict.fromkeys(_needed(pipeline, stream.name)))
        why |= _together(stream, requirements)
        keys[stream.name] = requirements[0].key if requirements else ()
    instead = tuple(dict.fromkeys(why.values())) if all(why.values()) else ()
    return SpreadPlan(None, tuple(why), instead) if why else SpreadPlan(keys)


def _together(stream: Stream, requirements: list[KeyRequirement]) -> Iterator[tuple[str, str]]:
    """The reasons why all tuples of the stream must be in one bucket, each with what to change in the file."""
    for requirement in requirements:
        if not requirement.key:
            yield f"{requirement.operator}: {requirement.why}", requirement.instead
    if len({requirement.key for requirement in requirements}) > 1 and all(
        requirement.key for requirement in requirements
    ):
        several = " and ".join(
            f"{requirement.operator} by {expressions(requirement.key)}" for requirement in requirements
        )
        instead = f"give each of these operators a stream with `exchange: true`, which a map writes of {stream.name}"
        yield f"{stream.name} would have to be distributed by two keys: {several}", instead


def independent(join: Join) -> tuple[int, ...]:
    """The positions of the equalities by which the tuples of the join may be distributed.

    Only tuples with equal keys are paired. In addition, a tuple must not evict a tuple with another key: either each
    tuple expires by its own time, or the window partition contains only tuples of one key. A row of a table
    is alone in its partition (M7).
    """
    if join.window is not None:
        return tuple(range(len(join.left.equality)))
    pairs = enumerate(zip(join.left.equality, join.right.equality, strict=True))
    return tuple(n for n, (left, right) in pairs if _within(join.left, left) and _within(join.right, right))


def equalities_apart(pipeline: Pipeline, join: Join) -> tuple[int, ...]:
    """The positions of the equalities by which the tuples of a join are distributed over buckets, in the order of the
    key.

    These are the positions of `independent`, or fewer if a downstream operator requires a part of them.
    """
    for output in join.outputs:
        for requirement in _needed(pipeline, output.stream, behind_window=True):
            positions = _equalities(join, output, requirement.key)
            if positions:
                return positions
    return independent(join)


def keys_apart(pipeline: Pipeline, operator: Dedup | KeyedMap) -> tuple[int, ...]:
    """The positions in its key of the expressions by which the tuples of a Dedup or a KeyedMap are distributed over
    buckets, in the order of the key: all of them, or the part that a downstream operator requires (`_of_passing`).
    """
    whole_key = _own_key(operator)
    for output in operator.outputs:
        for requirement in _needed(pipeline, output.stream):
            key = _through(operator, output, requirement).key
            if key and set(key) <= set(whole_key):
                return tuple(map(whole_key.index, key))
    return tuple(range(len(whole_key)))


def _own_key(operator: Dedup | KeyedMap | Delay) -> Keys:
    return operator.by if isinstance(operator, Dedup) else operator.partition_by


def _within(side: Side, key: Expression) -> bool:
    if side.window.partition_eviction:
        return False
    return side.window.eviction.apart or key in side.partition_by


def _needed(pipeline: Pipeline, stream: str, *, behind_window: bool = False) -> Iterator[KeyRequirement]:
    """The requirements of all operators that read the stream, directly or through other operators.

    `behind_window`: a windowed operator is upstream. Each of its marks closes the tuples of all keys, so a downstream
    punct() window must see all keys.
    """
    for operator in pipeline.operators:
        for port, name in enumerate(operator.inputs):
            if name == stream:
                yield from _requirements(pipeline, operator, port, behind_window=behind_window)
                yield from _whole(pipeline, pipeline.streams[stream], operator)


def _whole(pipeline: Pipeline, stream: Stream, operator: Operator) -> Iterator[KeyRequirement]:
    """The reason why one bucket must see the whole stream for this operator, independent of its kind, if there is one.

    The router gives the event times of an input to all buckets (ET2). It does not have those of a stream that an
    operator writes.
    """
    event_time = stream.event_time
    computed = event_time is not None and (event_time.lag is not None or event_time.idle_after is not None)
    if event_time is not None and computed and stream not in pipeline.inputs:
        why = (
            f"the watermarks of {stream.name} are computed from the tuples of all keys, which an operator writes (ET3)"
        )
        yield KeyRequirement(operator.name, (), why, f"send {stream.name} through its topic, with `exchange: true`")
    elif event_time is not None and event_time.idle_after == 0:
        why = f"with `idle_after: 0` each tuple of {stream.name} decides which topic partition is idle (ET3)"
        yield KeyRequirement(operator.name, (), why, f"give {stream.name} an idle_after above 0")
    if stream.marks_in == "aligned" and (computed or stream.mark_of or not _storing(operator)):
        why = f"items of all keys that wait for an aligned mark of {stream.name} are released together, in order"
        yield KeyRequirement(operator.name, (), why)


def _storing(operator: Operator) -> bool:
    """Whether tuples are only stored, and cause no output before the next mark (T18)."""
    return isinstance(operator, Windowed) and operator.window.only_stores


def _requirements(
    pipeline: Pipeline, operator: Operator, port: int, *, behind_window: bool
) -> Iterator[KeyRequirement]:
    """The requirements of the operator, and of the operators downstream of it, on the stream at this port."""
    windowed = not isinstance(operator, Passing)
    behind = [
        (output, requirement)
        for output in operator.outputs
        for requirement in _needed(pipeline, output.stream, behind_window=behind_window or windowed)
    ]
    if isinstance(operator, Join):
        yield from _of_join(pipeline, operator, port, behind)
        return
    if isinstance(operator, Barrier):
        yield from _of_barrier(operator, port, behind)
        return
    downstream = [_through(operator, output, requirement) for output, requirement in behind]
    if isinstance(operator, Dedup | KeyedMap) or (isinstance(operator, Delay) and operator.partition_by):
        yield from _of_passing(pipeline, operator, downstream)
    elif isinstance(operator, Delay):
        why = "its tuples and marks leave in the order in which they came, those of all keys together (DL6)"
        instead = f"send the stream that {operator.name} writes, or reads, through its topic, with `exchange: true`"
        yield KeyRequirement(operator.name, (), why, instead)
    elif not isinstance(operator, Passing):
        yield _own(pipeline, operator, behind_window=behind_window)
    yield from downstream


def _of_passing(
    pipeline: Pipeline, operator: Dedup | KeyedMap | Delay, downstream: list[KeyRequirement]
) -> Iterator[KeyRequirement]:
    """The requirement of a Dedup, a KeyedMap or a Delay itself: its key. None if downstream operators require a part of
    it, because tuples with equal keys have equal parts. Tuples that leave when a time is over may share a cause, and
    are then in order of the whole key.
    """
    key = _own_key(operator)
    if not key:
        why = "previous() reads the tuples of all keys, as it has no partition_by (PV10)"
        yield KeyRequirement(operator.name, (), why, f"give {operator.name} partition_by")
        return
    if isinstance(operator, KeyedMap) and not all(_of_one_tuple(operator, part) for part in key):
        why = f"its key {expressions(key)} is one of the elements of `each`, which are not in {operator.input}"
        instead = (
            f"take the elements apart in a map before {operator.name}, which writes a stream with `exchange: true`"
        )
        yield KeyRequirement(operator.name, (), why, instead)
        return
    if isinstance(operator, Dedup) and operator.by_tuples:
        yield KeyRequirement(operator.name, (), "the tuples of all keys decide how long a key is remembered (Z9, Z10)")
        return
    why = _windows_in_order(pipeline, operator) if isinstance(operator, Dedup) else ""
    whole = isinstance(operator, Delay) or (isinstance(operator, Dedup) and operator.keep == "last")
    parts = [requirement.key for requirement in downstream if requirement.key]
    if why or whole or not any(set(part) <= set(key) for part in parts):
        instead = why and f"{BETWEEN} {operator.name} and its readers"
        yield KeyRequirement(operator.name, () if why else key, why, instead)


def _own(pipeline: Pipeline, operator: Windowed, *, behind_window: bool) -> KeyRequirement:
    """The requirement of a windowed operator on its own input. A table is spread if its key has the partition
    (EN17).
    """
    why = (
        sees_all(operator)
        or _by_other_times(pipeline, operator)
        or operator.window.needs_one_bucket(described=described(operator), behind_window=behind_window)
        or _windows_in_order(pipeline, operator)
    )
    if why:
        return KeyRequirement(operator.name, (), why, _spread(pipeline, operator, behind_window=behind_window))
    if not operator.partition_by:
        return KeyRequirement(operator.name, (), "its window has no partitions", f"give {operator.name} {PARTITIONED}")
    key = operator.window.table_key
    if key is not None and not _of_key(key, operator.partition_by):
        why = "a changed row may move to another window partition, and a deletion has the key of its row alone (EN17)"
        instead = f"give {operator.name} a partition_by of attributes of the table's key: {', '.join(key)}"
        return KeyRequirement(operator.name, (), why, instead)
    return KeyRequirement(operator.name, operator.partition_by)


def _by_other_times(pipeline: Pipeline, operator: Windowed) -> str:
    """The reason for one bucket if the stream time of the operator cannot be computed from the event times of an input
    (ET3); empty if it can, or if it has none.
    """
    if not by_stream_time(operator):
        return ""
    stream = pipeline.streams[operator.input]
    if stream not in pipeline.inputs:
        return f"the tuples of all keys of {stream.name}, which an operator writes, move its stream time (T1, ET3)"
    if stream.event_time is not None and stream.event_time.advance:
        return "with `advance` its windows close by topic partitions, of all keys together (Q5)"
    if not isinstance(operator, Aggregate):
        return "a class in Python may reject a tuple, which then does not move the stream time (T1, ET3)"
    if any(isinstance(part, Call) for e in _read_of_a_tuple(operator) for part in walk(e)):
        return "a tuple for which an expression has no value does not move the stream time (T1, ET3)"
    return ""


def _read_of_a_tuple(operator: Aggregate) -> Iterator[Expression]:
    """The expressions that the aggregate evaluates for each tuple."""
    yield from (*operator.partition_by, *operator.group_by)
    for output in operator.outputs:
        for _, e in output.attributes:
            calls = [part for part in walk(e) if isinstance(part, AggregateCall)]
            yield from (argument for call in calls for argument in call.arguments)
            if not calls:
                yield e


def _of_key(key: tuple[str, ...], partition_by: Keys) -> bool:
    """Whether the key of a row determines its window partition."""
    return all(a.name in key for e in partition_by for a in walk(e) if isinstance(a, Attribute))


def _spread(pipeline: Pipeline, operator: Windowed, *, behind_window: bool) -> str:
    """What to change if the operator needs one bucket though its window has partitions; empty if nothing would help."""
    if sees_all(operator):
        return f"let {operator.name} count the tuples of the own partition: Count(), or group_by"
    if operator.window.needs_one_bucket(described=frozenset(), behind_window=behind_window):
        return ""
    if operator.window.needs_one_bucket(described=described(operator), behind_window=behind_window):
        return f"leave paneIndex and paneTiming out of {operator.name}, or its discardAge"
    if _by_other_times(pipeline, operator):
        return f"send {operator.input} through its topic, with `exchange: true`" * (
            pipeline.streams[operator.input] not in pipeline.inputs
        )
    return f"{BETWEEN} {operator.name} and the window behind it"


def described(operator: Windowed) -> frozenset[str]:
    """The fields of a firing that the operator reads. A user's class may read all of them."""
    if isinstance(operator, Custom):
        return frozenset(function.describes for function in WINDOW_FUNCTIONS.values())
    return frozenset(WINDOW_FUNCTIONS[name].describes for name in _called(operator) & WINDOW_FUNCTIONS.keys())


def _called(operator: Windowed) -> set[str]:
    """The names of the functions in the outputs that are computed of a window. With a condition, CountByGroup is of the
    own partition (FN4).
    """
    parts = [part for output in operator.outputs for _, e in output.attributes for part in walk(e)]
    return {part.function for part in parts if isinstance(part, AggregateCall) and part.where is None}


def _windows_in_order(pipeline: Pipeline, operator: Windowed | Dedup) -> str:
    """The reason for one bucket if a downstream operator depends on the order of the windows (of a Dedup: the periods)
    that one watermark ends.

    The outputs of buckets are merged by window (merge.py). A downstream operator gets tuples without their windows.
    """
    several = (
        operator.keep == "last" and operator.over == "event_time"
        if isinstance(operator, Dedup)
        else operator.window.fires_at_watermarks or operator.window.timed_by_topic_partition
    )
    behind = any(_fires_as_they_come(pipeline, output.stream) for output in operator.outputs)
    ended = "periods" if isinstance(operator, Dedup) else "panes"
    return f"a downstream window depends on the order of its {ended}" if several and behind else ""


def _fires_as_they_come(pipeline: Pipeline, stream: str) -> bool:
    readers = [operator for operator in pipeline.operators if stream in operator.inputs]
    windows = [reader.window for reader in readers if isinstance(reader, Windowed)]
    maps = [output.stream for reader in readers if isinstance(reader, Passing) for output in reader.outputs]
    return (
        any(isinstance(reader, KeyedMap | Barrier | Delay) for reader in readers)
        or any(not window.fires_at_watermarks for window in windows)
        or any(_fires_as_they_come(pipeline, output) for output in maps)
    )


def sees_all(operator: Windowed) -> str:
    """Why an output counts the tuples of all partitions, as CountAll can do (A18); empty if none does."""
    if operator.window.counts_own_partition:
        return ""
    called = _called(operator)
    by_group = isinstance(operator, Aggregate) and bool(operator.group_by)
    if "CountAll" in called:
        return "CountAll counts the tuples of all partitions (A18)"
    if "CountByGroup" in called and not by_group:
        return "CountByGroup without group_by counts the tuples of all partitions (A18)"
    return ""


# ---- tracing a key upstream ------------------------------------------------------------------------------------------


def _through(operator: Windowed | Passing, output: Output, requirement: KeyRequirement) -> KeyRequirement:
    """Traces a requirement on an output to the operator's input. The key is empty if it cannot be traced."""
    attributes = dict(output.attributes)
    traced = tuple(_source(operator, attributes[e.name]) for e in requirement.key if isinstance(e, Attribute))
    key = tuple(e for e in traced if e is not None)
    return _traced(requirement, key, output) if len(key) == len(requirement.key) else _traced(requirement, (), output)


def _traced(requirement: KeyRequirement, key: Keys, output: Output) -> KeyRequirement:
    if key or requirement.why:
        return KeyRequirement(requirement.operator, key, requirement.why, requirement.instead)
    why = f"{expressions(requirement.key)} of {output.stream} cannot be traced to attributes of the input"
    instead = f"send {output.stream} through its topic, with `exchange: true`: {requirement.operator} is then a stage"
    return KeyRequirement(requirement.operator, (), why, f"{instead} of its own")


def _source(operator: Windowed | Passing, expression: Expression) -> Expression | None:
    """The expression over the operator's input that always has the same value as this output attribute; None if none.

    For an aggregate it is an expression of `partition_by`. The outputs of a Python class cannot be traced.
    """
    if isinstance(operator, Custom):
        return None
    if isinstance(operator, Map | Sort) and not _of_one_tuple(operator, expression):
        return None
    if not isinstance(operator, Aggregate):
        return expression
    match expression:
        case AggregateCall(("First" | "Last" | "Any" | "Min" | "Max"), (argument,), where=None) if (
            argument in operator.partition_by
        ):
            return argument
    return None


def _of_one_tuple(operator: Map | Sort, expression: Expression) -> bool:
    """Whether the expression reads the tuple of the input alone: no element of `each`, no earlier tuple, no rank; and
    calls no class, which the readers of records do not load.
    """
    each = operator.each if isinstance(operator, Map) else None
    elements = {name for name, _ in each.attributes} if each else set()
    return not any(
        (isinstance(part, Attribute) and part.name in elements)
        or (isinstance(part, Call) and part.function in (PREVIOUS, "Custom", *RANKS))
        for part in walk(expression)
    )


def _of_join(
    pipeline: Pipeline, join: Join, port: int, behind: list[tuple[Output, KeyRequirement]]
) -> Iterator[KeyRequirement]:
    """The requirements of a join: its equalities, or the part of them that downstream operators require."""
    side = (join.left, join.right)[port]
    apart = independent(join)
    if join.fires_at_watermarks and any(_fires_as_they_come(pipeline, output.stream) for output in join.outputs):
        why = "a downstream window depends on the order of its outputs"
        yield KeyRequirement(join.name, (), why, f"{BETWEEN} {join.name} and the window behind it")
        return
    if not behind:
        yield _apart(join, side, apart)
    for output, requirement in behind:
        positions = _equalities(join, output, requirement.key)
        requirement_apart = _apart(join, side, apart)
        if requirement_apart.key and positions and set(positions) <= set(apart):
            yield KeyRequirement(requirement.operator, tuple(side.equality[n] for n in positions))
        else:
            yield _traced(requirement, (), output) if requirement_apart.key else requirement_apart


def barrier_apart(pipeline: Pipeline, barrier: Barrier) -> tuple[int, ...]:
    """The positions in the key of the expressions by which the tuples of a Barrier are distributed over buckets: all of
    them, or the part that a downstream operator requires.
    """
    for output in barrier.outputs:
        for requirement in _needed(pipeline, output.stream, behind_window=True):
            positions = _of_ports(barrier, output, requirement.key)
            if positions:
                return positions
    return tuple(range(len(barrier.partition_by)))


def _of_barrier(barrier: Barrier, port: int, behind: list[tuple[Output, KeyRequirement]]) -> Iterator[KeyRequirement]:
    """The requirements of a Barrier: its key, or the part of it that downstream operators require."""
    key = barrier.ports[port].key
    if not key:
        why = "it has no partition_by, so that it counts the tuples of each input (BA8)"
        yield KeyRequirement(barrier.name, (), why, f"give {barrier.name} partition_by, if only equal keys meet")
        return
    parts = [(output, requirement, _of_ports(barrier, output, requirement.key)) for output, requirement in behind]
    if not any(positions for _, _, positions in parts):
        yield KeyRequirement(barrier.name, key)
    for output, requirement, positions in parts:
        if positions:
            yield KeyRequirement(requirement.operator, tuple(key[place] for place in positions))
        else:
            yield _traced(requirement, (), output)


def _of_ports(barrier: Barrier, output: Output, key: Keys) -> tuple[int, ...]:
    """The positions in the key of the Barrier that give the attributes of this key; () if an attribute is none."""
    attributes = dict(output.attributes)
    positions = [_of_port(barrier, attributes.get(e.name)) for e in key if isinstance(e, Attribute)]
    return tuple(n for n in positions if n is not None) if len(positions) == len(key) and None not in positions else ()


def _of_port(barrier: Barrier, expression: Expression | None) -> int | None:
    if not isinstance(expression, Attribute):
        return None
    plain = Attribute(expression.name, expression.type)
    ports = [port for port in barrier.ports if expression.port in (port.name, None)]
    in_all_keys = all(plain in port.key for port in ports)
    return ports[0].key.index(plain) if in_all_keys and len({port.key.index(plain) for port in ports}) == 1 else None


def _apart(join: Join, side: Side, apart: tuple[int, ...]) -> KeyRequirement:
    if apart:
        return KeyRequirement(join.name, tuple(side.equality[n] for n in apart))
    if not join.left.equality:
        instead = f"give {join.name} equality_left and equality_right, if only tuples with an equal key are partners"
        return KeyRequirement(join.name, (), "it has no equalities", instead)
    instead = f"give the windows of {join.name} `partitioned`, with partition_by_left and partition_by_right as the "
    why = "its windows evict tuples across the keys of its equalities"
    return KeyRequirement(join.name, (), why, f"{instead}equalities, or time(...) in place of the eviction policy")


def _equalities(join: Join, output: Output, key: Keys) -> tuple[int, ...]:
    """The positions of the equalities that give the attributes of this key; () if an attribute is no equality."""
    attributes = dict(output.attributes)
    positions = [_equality(join, attributes.get(e.name), output) for e in key if isinstance(e, Attribute)]
    return tuple(n for n in positions if n is not None) if len(positions) == len(key) and None not in positions else ()


def _equality(join: Join, expression: Expression | None, output: Output) -> int | None:
    """The position of the equality whose value the attribute has in every output tuple; None if there is none."""
    if not isinstance(expression, Attribute):
        return None
    side, other = (join.left, join.right) if expression.port == "left" else (join.right, join.left)
    standing_in = output in join.matched and other.outer and other.unmatched is None
    plain = Attribute(expression.name, expression.type)
    return None if standing_in or plain not in side.equality else side.equality.index(plain)


# ---- outputs that the buckets write ----------------------------------------------------------------------------------
#
# A topic partition that only one bucket writes needs no merge of buckets: its records are in the order in which the
# bucket makes them. Bucket b of B owns the topic partitions whose number is b modulo B. A record gets there if its
# bucket and its topic partition follow from the same number: the hash of one key, or the topic partition from which it
# was read. The number of topic partitions must then be a multiple of B (docs/exactly-once.md).


def own_outputs(pipeline: Pipeline, buckets: int, topic_partitions: Mapping[str, int]) -> frozenset[str]:
    """The names of the output streams that the buckets write. `topic_partitions`: by stream."""
    return frozenset(
        stream.name
        for stream in pipeline.outputs
        if not why_driver(pipeline, stream, buckets, topic_partitions.get(stream.name))
    )


def why_driver(pipeline: Pipeline, stream: Stream, buckets: int | None, topic_partitions: int | None) -> str:
    """Why the driver writes this output stream, in words, with what to change; empty if the buckets write it.

    `buckets`, `topic_partitions`: None: the number is not known yet, and fits.
    """
    keys = spread_by(pipeline)
    if keys is None or buckets == 1:
        return ""
    why = next(_whys(pipeline, stream.name, keys), "")
    if why or topic_partitions is None or buckets is None or topic_partitions % buckets == 0:
        return why
    return (
        f"{topic_partitions} topic partitions are no multiple of {buckets} buckets: give the topic {buckets}, or a "
        "multiple of that, or set `buckets` to a divisor of their number"
    )


def writer_lines(stage: Pipeline) -> Iterator[str]:
    """Who writes each output of a stage with `writers: buckets`, in words, as far as the file says it."""
    for stream in stage.outputs:
        why = why_driver(stage, stream, stage.settings.buckets, stream.partitions)
        yield f"{stream.name}: the driver, since {why}" if why else f"{stream.name}: each bucket its topic partitions"


def _whys(pipeline: Pipeline, stream: str, keys: Mapping[str, Keys]) -> Iterator[str]:
    """The reasons that do not depend on numbers."""
    marks = pipeline.streams[stream].marks == "record"
    for source in _sources(pipeline, stream):
        if isinstance(source, str):
            if keys[source]:
                yield (
                    f"its records go to the topic partitions of {source}, and its tuples are in buckets by "
                    f"{expressions(keys[source])}: write it in a pipeline of its own"
                )
        elif isinstance(source, Dedup):
            yield f"its records go to the topic partitions from which {source.name} reads, and not by its key"
        elif isinstance(source, Custom):
            yield f"the class of {source.name} may emit tuples without a window partition"
        else:
            key = source.left.equality if isinstance(source, Join) else source.partition_by
            if any(len(keys[name]) != len(key) for name in _read(pipeline, source.inputs)):
                yield f"its records are in topic partitions by {expressions(key)}, and its tuples in buckets by less"
            elif marks and _fires_empty(source):
                yield (
                    f"the mark of a firing of {source.name} without tuples depends on all buckets: write `marks: "
                    "header`, or `none`"
                )


def _sources(pipeline: Pipeline, stream: str) -> Iterator[str | Aggregate | Barrier | Custom | Dedup | Join | Sort]:
    """What decides the topic partitions of a stream's records: the names of inputs, or operators with windows."""
    writer = pipeline.writer_of(stream)
    if writer is None:
        yield stream
    elif isinstance(writer, Map | Union | Delay):
        for name in writer.inputs:
            yield from _sources(pipeline, name)
    else:
        yield writer


def _read(pipeline: Pipeline, streams: tuple[str, ...]) -> Iterator[str]:
    """The inputs of the pipeline from which these streams come."""
    for stream in streams:
        writer = pipeline.writer_of(stream)
        if writer is None:
            yield stream
        else:
            yield from _read(pipeline, writer.inputs)


def _fires_empty(operator: Aggregate | Barrier | Join | Sort) -> bool:
    """Whether the operator may emit the mark of a firing that found no tuples, which all buckets must have (B9)."""
    if isinstance(operator, Join | Barrier):
        return False
    window = operator.window
    return not window.fires_at_watermarks and (window.falls_due(evictions=False) or window.flushed_by_marks)
