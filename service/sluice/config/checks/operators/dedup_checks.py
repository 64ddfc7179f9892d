"""Checks a dedup and builds it (docs/reference/extensions.md, rules Z1 to Z12)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.clause_parts import Part, read_parts
from sluice.config.syntax.durations import EXAMPLES, seconds
from sluice.config.syntax.file_models.operator_models import DedupShape
from sluice.model.errors import Fault, Path, nearest
from sluice.model.spec import Dedup, EventTime
from sluice.model.types import TimeForm
from sluice.model.windows.session_window import MAX_GAP
from sluice.time_units import SECOND

#: the word of a period -> the time that it counts
TIMES = {"time": "clock", "eventTime": "event_time"}
EXPECTED = (
    f"time(seconds) or eventTime(seconds), with a number above 0, at most 3,650 days, such as {EXAMPLES}; or count(n), "
    "or delta(attribute, size) of an int64, a float64 or a timestamp"
)


def dedup(checks: ExpressionChecks, index: int, shape: DedupShape) -> Dedup:
    """The dedup. Its output tuples have the attributes of the input, unchanged (Z1)."""
    scope = checks.scope(shape.dedup, "in a dedup")
    dedup_key = checks.keys(checks.path(index, "by"), shape.by, scope)
    outputs = checks.outputs(index, shape, scope, checks.unchanged(shape.dedup))
    unit, size = period(checks, index, shape)
    attribute = compared(shape.within) if unit == "delta" else ""
    check_flags(checks, index, shape, unit)
    return Dedup(
        shape.name, shape.dedup, dedup_key, size, unit, outputs, shape.keep, attribute=attribute,
        reset_on_duplicate=shape.reset_on_duplicate, flush_on_mark=shape.flush_on_mark,
    )  # fmt: skip


def check_flags(checks: ExpressionChecks, index: int, shape: DedupShape, unit: str) -> None:
    """Checks the keys that `keep: last` and event time have not (Z9 to Z12)."""
    if unit in ("count", "delta") and shape.keep == "last":
        checks.report.problem(
            checks.path(index, "keep"), f"first, as the period is {shape.within} (rule Z9)", shape.keep
        )
    for key, words in (("reset_on_duplicate", ("event_time",)), ("flush_on_mark", ())):
        if getattr(shape, key) and (shape.keep == "last" or unit in words):
            why = "a stored tuple waits for the end of its period" if shape.keep == "last" else "periods overlap"
            checks.report.problem(checks.path(index, key), f"false, as {why} (rules Z11 and Z12)")


def compared(text: str) -> str:
    """The attribute of `delta(attribute, size)`."""
    return text.partition("(")[2].partition(",")[0].strip()


def by_tuples(checks: ExpressionChecks, shape: DedupShape, part: Part) -> tuple[str, int] | None:
    """What `count(n)` or `delta(attribute, size)` counts, and its length; None if it is neither, or wrong."""
    match part:
        case Part(word="count", arguments=(text,)) if text.strip().isdigit() and 0 < int(text) < 2**53:
            return "count", int(text)
        case Part(word="delta", arguments=(name, text)):
            if shape.dedup not in checks.streams.schemas:  # which is reported
                return "delta", 0
            kind = dict(checks.streams.schemas[shape.dedup]).get(name.strip())
            size_seconds = seconds(text)
            if kind is None or kind.present.time is None or size_seconds is None or size_seconds < 0:
                return None
            size = size_seconds * (1 if kind.present.time is TimeForm.COUNT else SECOND)
            return ("delta", int(size)) if size == int(size) and size < MAX_GAP else None
    return None


def period(checks: ExpressionChecks, index: int, shape: DedupShape) -> tuple[str, int]:
    """The time that a period counts, and its length in nanoseconds. A default if `within` is wrong."""
    path, faults = checks.path(index, "within"), list[Fault]()
    parts = list(read_parts(shape.within, faults))
    counted = by_tuples(checks, shape, parts[0]) if len(parts) == 1 and not faults else None
    if counted is not None:
        return counted
    nanoseconds = length(parts[0]) if len(parts) == 1 and not faults else None
    if nanoseconds is None:
        meant = hint(parts, faults) or attribute_meant(checks, shape, parts)
        checks.report.problem(path, EXPECTED, shape.within, meant)
        return "clock", 1
    if nanoseconds != int(nanoseconds):
        checks.report.problem(path, f"{parts[0].word}(seconds) in whole nanoseconds", shape.within)
        return "clock", 1
    unit, size = TIMES[parts[0].word], int(nanoseconds)
    event_time = checks.streams.event_times.get(shape.dedup)
    if unit == "event_time" and event_time is not None:
        check_ticks(checks, path, shape.within, size, event_time)
    elif unit == "event_time" and shape.dedup in checks.streams.schemas and not checks.wrong(shape.dedup):
        checks.report.problem(checks.path(index, "dedup"), f"an input with event_time, as the period is {shape.within}")
    return unit, size


def hint(parts: Sequence[Part], faults: Sequence[Fault]) -> str | None:
    """What to write for a period with the spelling of another system, without a word, or with a wrong word."""
    words = (
        f"{near}{part.text[len(part.word) :]}"
        for part in parts
        if part.word not in TIMES and (near := nearest(part.word, TIMES))
    )
    hints = (*(part.spelled_here() for part in parts), *(fault.hint for fault in faults), *words)
    return next(filter(None, hints), None)


def attribute_meant(checks: ExpressionChecks, shape: DedupShape, parts: Sequence[Part]) -> str | None:
    """What to write for a delta of an attribute that the input has not."""
    match parts:
        case [Part(word="delta", arguments=(name, size))]:
            schema = dict(checks.streams.schemas.get(shape.dedup, ()))
            near = nearest(name, (other for other, type_ in schema.items() if type_.present.time is not None))
            return f"delta({near}, {size})" if near and name not in schema else None
    return None


def length(part: Part) -> Decimal | None:
    """The nanoseconds of `time(10)` or `eventTime(10)`; None for another part, or outside of 0 < n <= MAX_GAP."""
    match part:
        case Part(word=word, arguments=(text,)) if word in TIMES:
            size_seconds = seconds(text)
            exact = size_seconds * SECOND if size_seconds is not None else Decimal(0)
            return exact if 0 < exact <= MAX_GAP else None
    return None


def check_ticks(checks: ExpressionChecks, path: Path, text: str, size: int, event_time: EventTime) -> None:
    """Checks that the period is a whole number of ticks of the event time, as the sizes of windows are."""
    if size % event_time.tick:
        unit = {1_000_000: "milliseconds", 1000: "microseconds"}[event_time.tick]
        checks.report.problem(path, f"a period in whole {unit}, the ticks of the event time", text)
