"""Checks the key `align` of an operator, which makes the timers of its windows follow the wall clock of a time zone."""

from __future__ import annotations

import re
from dataclasses import replace
from zoneinfo import available_timezones

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.operator_models import (
    AggregateShape,
    AlignShape,
    CustomShape,
    SortShape,
    input_key,
)
from sluice.config.syntax.sized_clause import article
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import nearest
from sluice.model.functions import ZONES_OF_THE_MACHINE, is_zone
from sluice.model.spec import Aligned, Window
from sluice.model.windows.window_kind import Panes
from sluice.time_units import SECOND

DAY = 86_400 * SECOND
WEEK = 7 * DAY
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")


def align(
    checks: ExpressionChecks,
    index: int,
    shape: AggregateShape | SortShape | CustomShape,
    clause: ParsedClause,
    window: Window,
) -> Window:
    """The window, whose timer is aligned if the operator has `align`."""
    if shape.align is None or clause.faults or checks.shaped.partly(checks.path(index)):
        return window
    aligned = read(checks, index, shape.align)
    timer = window.timer
    if timer is not None:
        months = timer.aligned.months if timer.aligned else None
        check_period(checks, index, shape.align, DAY if months else timer.nanoseconds)
        return window.with_timer(timer.aligned_to(replace(aligned, months=months)))
    if window.panes is not None and checks.streams.event_times.get(getattr(shape, input_key(shape))):
        return calendar(checks, index, shape.align, clause, window.panes, aligned)
    expected = (
        "no align, as the window has no timer, which is tumbling time(...) or a time(...) trigger, and no panes of a "
        "timeInterval"
    )
    checks.report.problem(checks.path(index, "align"), expected, "align")
    return window


def calendar(  # noqa: PLR0917 - where it stands, and what it is
    checks: ExpressionChecks, index: int, shape: AlignShape, clause: ParsedClause, panes: Panes, aligned: Aligned
) -> Window:
    """The window whose panes are parts of a day, days, weeks or periods of the calendar in a zone (Y3)."""
    months = panes.calendar.months if panes.calendar else None
    path, part = checks.path(index, "window"), panes.no_alignment()
    if part:
        begin = f": they begin at {shape.at}, the key at of align" * (part == "intervalOffset")
        checks.report.problem(path, f"no {part}, as the panes are aligned{begin} (rule Y3)")
    elif months is None and panes.duration != WEEK and (DAY % panes.duration or panes.period < SECOND):
        first = next(iter(clause.kind.parts))
        expected = (
            f"{article(first)} {first} that divides a day, from 1 s on, or is a day, a week, month, quarter or year, "
            "as the panes are aligned (rule Y3)"
        )
        checks.report.problem(path, expected)
    else:
        check_period(checks, index, shape, DAY if months else panes.duration)
    aligned_window = panes.on_calendar(replace(aligned, months=months))
    for problem in aligned_window.problems():
        checks.report.problem(path, problem)
    return aligned_window


def read(checks: ExpressionChecks, index: int, shape: AlignShape) -> Aligned:
    path = checks.path(index, "align")
    time = TIME.fullmatch(shape.at)
    if time is None:
        hint = f"0{shape.at}" if TIME.fullmatch(f"0{shape.at}") else None
        expected = "a time of day with two digits for the hour, from 00:00 to 23:59:59"
        checks.report.problem((*path, "at"), expected, shape.at, hint)
    if not is_zone(shape.zone):
        expected = "a time zone by its name in the time zone database, such as Europe/Berlin"
        if shape.zone in ZONES_OF_THE_MACHINE:
            checks.report.problem((*path, "zone"), f"{expected}, as that of the machine may change", shape.zone)
        else:
            near = nearest(shape.zone, sorted(available_timezones().difference(ZONES_OF_THE_MACHINE)))
            checks.report.problem((*path, "zone"), expected, shape.zone, near)
    hours, minutes, seconds = (int(part or 0) for part in time.groups()) if time else (0, 0, 0)
    at = ((hours * 60 + minutes) * 60 + seconds) * SECOND
    return Aligned(at, shape.zone, None if shape.on is None else DAYS.index(shape.on))


def check_period(checks: ExpressionChecks, index: int, shape: AlignShape, period: int) -> None:
    if period != WEEK and (DAY % period or period < SECOND):
        expected = "a time(seconds) from 1 on that divides a day, or is a week (604800), as the timer is aligned"
        checks.report.problem(checks.path(index, "window"), expected)
    elif period == WEEK and shape.on is None:
        checks.report.problem(checks.path(index, "align", "on"), "the day that a week begins on", None)
    elif period != WEEK and shape.on is not None:
        checks.report.problem(checks.path(index, "align", "on"), "no day, as the period is not a week", shape.on)
