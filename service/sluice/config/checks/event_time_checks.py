"""Checks the `event_time` of a stream and the windows over event time that read it, and makes their specifications.

These are the attribute, its type and resolution, the lag, and the sizes of `timeInterval`, `slidingTime` and `session`
windows in ticks of that resolution. Every mistake is reported with its path in the pipeline file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.file_models.operator_models import AggregateShape, CustomShape, SortShape
from sluice.config.syntax.file_models.stream_models import EventTimeShape
from sluice.config.syntax.other_systems import names_timestamp_of_record
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.sized_clause import Sizes
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import Path, nearest
from sluice.model.expressions import Call, Expression, Literal, certain
from sluice.model.spec import UNLIMITED, EventTime, KeyTime, Window
from sluice.model.types import FLOAT64, INT64, Schema, TimeForm, Type
from sluice.model.windows.time_interval_window import MONTHS
from sluice.time_units import MILLISECOND, SECOND

#: resolution of an int64 -> nanoseconds
TICKS = {"milliseconds": MILLISECOND, "microseconds": 1000, "nanoseconds": 1}
#: sizes of a window in ticks, all together, stay below: so that no sum of times and sizes leaves int64
MAX_TICKS = 2**60
#: how long a key without tuples is remembered by default (KT4)
WEEK = 7 * 86_400 * SECOND


def event_time(
    value: str | EventTimeShape, schema: Schema, stream: str, path: Path, report: Report
) -> EventTime | None:
    """The event time that a stream declares; None if the declaration is wrong, which is reported (E1, W16, W27)."""
    shape = EventTimeShape.model_validate({"attribute": value}) if isinstance(value, str) else value
    inner = path if isinstance(value, str) else (*path, "attribute")
    types = dict(schema)
    kind = types.get(shape.attribute)
    if kind is None:
        expected = f"an attribute of {stream} ({', '.join(types)}) (rule W16)"
        if names_timestamp_of_record(shape.attribute):
            expected += "; record_timestamp makes one of the timestamp of the record"
        report.problem(inner, expected, shape.attribute, nearest(shape.attribute, types))
        return None
    if kind.time is None:
        expected = f"a timestamp, an int64 or a float64 with seconds, not {shape.attribute}, a {kind} (rule W27)"
        report.problem(inner, expected, shape.attribute)
        return None
    if shape.resolution is not None and kind.time is not TimeForm.COUNT:
        report.problem((*path, "resolution"), f"none, as {shape.attribute} is a {kind} (rule W27)")
        return None
    if shape.advance and (shape.lag is None or not shape.idle_after):
        report.problem((*path, "advance"), "true only with a lag and with an idle_after above 0")
    tick = TICKS[shape.resolution or "milliseconds"] if kind.time is TimeForm.COUNT else 1
    if shape.per == "key":
        return EventTime(shape.attribute, tick, per_key=key_time(shape, path, report))
    if shape.forget_after is not None:
        report.problem((*path, "forget_after"), "forget_after only with per: key (rule KT4)")
    return EventTime(
        shape.attribute, tick, nanoseconds(shape.lag), nanoseconds(shape.minimum_gap) or 0,
        nanoseconds(shape.idle_after),
        UNLIMITED if shape.max_future == math.inf else nanoseconds(shape.max_future), shape.advance,
    )  # fmt: skip


def key_time(shape: EventTimeShape, path: Path, report: Report) -> KeyTime:
    """The time of each key (KT1). Reports keys of the file that only a watermark of the whole stream has."""
    if shape.lag is None:
        report.problem((*path, "lag"), "a lag, as the tuples of a key move its watermark (rule KT2)", None)
    for name in ("advance", "max_future"):
        if name in shape.model_fields_set:
            report.problem((*path, name), f"no {name} with per: key, as a key does not move the others (rule KT1)")
    idle, forget = nanoseconds(shape.idle_after), nanoseconds(shape.forget_after)
    if idle == 0:
        report.problem((*path, "idle_after"), "an idle_after above 0 (rule KT3)")
    if forget is not None and forget < max(idle or 0, 1):
        report.problem((*path, "forget_after"), "a forget_after above 0 and not less than idle_after (rule KT4)")
    gap = nanoseconds(shape.minimum_gap) or 0
    return KeyTime(nanoseconds(shape.lag) or 0, gap, WEEK if forget is None else forget, idle)


def inherited(upstream: Sequence[tuple[EventTime | None, Schema]], written: Schema) -> EventTime | None:
    """The event time of an output stream: that of the input, if the output has its attribute with the same type (E2,
    E7), be it optional or not; with a time of each key if the input has one (KT8).

    None if the output has none. Its watermarks come from upstream. `upstream` has the event time and the attributes of
    each input. If several inputs have an event time, all of these must be the same.
    """
    kinds = {
        (event_time.attribute, event_time.tick, event_time.per_key, dict(read)[event_time.attribute].present)
        for event_time, read in upstream
        if event_time is not None
    }
    if len(kinds) != 1:
        return None
    ((attribute, tick, per_key, kind),) = kinds
    expression = dict(written).get(attribute)
    return (
        EventTime(attribute, tick, per_key=per_key) if expression is not None and expression.present == kind else None
    )


def window_functions(clause: ParsedClause, event_time: EventTime | None, schema: Mapping[str, Type]) -> dict[str, Type]:
    """The functions that describe the window which fires, with the type of each (E29, E32).

    Over the clock of the operator, times are float64 seconds.
    """
    time = schema[event_time.attribute] if event_time is not None else FLOAT64
    return {function.signature.name: function.type or time for function in clause.kind.functions}


def sized_window(
    clause: ParsedClause, shape: AggregateShape | SortShape | CustomShape, event_time: EventTime | None, path: Path,
    report: Report, *, scope: Scope,
) -> Window:  # fmt: skip
    """The window of a clause without faults. `event_time` is the event time of the input, None without one."""
    sizes = clause.sizes
    assert sizes is not None  # noqa: S101 - the callers have checked
    tick = sizes.kind.tick or (event_time.tick if event_time is not None else 1)
    check_ticks(sizes, tick, (*path, "window"), report)
    options = {key: getattr(shape, key, default) for key, default in sizes.kind.options.items()}
    expressions = {word: size_of(word, sizes, scope, (*path, "window"), report) for word in sizes.expressions}
    months = {} if sizes.months is None else {MONTHS: sizes.months}
    lengths = {**sizes.nanoseconds, **expressions, **months}
    if sizes.months is not None:
        check_calendar(sizes, (*path, "window"), report)
    window = sizes.kind.of(lengths, options, partitioned=clause.partitioned, event_time=event_time is not None)
    for problem in window.problems():
        report.problem((*path, "window"), problem)
    for caution in window.cautions():
        report.caution((*path, "window"), caution)
    return window


def check_calendar(sizes: Sizes, path: Path, report: Report) -> None:
    """Checks that panes of the calendar are adjacent, and begin with its periods (Y2)."""
    for word, part in sizes.parts.items():
        if word in sizes.nanoseconds and word in ("creationPeriod", "intervalOffset"):
            report.fault(path, part.fault(f"no {word}, as the panes are periods of the calendar (rule Y2)"))


def size_of(word: str, sizes: Sizes, scope: Scope, path: Path, report: Report) -> Expression:
    """A size that is an expression of the tuple, float64 seconds; the constant 0 if it is wrong, which is reported."""
    text, part = sizes.expressions[word], sizes.parts[word]
    try:
        expression = certain(parse(text, replace(scope, no_aggregates="in a window clause")))
    except ExpressionError as error:
        start = part.column + part.text.index(text, len(word)) - 1
        for fault in error.faults:
            report.fault(path, replace(fault, column=start + (fault.column or 1)))
        return Literal(0.0, FLOAT64)
    if expression.type == INT64:
        expression = Call("float64", (expression,), FLOAT64)
    if expression.type != FLOAT64:
        report.fault(path, part.fault(f"a size that is float64, in seconds, not {expression.type}"))
    return expression


def check_ticks(sizes: Sizes, tick: int, path: Path, report: Report) -> None:
    """Checks that the sizes are whole numbers of ticks of the event time, so that they are exact (unlike E8)."""
    unit = {n: word for word, n in TICKS.items()}[tick]
    for word, size in sizes.nanoseconds.items():
        if size % tick:
            report.fault(path, sizes.parts[word].fault(f"{word}(seconds) in whole {unit}, in which the window counts"))
    if sum(sizes.nanoseconds.values()) // tick >= MAX_TICKS:
        report.problem(path, f"sizes of less than {MAX_TICKS // (SECOND // tick)} seconds together")


def nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(Decimal(str(seconds)) * SECOND)
