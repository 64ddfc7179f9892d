"""How far the tuples of each stream may be behind the watermark that its writer has passed on before them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sluice.model.expressions import Expression
from sluice.model.lateness.emissions import JoinSide, of_aggregate, of_barrier, of_join, own_tuples
from sluice.model.lateness.output_cases import Case, View
from sluice.model.lateness.time_bounds import Bound, Span, TimeScope, TupleTimes, Value, bounds
from sluice.model.spec import (  # fmt: skip
    Aggregate,
    Barrier,
    Custom,
    Dedup,
    Delay,
    EventTime,
    Join,
    Map,
    Operator,
    Output,
    Pipeline,
    Sort,
    Union,
)
from sluice.model.types import FLOAT64, TIMESTAMP, Type
from sluice.time_units import SECOND


@dataclass(frozen=True, slots=True)
class Lateness:
    """How far the tuples of a stream may be behind the watermark.

    behind     nanoseconds at most; infinity if there is no limit; negative if they are always ahead of it
    operator   the operator whose outputs are behind; None if none is
    stream     the output of that operator
    expression the event time of this output
    lag        with this lag, in nanoseconds, in `event_time` of the output none is late; infinity if none is enough
    stale      why the event time is old, in words; may be empty
    """

    behind: Bound
    operator: Operator | None = None
    stream: str = ""
    expression: Expression | None = None
    lag: Bound = math.inf
    stale: str = ""


ON_TIME = Lateness(0)


def lateness(pipeline: Pipeline) -> dict[str, Lateness]:
    """By stream with an event time; a stream of which nothing is known is missing."""
    late_by_stream: dict[str, Lateness] = {}
    for name, stream in pipeline.streams.items():
        if stream.event_time is not None and (stream.event_time.lag is not None or not pipeline.writer_of(name)):
            late_by_stream[name] = ON_TIME
    for operator in pipeline.operators:
        for output in operator.outputs:
            event_time = pipeline.streams[output.stream].event_time
            if event_time is not None and output.stream not in late_by_stream:
                late = _of_output(pipeline, operator, output, event_time, late_by_stream)
                late_by_stream |= {} if late is None else {output.stream: late}
    return late_by_stream


def _of_output(
    pipeline: Pipeline,
    operator: Operator,
    output: Output,
    event_time: EventTime,
    late_by_stream: Mapping[str, Lateness],
) -> Lateness | None:
    """The lateness of an output. If it is due to that of an input alone, the input's operator is named."""
    if isinstance(operator, Union):
        return _of_union(pipeline, operator, late_by_stream)
    expression = dict(output.attributes).get(event_time.attribute)
    if expression is None:
        return None
    late = emitted(pipeline, operator, output, expression, late_by_stream)
    if late is None or late.behind <= 0:
        return late
    on_time = emitted(pipeline, operator, output, expression, dict.fromkeys(late_by_stream, ON_TIME))
    passed = next(
        (
            late_by_stream[name]
            for name in operator.inputs
            if name in late_by_stream and late_by_stream[name].behind > 0
        ),
        None,
    )
    return late if passed is None or on_time is None or on_time.behind > 0 else passed


def _of_union(pipeline: Pipeline, union: Union, late_by_stream: Mapping[str, Lateness]) -> Lateness | None:
    """The latest of the streams; without an event time a stream does not hold the watermark (R3)."""
    untimed = next((name for name in union.inputs if pipeline.streams[name].event_time is None), None)
    if untimed is not None:
        return Lateness(math.inf, union, untimed)
    if any(name not in late_by_stream for name in union.inputs):
        return None
    return max((late_by_stream[name] for name in union.inputs), key=lambda late: late.behind)


# ---- an operator -----------------------------------------------------------------------------------------------------


