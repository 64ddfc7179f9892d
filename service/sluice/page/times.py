"""Times, durations, counts and rates as texts of the page, and the integer attributes that are times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sluice.json_texts import text_with_digits
from sluice.model.expressions import AggregateCall, Attribute, Expression
from sluice.model.spec import Join, Operator, Pipeline
from sluice.model.types import INT64
from sluice.model.windows.kinds import KINDS
from sluice.time_units import MILLISECOND, SECOND

#: above this number of seconds since 1970 a time is shown with its date; below it the clock counts from a test's start
CALENDAR = 10_000_000
MINUTE, HOUR, DAY = 60, 3_600, 86_400
#: microseconds of a second
MICROSECONDS = 1_000_000


def from_seconds(seconds: float) -> int:
    """Nanoseconds since 1970 of a time of an inspection, which is in seconds, to the microsecond.

    A float64 has no finer times today: the nearest one to 10:00:00.1 is 96 ns before it, and `moment` would show .099.
    """
    return round(seconds * MICROSECONDS) * (SECOND // MICROSECONDS)


def moment(time: int | None) -> str:
    """A time in nanoseconds since 1970, to the millisecond, in UTC."""
    if time is None:
        return "-"
    seconds, rest = divmod(time, SECOND)
    if seconds < CALENDAR:
        return f"{time / SECOND:g} s"
    try:
        whole = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return "beyond the calendar"
    milliseconds = rest // MILLISECOND
    return f"{whole:%Y-%m-%d %H:%M:%S}" + (f".{milliseconds:03}" if milliseconds else "")


def shown(value: Any, unit: int | None) -> Any:  # noqa: ANN401 - a JSON value
    """A value of an attribute as a text: one that is no text is JSON. `unit`: nanoseconds of its unit if it is a time
    that is counted as an integer.
    """
    if unit and isinstance(value, int):
        return moment(value * unit)
    return value if isinstance(value, str) else text_with_digits(value)


def second(time: int | None) -> str:
    """A time in nanoseconds since 1970, to the second, in UTC."""
    return moment(None if time is None else time // SECOND * SECOND)


def duration(seconds: float) -> str:
    """A duration in its two largest units: `1.5 s`, `4 min 5 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < MINUTE:
        return f"{seconds:.3g} s"
    rounded = round(seconds)
    for unit, name, below, word in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if rounded >= unit:
            whole, rest = divmod(rounded, unit)
            return f"{whole} {name} {rest // below} {word}" if rest // below else f"{whole} {name}"
    raise AssertionError(seconds)


def nanoseconds(time: int) -> str:
    """A duration in nanoseconds."""
    return duration(time / SECOND)


def rate(per_second: float) -> str:
    """A rate. A rate below one per second is shown per minute."""
    if per_second == 0:
        return "0/s"
    if per_second < 1:
        return f"{per_second * MINUTE:.3g}/min"
    return f"{per_second:,.1f}/s" if per_second < 10 else f"{per_second:,.0f}/s"  # noqa: PLR2004 - digits


def size(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":  # noqa: PLR2004
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError(count)


#: by stream: its attributes that are times -> nanoseconds of a unit
Units = dict[str, dict[str, int]]
#: aggregation functions whose result is one of the values
CHOOSING = ("First", "Last", "Any", "Min", "Max")
#: functions that give a time of the window that fires
OF_WINDOW = {
    f.signature.name for kind in KINDS.values() for f in kind.functions if f.describes in {"start", "end", "last"}
}


def time_units(pipeline: Pipeline) -> Units:
    """The event times of streams, and the attributes that operators compute from these."""
    units: Units = {
        stream.name: {stream.event_time.attribute: stream.event_time.tick}
        for stream in pipeline.streams.values()
        if stream.event_time is not None and dict(stream.schema)[stream.event_time.attribute] == INT64
    }
    for operator in pipeline.operators:
        for output in operator.outputs:
            unit_of = {name: _unit(expression, operator, units, pipeline) for name, expression in output.attributes}
            units.setdefault(output.stream, {}).update({name: unit for name, unit in unit_of.items() if unit})
    return units


def _unit(expression: Expression, operator: Operator, units: Units, pipeline: Pipeline) -> int | None:
    """The nanoseconds of a unit, if the expression is a time."""
    match expression:
        case Attribute(name, _, port):
            stream = getattr(operator, port).stream if port and isinstance(operator, Join) else operator.inputs[0]
            return units.get(stream, {}).get(name)
        case AggregateCall(function, (first, *_)) if function in CHOOSING:
            return _unit(first, operator, units, pipeline)
        case AggregateCall(function, _, type_) if function in OF_WINDOW and type_ == INT64:
            event_time = pipeline.streams[operator.inputs[0]].event_time
            return None if event_time is None else event_time.tick
    return None
