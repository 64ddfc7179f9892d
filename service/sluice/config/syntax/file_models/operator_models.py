"""The models of the operators, one for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from sluice.config.syntax.file_models.value_models import (
    AS_LIST,
    MAPPING,
    NAMED,
    ExpressionText,
    FileModel,
    Name,
    Seconds,
)
from sluice.model.errors import one_of
from sluice.model.members import text_of
from sluice.model.windows.join_windows import JOIN_WINDOWS
from sluice.model.windows.kinds import SIZED, kinds_reading, kinds_with_early, kinds_with_panes
from sluice.model.windows.policies.policy_table import POLICIES

# tags of kinds of operators, and of an output that is a list
AGGREGATE, MAP, JOIN, SORT, DEDUP, CUSTOM = "<aggregate>", "<map>", "<join>", "<sort>", "<dedup>", "<custom>"
SPLIT, BARRIER, PAIR = "<split>", "<barrier>", "<pair>"
DELAY, THROTTLE = "<delay>", "<throttle>"
LIST = "<list>"
#: between the names of the streams of a union
PLUS = "+"
#: what every window clause has: a policy, or a part that its kind needs
NEEDED = (*POLICIES, *(part for kind in SIZED.values() for part in kind.parts if kind.parts[part].needed))
WINDOW = rf"\b({'|'.join(NEEDED)})\s*\("


def union_of(streams: Sequence[str]) -> str:
    """The name of the union of these streams. No stream of a file has a name with a plus sign."""
    return PLUS.join(streams)


def _are_texts(values: Sequence[object]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


#: the input of an operator: a stream, or several with the same attributes, which the operator reads as one
Input = Annotated[
    str,
    BeforeValidator(lambda value: union_of(value) if isinstance(value, list) and _are_texts(value) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]
INPUT = "The input stream, or a list of streams."
#: limited because parsing takes time that grows with the square of the length
WindowText = Annotated[str, Field(max_length=4_000)]


def flat(value: object) -> object:
    """The attributes of an output, of which one within mappings has its path as its name (PA8)."""
    if not isinstance(value, dict) or not any(isinstance(inner, dict) for inner in value.values()):
        return value
    return {text_of(path) if len(path) > 1 else path[0]: inner for path, inner in _leaves(value)}


def _leaves(mapping: dict[Any, Any]) -> Iterator[tuple[tuple[Any, ...], object]]:
    for name, inner in mapping.items():
        if isinstance(inner, dict) and inner and all(isinstance(key, str) for key in (name, *inner)):
            yield from (((name, *path), leaf) for path, leaf in _leaves(inner))
        else:
            yield (name,), inner


#: the attributes of an output; a mapping in place of an expression is an object of the record
Attributes = Annotated[
    dict[str, ExpressionText],
    BeforeValidator(flat),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "type": ["string", "number", "boolean", "object"],
                "examples": ["Sum(price * size) / Sum(size)", "symbol", {"id": "id", "name": "name"}],
            },
        }
    ),
]
Outputs = Annotated[
    Annotated[dict[str, Attributes], Tag(MAPPING)] | Annotated[list[str], Tag(LIST)],
    Discriminator(lambda value: LIST if isinstance(value, list) else MAPPING),
    Field(
        description="For each output stream its attributes, each an expression, or a mapping for an object in the "
        "record. A list of streams writes the attributes of the input unchanged.",
        examples=[{"averages": {"symbol": "symbol", "price": "Average(price)"}}, ["large"]],
    ),
]


class AlignShape(FileModel):
    """The times of a timer's ticks on the wall clock."""

    at: str = Field("00:00", description="The local time of one of the ticks: hours and minutes, optionally seconds.")
    zone: str = Field(
        "UTC", description="The name of the time zone in the time zone database.", examples=["Europe/Berlin"]
    )
    on: Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None = Field(
        None, description="For a period of one week: the day of the week on which it begins."
    )