def emitted(
    pipeline: Pipeline,
    operator: Operator,
    output: Output,
    expression: Expression,
    late_by_stream: Mapping[str, Lateness],
) -> Lateness | None:
    """The lateness of an output if its event time had this expression; None if nothing is known of it.
    `late_by_stream` has the lateness of the operator's inputs.
    """
    cases, event_time = _cases(pipeline, operator, output, late_by_stream), pipeline.streams[output.stream].event_time
    if not cases or event_time is None:
        return None
    unit, held, worst = _units(event_time, expression.type), operator.holds, None
    for case in cases:
        behind, lag = _of_case(case, expression, unit)
        if behind is None:
            return None
        if worst is None or behind - held > worst.behind:
            worst = Lateness(behind - held, operator, output.stream, expression, lag, case.stale)
    return worst


def _units(event_time: EventTime, type_: Type) -> Fraction:
    """Units of the event time in a nanosecond."""
    return Fraction(1, {TIMESTAMP: 1, FLOAT64: SECOND}.get(type_, event_time.tick))


def _of_case(case: Case, expression: Expression, unit: Fraction) -> tuple[Bound | None, Bound]:
    """How far the event time is behind the watermark at most, by the best view, None if nothing is known; and the lag
    with which none is late.
    """
    distances: list[Bound] = []
    lags: list[Bound] = []
    for view in case.views:
        value = bounds(expression, view.scope)
        if value is None or value.scale not in (0, unit):
            continue
        distances.append(view.behind - value.low / unit if value.scale else math.inf)
        lags.append(_lag(view, value, unit))
    return (min(distances) if distances else None), min(lags, default=math.inf)


def _lag(view: View, value: Value, unit: Fraction) -> Bound:
    """How far an output may be behind an earlier one."""
    if not value.scale or math.isinf(value.low):
        return math.inf
    return max((value.high - value.low) / unit + view.goes_back, 0)


def _cases(
    pipeline: Pipeline, operator: Operator, output: Output, late_by_stream: Mapping[str, Lateness]
) -> tuple[Case, ...] | None:
    """None if nothing is known of the outputs."""
    streams = pipeline.streams
    match operator:
        case Join():
            sides = {
                name: JoinSide(streams[side.stream].event_time, _arriving(side.stream, late_by_stream))
                for name, side in (("left", operator.left), ("right", operator.right))
            }
            return tuple(of_join(operator, output, sides))
        case Barrier():
            return tuple(of_barrier(operator, streams))
        case Custom() | Union():
            return None
        case _:
            event_time = streams[operator.input].event_time
            if event_time is None or operator.input not in late_by_stream:
                return None
            return tuple(_of_one_input(pipeline, operator, event_time, late_by_stream[operator.input].behind))


def _arriving(stream: str, late_by_stream: Mapping[str, Lateness]) -> Bound:
    return late_by_stream[stream].behind if stream in late_by_stream else math.inf


def _of_one_input(
    pipeline: Pipeline, operator: Aggregate | Map | Sort | Dedup | Delay, event_time: EventTime, arriving: Bound
) -> Iterator[Case]:
    match operator:
        case Aggregate():
            yield from of_aggregate(operator, event_time, own_tuples(pipeline, operator.input), arriving)
        case Map():
            yield _tuple(
                event_time,
                arriving,
                goes_back=input_times.lag if (input_times := own_tuples(pipeline, operator.input)) else math.inf,
            )
        case Sort(window=window) if window.accepts is None:
            at_once = [policy.tuples for policy in window.policies] == [1]
            stale = "the sort holds tuples while the watermark advances"
            yield _tuple(event_time, arriving if at_once else math.inf, stale)
        case Dedup(keep="last", accepts=None):
            yield _tuple(event_time, math.inf, "keep: last holds tuples by the clock")
        case Delay() if operator.partition_by:
            yield _tuple(event_time, math.inf, "a delay by key holds tuples while the watermark advances")
        case Dedup(accepts=None) | Delay():
            yield _tuple(event_time, arriving)
        case Sort() | Dedup():
            yield _tuple(event_time, operator.holds)


def _tuple(event_time: EventTime, behind: Bound, stale: str = "", goes_back: Bound = math.inf) -> Case:
    """An output made of one tuple, whose event time is the anchor."""
    span = Span(0, 0)
    scope = TimeScope({None: TupleTimes(event_time.attribute, event_time.tick, span, span, span)}, {}, event_time.tick)
    return Case((View(behind, scope, goes_back),), stale)
