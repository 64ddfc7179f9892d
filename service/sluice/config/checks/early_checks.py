"""Checks the key `early` of an aggregate: when an open window emits an early result (F1 to F9)."""

from __future__ import annotations

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.operator_models import AggregateShape, SortShape
from sluice.config.syntax.window_clause import ParsedClause, read_early
from sluice.model.spec import Early, Window
from sluice.model.windows.kinds import kinds_with_early
from sluice.time_units import SECOND


def early(
    checks: ExpressionChecks, index: int, shape: AggregateShape, clause: ParsedClause, window: Window
) -> Early | None:
    """The policy of early results; None without one."""
    if shape.early is None or clause.faults or checks.shaped.partly(checks.path(index)):
        return None
    path = checks.path(index, "early")
    policies, faults = read_early(shape.early)
    for fault in faults:
        checks.report.fault(path, fault)
    if not window.early:
        checks.report.problem(path, f"early only with a {kinds_with_early()} window (rule F8){_instead(clause)}")
    elif why := window.no_early():
        checks.report.problem(path, f"no early, as {why} (rule F8)")
    counts = [policy.tuples for policy in policies if policy.tuples is not None]
    times = [policy.timer.nanoseconds for policy in policies if policy.timer is not None]
    _warn(checks, index, window, counts, times)
    return Early(next(iter(counts), None), next(iter(times), None))


def _instead(clause: ParsedClause) -> str:
    """What to use in place of early results with a window that has none, as a part of a message."""
    if clause.kind.word == "sliding":
        return "; a sliding window fires at its trigger policy, as in sliding, time(300), time(10)"
    return "; a slidingTime window has emit: updates"


def _warn(checks: ExpressionChecks, index: int, window: Window, counts: list[int], times: list[int]) -> None:
    """Warns of policies that never give an early result, because the window fires before (F3)."""
    path, full, timer = checks.path(index, "early"), window.tuples_when_full, window.timer
    for size in counts:
        if full is not None and size > full >= 0:
            checks.report.caution(
                path, f"count({size}) gives no early result: the window is full with {full + 1} tuples"
            )
    for time in times:
        if timer is not None and time >= timer.nanoseconds:
            checks.report.caution(
                path, f"time({time / SECOND:g}) gives no early result: the timer of the window fires by then"
            )


def emitted_rest(
    checks: ExpressionChecks, index: int, shape: AggregateShape | SortShape, clause: ParsedClause
) -> bool:  # fmt: skip
    """Whether the final mark flushes the window. Checks that it is tumbling (H6)."""
    if shape.emit_rest and not clause.faults and not clause.tumbling:
        closed = "the maximum watermark before the final mark fires it" if clause.sizes else "it has no open batch"
        expected = f"emit_rest only with a tumbling window; this one is a {clause.kind.word}, and {closed} (rule H6)"
        checks.report.problem(checks.path(index, "emit_rest"), expected)
    return shape.emit_rest
