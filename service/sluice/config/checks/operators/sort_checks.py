"""Checks a sort and builds it (reference sections 2 and 9)."""

from __future__ import annotations

from dataclasses import replace

from sluice.config.checks.early_checks import emitted_rest
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.wall_clock_alignment import align
from sluice.config.checks.window_checks import window
from sluice.config.syntax.file_models.operator_models import OrderShape, SortShape
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import one_of
from sluice.model.spec import Count, Order, Sort, Window
from sluice.model.types import SCALARS
from sluice.model.windows.kinds import kinds_of


def sort(checks: ExpressionChecks, index: int, shape: SortShape) -> Sort:
    """The sort. Its output tuples have the attributes of the input, unchanged (O1)."""
    scope = checks.scope(shape.sort, "in a sort")
    path = checks.path(index, "window")
    clause, operator_window = window(shape.window, path, scope, checks.report)
    if clause.sizes is not None and "sort" in clause.kind.operators:
        _, operator_window = checks.over_event_time(index, shape, shape.sort, clause, scope)
    if not clause.faults:
        check_window(checks, index, clause)
        checks.check_partitioned(index, "window", "partition_by", partitioned=clause.partitioned)
    operator_window = align(checks, index, shape, clause, operator_window)
    partition_by = checks.keys(checks.path(index, "partition_by"), shape.partition_by, scope)
    ranked = None if scope is None else replace(scope, ranks=not operator_window.sliding)
    outputs = checks.outputs(index, shape, ranked, checks.unchanged(shape.sort))
    check_limit(checks, index, shape, operator_window)
    return Sort(
        shape.name, shape.sort, operator_window, outputs, order(checks, index, shape), partition_by, shape.limit,
        emit_rest=emitted_rest(checks, index, shape, clause), with_ties=shape.with_ties,
    )  # fmt: skip


def check_limit(checks: ExpressionChecks, index: int, shape: SortShape, window: Window) -> None:
    """Checks what needs windows that fire (RK1), and that there is a limit for ties (RK3)."""
    by_itself = "as each tuple of a sort over a sliding window comes out by itself"
    if shape.limit is not None and window.sliding:
        checks.report.problem(checks.path(index, "limit"), f"no limit, {by_itself}")
    if isinstance(shape.output, dict) and window.sliding:
        expected = f"a list of streams, {by_itself}; a map gives it other attributes (rule RK1)"
        checks.report.problem(checks.path(index, "output"), expected)
    if shape.with_ties and shape.limit is None:
        checks.report.problem(checks.path(index, "with_ties"), "with_ties only with a limit (rule RK3)")


def check_window(checks: ExpressionChecks, index: int, clause: ParsedClause) -> None:
    path = checks.path(index, "window")
    if "sort" not in clause.kind.operators:
        checks.report.problem(path, f"a {kinds_of('sort')} window in a sort (rule O1)")
        return
    if clause.tumbling or clause.sizes is not None:
        return
    (_, eviction, part), *triggers = clause.policies
    if eviction is None or eviction.tuples is None:
        expected = (
            "count as eviction in a sort over a sliding window (rule W18), or timeInterval, intervalDuration(seconds) "
            "to sort by event time"
        )
        checks.report.problem(path, expected, part.text, None, part.column)
    for _, policy, trigger in triggers:
        if policy != Count(1):
            checks.report.problem(path, "count(1) as trigger, or none (rule W18)", trigger.text, None, trigger.column)


def order(checks: ExpressionChecks, index: int, shape: SortShape) -> tuple[Order, ...]:
    orders = []
    scope = checks.scope(shape.sort, "in order_by")
    for text, direction in shape.order_by.items():
        ordering = direction if isinstance(direction, OrderShape) else OrderShape(direction=direction, nulls="last")
        path = checks.path(index, "order_by", text)
        key = checks.expression(path, text, scope)
        if key is None:
            continue
        if not key.type.sortable:
            expected = f"{one_of(row.described for row in SCALARS if row.sortable)}, not {key.type} (rule O3)"
            checks.report.problem(path, expected, text)
        orders.append(Order(key, ordering.direction == "desc", ordering.nulls == "first"))
    return tuple(orders)