def aligned() -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        None,
        description="The wall clock of a time zone, which timers of time(...) and panes of the calendar follow.",
        examples=[{"at": "23:59", "zone": "Europe/Berlin"}],
    )


def partitioned() -> Any:  # noqa: ANN401
    return Field(
        [], description="The key: each value has its own windows. Requires `partitioned` in the window clause."
    )


def own_line() -> Any:  # noqa: ANN401
    return Field(
        [],
        description="The key: the tuples of each key wait in a line of their own, and marks do not wait.",
        examples=[["customer"]],
    )


def rest() -> Any:  # noqa: ANN401
    return Field(
        default=False,
        description="Whether the final mark flushes a tumbling window; by default the rest is lost, as in SPL.",
    )


#: what an attribute of an empty pane has; YAML reads `null` as no value
Fill = Annotated[
    Literal["null", "zero", "previous"],
    BeforeValidator(lambda value: "null" if value is None else value),
    WithJsonSchema({"enum": [None, "null", "zero", "previous"]}),
]


class EmptyPanesShape(FileModel):
    """Results of panes in which a key has no tuples."""

    fill: Fill = Field(
        "null",
        description="The value of attributes that depend on tuples: `null`, `zero` (also an empty text or list), or "
        "`previous`, of the latest pane with tuples.",
    )
    attributes: dict[str, Fill] = Field(
        {}, description="The value of single attributes.", examples=[{"total": "zero", "price": "previous"}]
    )
    forget_after: Seconds = Field(
        description="How long a key has results behind its latest pane with tuples, in event time.",
        gt=0,
        examples=["1h"],
    )


class StatefulShape(FileModel):
    """What operators with a state have in common."""

    name: Name = Field(description="The operator's name, under which its state is stored.")


class AggregateShape(StatefulShape):
    """Computes aggregation functions over the windows of a stream (SPL's Aggregate)."""

    aggregate: Input = Field(description=INPUT, examples=["trades", ["trades", "late_trades"]])
    window: WindowText = Field(
        description="The window clause: `tumbling` or `sliding` with policies, perhaps `partitioned`, or a kind with "
        f"sizes: {one_of(list(SIZED))}. See windows.md.",
        examples=[
            "sliding, time(300.0), count(1), partitioned",
            "tumbling, punct()",
            "tumbling, delta(time, 60.0)",
            *(kind.example for kind in SIZED.values()),
        ],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = partitioned()
    group_by: list[ExpressionText] = Field(
        [], description="Expressions that divide a firing window into groups, each with one output tuple."
    )
    aggregate_incomplete_windows: bool = Field(
        default=True,
        description="Whether a sliding window emits results before it was full for the first time. SPL's default is "
        "false.",
    )
    aggregate_evicted_partitions: bool = Field(
        default=False, description="Whether a tumbling window emits a result of an evicted partition."
    )
    emit_rest: bool = rest()
    align: AlignShape | None = aligned()
    emit: Literal["final", "updates"] = Field(
        "final",
        description=f"When a {kinds_reading('emit')} window is emitted: once when it closes, or at each change.",
    )
    early: str | None = Field(
        None,
        description="When an open window also emits what it holds so far, without a mark: count(n), after every n "
        "tuples; time(seconds) after a tuple that no result has had; or both, with `or`. For "
        f"{kinds_with_early()} windows. `isEarly()` says whether a result is early.",
        examples=["time(10)", "count(1000)", "count(1000) or time(10)"],
    )
    empty_panes: EmptyPanesShape | None = Field(
        None,
        description=f"With a {kinds_with_panes()} window: also a result of each pane in which a key has no tuples "
        "(EP1). `isEmpty()` is true in it.",
        examples=[{"fill": "previous", "forget_after": "1h"}],
    )
    window_set: Literal["distinct", "perTimestampForward", "perTimestampBackward"] = Field(
        "distinct",
        description="Which windows `slidingTime` has: one per distinct set of tuples, or one that starts (Forward) "
        "or ends (Backward) at each event time.",
    )
    output: Outputs


class MapShape(FileModel):
    """Gives one or no output tuple for each tuple, or for each element of its list with `each`, and forwards marks
    (SPL's Functor and Filter).
    """

    name: Name = Field(description="The operator's name.")
    map: Input = Field(description=INPUT)
    each: ExpressionText | None = Field(
        None,
        description="`items as item at n`: a list or map of the tuple, the name of its elements and, if needed, of "
        "their position from 0. Each element gives a tuple.",
        examples=["items as item", "order.items as item at n"],
    )
    where: ExpressionText | None = Field(
        None,
        description="A condition. Tuples for which it is not true are dropped.",
        examples=["price > 0 and symbol != ''"],
    )
    partition_by: list[ExpressionText] = Field(
        [], description="The key of `previous(x)`, `change(x)` and `rate(x, t)`."
    )
    forget_after: Seconds | None = Field(
        None,
        description="A key without a tuple for this long by the operator clock begins anew. Without it never.",
        gt=0,
        examples=["1d"],
    )
    output: Outputs


def target(value: object) -> object:
    """A condition or a value of a split. Raises one error where the union below would raise one for each type."""
    if not isinstance(value, str | bool | int | float):
        raise PydanticCustomError("target", "a text, a number, true or false")
    return value


#: a condition, or with `by` a value; of several one is enough
Targets = Annotated[
    list[Annotated[str | bool | int | float, BeforeValidator(target)]],
    AS_LIST,
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
            ]
        }
    ),
]


