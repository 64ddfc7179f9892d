"""Event time in a pipeline file: which attribute of a stream it is, and the windows over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from sluice.config.syntax.event_time_clause import Sizes
from sluice.config.syntax.file_models import AggregateShape, CustomShape, EventTimeShape, SortShape
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.window_clause import Clause
from sluice.model.errors import Path, nearest
from sluice.model.spec import EventTime, EventWindow, SlidingTime, TimeInterval
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, Schema, Type
from sluice.time_units import MILLISECOND, SECOND

#: resolution of an int64 -> nanoseconds
TICKS = {"milliseconds": MILLISECOND, "microseconds": 1000, "nanoseconds": 1}
#: sizes of a window in ticks, all together, stay below: so that no sum of times and sizes leaves int64
MOST_TICKS = 2**60
#: panes that hold a tuple, or begin in a second: more are perhaps not what was meant
MANY_PANES = 10_000


def event_time(
    given: str | EventTimeShape, schema: Schema, stream: str, path: Path, report: Report
) -> EventTime | None:
    """What a stream's `event_time` says; None where it is wrong (E1, W16, W27)."""
    shape = EventTimeShape.model_validate({"attribute": given}) if isinstance(given, str) else given
    inner = path if isinstance(given, str) else (*path, "attribute")
    types = dict(schema)
    kind = types.get(shape.attribute)
    if kind is None:
        what = f"an attribute of {stream} ({', '.join(types)}) (rule W16)"
        report.problem(inner, what, shape.attribute, nearest(shape.attribute, types))
        return None
    if kind not in (TIMESTAMP, INT64, FLOAT64):
        what = f"a timestamp, an int64 or a float64 with seconds, not {shape.attribute}, a {kind} (rule W27)"
        report.problem(inner, what, shape.attribute)
        return None
    if shape.resolution is not None and kind != INT64:
        report.problem((*path, "resolution"), f"none, as {shape.attribute} is a {kind} (rule W27)")
        return None
    tick = TICKS[shape.resolution or "milliseconds"] if kind == INT64 else 1
    return EventTime(
        shape.attribute, tick, nanoseconds(shape.lag), nanoseconds(shape.minimum_gap) or 0,
        nanoseconds(shape.idle_after), nanoseconds(shape.max_future),
    )  # fmt: skip


def inherited(upstream: Sequence[tuple[EventTime | None, Schema]], written: Schema) -> EventTime | None:
    """Event time goes on where the output has the attribute, with its type (E2, E7); watermarks come from upstream.

    `upstream` has the event time and the attributes of each input. Where several have one, they must be the same.
    """
    kinds = {(of.attribute, of.tick, dict(read)[of.attribute]) for of, read in upstream if of is not None}
    if len(kinds) != 1:
        return None
    ((attribute, tick, kind),) = kinds
    return EventTime(attribute, tick) if dict(written).get(attribute) == kind else None


def pane_functions(clause: Clause, of: EventTime | None, schema: Mapping[str, Type]) -> dict[str, Type]:
    """The functions that tell of the window that fires, where there are some (E29, E32), with the type of each."""
    if clause.sizes is None or of is None:
        return {}
    found = dict.fromkeys(("intervalStart", "intervalEnd"), schema[of.attribute])
    return found | ({"paneIndex": INT64, "paneTiming": STRING} if clause.sizes.kind == "timeInterval" else {})


def event_window(
    clause: Clause, shape: AggregateShape | SortShape | CustomShape, of: EventTime, path: Path, report: Report
) -> EventWindow:
    """The window of a clause without faults. Without `grace` there is none (KIP T10)."""
    sizes = clause.sizes
    assert sizes is not None  # noqa: S101 - who calls has looked
    tick = MILLISECOND if sizes.kind == "slidingTime" else of.tick  # whatever the attribute (KIP W4)
    check_ticks(sizes, tick, (*path, "window"), report)
    size = sizes.nanoseconds
    if sizes.kind == "slidingTime":
        sets = (shape.window_set, shape.emit) if isinstance(shape, AggregateShape) else ()
        return SlidingTime(size["timeDifference"], size.get("grace", 0), *sets)
    duration = size["intervalDuration"]
    period = size.get("creationPeriod", duration)  # W2
    offset = size.get("intervalOffset", 0) % period  # E10
    check_panes(duration, period, (*path, "window"), report)
    return TimeInterval(duration, period, size.get("discardAge", 0), offset, clause.partitioned)


def check_panes(duration: int, period: int, path: Path, report: Report) -> None:
    """So many panes are legal, and need memory and time for each of them."""
    if duration // period > MANY_PANES:
        report.caution(path, f"each tuple is in {duration // period:,} panes, each of which gives a result")
    if SECOND // period > MANY_PANES:
        report.caution(path, f"{SECOND // period:,} panes begin in each second of event time")


def check_ticks(sizes: Sizes, tick: int, path: Path, report: Report) -> None:
    """Sizes are whole numbers of ticks: the grid of the event time is exact (unlike E8)."""
    unit = {n: word for word, n in TICKS.items()}[tick]
    for word, size in sizes.nanoseconds.items():
        if size % tick:
            report.fault(path, sizes.parts[word].fault(f"{word}(seconds) in whole {unit}, the ticks of the event time"))
    if sum(sizes.nanoseconds.values()) // tick >= MOST_TICKS:
        report.problem(path, f"sizes of less than {MOST_TICKS // (SECOND // tick)} seconds together")


def nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(Decimal(str(seconds)) * SECOND)