class SplitShape(FileModel):
    """Passes each tuple unchanged to one of several streams, by conditions or by the value of an expression, and
    forwards marks to all of them (SPL's Split).
    """

    name: Name = Field(description="The operator's name.")
    split: Input = Field(description=INPUT)
    by: ExpressionText | None = Field(
        None,
        description="An expression whose value decides. `to` then has values instead of conditions.",
        examples=["country"],
    )
    to: dict[str, Targets] = Field(
        description="For each output stream a condition or, with `by`, a value; or a list, of which one is enough.",
        examples=[{"large": "amount >= 1000", "urgent": "priority == 1"}, {"german": "DE", "nordic": ["DK", "SE"]}],
        min_length=1,
    )
    otherwise: str | None = Field(None, description="The stream of all other tuples. Without it they are dropped.")
    copies: Literal["first", "all"] = Field(
        "first", description="Whether a tuple goes to the first stream that takes it, or to all that do."
    )

    @property
    def output(self) -> list[str]:
        """The output streams, which get the attributes of the input unchanged."""
        return [stream for _, stream in self.written]

    @property
    def written(self) -> list[tuple[tuple[str, ...], str]]:
        """The output streams, each with its path within the operator."""
        rest = [] if self.otherwise is None else [(("otherwise",), self.otherwise)]
        return [*((("to", stream), stream) for stream in self.to), *rest]


def side_window(side: str) -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(
        None,
        description="As `window_left`, of the right side."
        if side == "right"
        else "The window of the left side. With `count(0)` its tuples are not stored, and only meet stored ones.",
        examples=["sliding, time(60.0)", "sliding, count(1), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )


def side_partition_by(side: str) -> Any:  # noqa: ANN401
    return Field(
        [], description=f"The key of `window_{side}`. It divides the window; only equalities restrict the pairs."
    )


def side_default(side: str, algorithm: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description="As `default_left`, for leftOuter and outer."
        if side == "right"
        else f"For {algorithm} and outer: the left side's attributes in a tuple without a partner. Others are null if "
        'optional, else 0, false, "" or an empty list. `null`: all are null.',
        examples=[{"price": 0.0, "note": "none"}],
    )


def side_unmatched(side: str) -> Any:  # noqa: ANN401
    return Field(
        None,
        description=f"For {side}Outer and outer: a stream for the {side} side's tuples without a partner, unchanged. "
        "Without it they go to `output`.",
    )


def one_stream(value: object) -> object:
    """The name of a stream. Raises an error for a list, which other operators take."""
    if isinstance(value, list):
        message = "the name of one stream, as a join takes no list; a map with the list as its input makes one of it"
        raise PydanticCustomError("one_stream", message)
    return value


OneStream = Annotated[str, BeforeValidator(one_stream)]


class PortsShape(FileModel):
    """The streams on the two sides of a join; they may be the same one."""

    left: OneStream = Field(description="The stream of the left side.")
    right: OneStream = Field(description="The stream of the right side.")


class JoinShape(StatefulShape):
    """Emits pairs of tuples of two streams: tuples that are in their windows at the same time (SPL's Join), or tuples
    whose event times fit.
    """

    join: PortsShape = Field(
        description="The two input streams. Expressions write `left.price` or `right.price`; an attribute that only "
        "one side has needs no prefix.",
        examples=[{"left": "orders", "right": "payments"}],
    )
    window_left: WindowText | None = side_window("left")
    window_right: WindowText | None = side_window("right")
    window: WindowText | None = Field(
        None,
        description="A window over the event times of both sides, in place of the two others: `interval` pairs "
        "tuples of near times, `asOf` each left tuple with the newest right tuple that is not newer.",
        examples=[kind.example for kind in JOIN_WINDOWS.values()],
        json_schema_extra={"pattern": rf"\b({'|'.join(JOIN_WINDOWS)})\b"},
    )
    partition_by_left: list[ExpressionText] = side_partition_by("left")
    partition_by_right: list[ExpressionText] = side_partition_by("right")
    equality_left: list[ExpressionText] = Field(
        [],
        description="Expressions over the left side; in a pair each equals the entry of `equality_right` at its "
        "position.",
        examples=[["order"]],
    )
    equality_right: list[ExpressionText] = Field(
        [], description="Expressions over the right side; see `equality_left`."
    )
    match: ExpressionText | None = Field(
        None, description="A further condition on a pair.", examples=["left.price > right.price"]
    )
    algorithm: Literal["inner", "leftOuter", "rightOuter", "outer"] = Field(
        "inner", description="The sides whose tuples also come out without a partner, when they leave their window."
    )
    default_left: dict[str, Any] | None = side_default("left", "rightOuter")
    default_right: dict[str, Any] | None = side_default("right", "leftOuter")
    unmatched_left: str | None = side_unmatched("left")
    unmatched_right: str | None = side_unmatched("right")
    output: Outputs


Direction = Literal["asc", "desc"]


class OrderShape(FileModel):
    """A sort key with its direction, and with the place of null."""

    direction: Direction = Field("asc", description="Whether the order is ascending or descending.")
    nulls: Literal["first", "last"] = Field(
        "last", description="Whether null is before all values or behind them, in both directions."
    )


DirectionOrOrder = Annotated[
    Annotated[Direction, Tag(NAMED)] | Annotated[OrderShape, Tag(MAPPING)],
    Discriminator(lambda value: MAPPING if isinstance(value, dict | OrderShape) else NAMED),
]


class SortShape(StatefulShape):
    """Emits the tuples of a stream in sorted order (SPL's Sort)."""

    sort: Input = Field(description=INPUT)
    window: WindowText = Field(
        description="The window clause. A tumbling window or pane emits its tuples in order when it fires; `sliding, "
        "count(n)` stores n tuples, and emits the first one of the order when another arrives.",
        examples=["sliding, count(100)", "tumbling, time(1.0), partitioned", "timeInterval, intervalDuration(60.0)"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = partitioned()
    align: AlignShape | None = aligned()
    emit_rest: bool = rest()
    order_by: dict[str, DirectionOrOrder] = Field(
        description="Expressions, the most significant first, each ascending or descending, or a mapping that also "
        "says where null is.",
        min_length=1,
        examples=[{"price": "desc", "time": "asc"}, {"price": {"direction": "desc", "nulls": "first"}}],
    )
    limit: int | None = Field(
        None,
        ge=1,
        description="How many tuples a window emits at most, the first of the order. Not for a sliding window.",
    )
    with_ties: bool = Field(
        default=False,
        description="Whether tuples that are equal in the order to the last one of `limit` come out, too.",
    )
    output: Outputs


class DedupShape(StatefulShape):
    """Emits one tuple of each key and period of time, unchanged; the others are duplicates."""

    dedup: Input = Field(description=INPUT)
    by: list[ExpressionText] = Field(
        description="The key: tuples with equal values are duplicates of each other.", min_length=1, examples=[["id"]]
    )
    within: str = Field(
        description="The period that the first tuple of a key begins: `time(seconds)` of the operator clock, "
        "`eventTime(seconds)`, `count(n)` tuples of all keys, or `delta(attribute, size)`.",
        max_length=100,
        examples=["time(600)", "eventTime(10m)", "count(100)", "delta(odometer, 5)"],
        json_schema_extra={"pattern": r"\b(time|eventTime|count|delta)\s*\("},
    )
    keep: Literal["first", "last"] = Field(
        "first",
        description="Which tuple of a period is emitted: the first, at once, or the last, when the period is over.",
    )
    reset_on_duplicate: bool = Field(
        default=False,
        description="Whether a duplicate begins the period anew, as in SPL by default. Not with eventTime or `keep: "
        "last`.",
    )
    flush_on_mark: bool = Field(
        default=False, description="Whether a window mark makes the operator forget all keys. Not with `keep: last`."
    )
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


#: the key of each input of a barrier: the same expressions for all inputs, or by input
Keys = Annotated[
    Annotated[list[ExpressionText], Tag(LIST)] | Annotated[dict[str, list[ExpressionText]], Tag(MAPPING)],
    Discriminator(lambda value: MAPPING if isinstance(value, dict) else LIST),
]


def inputs() -> Any:  # noqa: ANN401 - pydantic's fields have no type of their own
    return Field(description="The input streams, two or more.", min_length=2, examples=[["orders", "payments"]])


def keys_of_inputs() -> Any:  # noqa: ANN401
    return Field(
        [],
        description="The key: expressions for all inputs, or for each its own. Without it the n-th tuples of the "
        "inputs meet.",
        examples=[["id"], {"orders": ["id"], "payments": ["order"]}],
    )


def buffer(default: int, what: str) -> Any:  # noqa: ANN401
    return Field(
        default, ge=1, le=10_000_000, description=f"How many tuples {what} wait at most; one more is a dead letter."
    )


def timeout() -> Any:  # noqa: ANN401
    return Field(
        None,
        gt=0,
        description="How long a tuple waits by the operator clock before it is a dead letter; without it for ever.",
        examples=["10m"],
    )


class BarrierShape(StatefulShape):
    """Makes one tuple of the n-th tuples of several streams, or of those with equal keys (SPL's Barrier)."""

    barrier: list[str] = inputs()
    partition_by: Keys = keys_of_inputs()
    buffer: int = buffer(1000, "of one input and key")
    timeout: Seconds | None = timeout()
    output: Outputs


class PairShape(StatefulShape):
    """Emits the n-th tuples of several streams, or those with equal keys, one after the other with a mark behind them
    (SPL's Pair).
    """

    pair: list[str] = inputs()
    partition_by: Keys = keys_of_inputs()
    buffer: int = buffer(1000, "of one input and key")
    timeout: Seconds | None = timeout()
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


class DelayShape(StatefulShape):
    """Passes tuples and marks on later, with the times between them (SPL's Delay)."""

    delay: Input = Field(description=INPUT)
    by: Seconds = Field(description="How much later by the operator clock.", gt=0, examples=["30s"])
    partition_by: list[ExpressionText] = own_line()
    buffer: int = buffer(1_000_000, "of a key, or without one of all keys,")
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


class ThrottleShape(StatefulShape):
    """Passes tuples on at a bounded rate, in their order; tuples that are too many wait (SPL's Throttle)."""

    throttle: Input = Field(description=INPUT)
    rate: float = Field(
        description="The most tuples in a second of the operator clock: two tuples are at least 1/rate seconds apart.",
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        examples=[100, 0.5],
    )
    partition_by: list[ExpressionText] = own_line()
    buffer: int = buffer(1_000_000, "of a key, or without one of all keys,")
    output: list[str] = Field(description="The streams to which the tuples are written unchanged.", min_length=1)


class CustomShape(StatefulShape):
    """Calls a Python class with the events of windows."""

    custom: Input = Field(description=INPUT)
    handler: str = Field(
        description="The Python class, a WindowHandler, as `package.module:Class`.", examples=["trading.gaps:Gaps"]
    )
    window: WindowText = Field(
        description="The window clause, as of an aggregate.",
        examples=["sliding, count(2), partitioned"],
        json_schema_extra={"pattern": WINDOW},
    )
    partition_by: list[ExpressionText] = partitioned()
    align: AlignShape | None = aligned()
    output: list[str] = Field(
        description="The streams to which the tuples that the class sends are written.", min_length=1
    )


#: the key that gives the kind of an operator -> the tag of that kind
KINDS = {
    "aggregate": AGGREGATE,
    "map": MAP,
    "join": JOIN,
    "sort": SORT,
    "dedup": DEDUP,
    "custom": CUSTOM,
    "split": SPLIT,
    "barrier": BARRIER,
    "pair": PAIR,
    "delay": DELAY,
    "throttle": THROTTLE,
}
#: tag -> model
SHAPES: dict[str, type[FileModel]] = {
    AGGREGATE: AggregateShape, MAP: MapShape, JOIN: JoinShape, SORT: SortShape, DEDUP: DedupShape,
    CUSTOM: CustomShape, SPLIT: SplitShape, BARRIER: BarrierShape, PAIR: PairShape,
    DELAY: DelayShape, THROTTLE: ThrottleShape,
}  # fmt: skip
OperatorShape = (
    AggregateShape
    | MapShape
    | JoinShape
    | SortShape
    | DedupShape
    | CustomShape
    | SplitShape
    | BarrierShape
    | PairShape
    | DelayShape
    | ThrottleShape
)
#: the path of a value within an operator
Inner = tuple[str | int, ...]
#: keys besides `output` that name an output stream of an operator
UNMATCHED = ("unmatched_left", "unmatched_right")


def inputs_of(operator: OperatorShape) -> list[tuple[Inner, str]]:
    """The input streams in the order of their ports, each with its path within the operator."""
    if isinstance(operator, JoinShape):
        return [(("join", "left"), operator.join.left), (("join", "right"), operator.join.right)]
    word = input_key(operator)
    if isinstance(operator, BarrierShape | PairShape):
        return [((word, number), name) for number, name in enumerate(getattr(operator, word))]
    names = getattr(operator, word).split(PLUS)
    return [((word, number), name) for number, name in enumerate(names)] if len(names) > 1 else [((word,), names[0])]


def input_key(operator: OperatorShape) -> str:
    """The key that names the kind of an operator and its input."""
    return next(word for word, tag in KINDS.items() if isinstance(operator, SHAPES[tag]))


def kind_of(value: object) -> str | None:
    if isinstance(value, dict):
        return next((tag for key, tag in KINDS.items() if key in value), None)
    return AGGREGATE


AnyOperator = Annotated[
    Annotated[AggregateShape, Tag(AGGREGATE)]
    | Annotated[MapShape, Tag(MAP)]
    | Annotated[JoinShape, Tag(JOIN)]
    | Annotated[SortShape, Tag(SORT)]
    | Annotated[DedupShape, Tag(DEDUP)]
    | Annotated[CustomShape, Tag(CUSTOM)]
    | Annotated[SplitShape, Tag(SPLIT)]
    | Annotated[BarrierShape, Tag(BARRIER)]
    | Annotated[PairShape, Tag(PAIR)]
    | Annotated[DelayShape, Tag(DELAY)]
    | Annotated[ThrottleShape, Tag(THROTTLE)],
    Discriminator(kind_of),
]
