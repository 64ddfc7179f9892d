"""Checks a custom operator: windows whose events a Python class of the user handles."""

from __future__ import annotations

from sluice.api.class_loader import ClassError, versioned
from sluice.api.handler import WindowHandler, load, schema
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.stream_checks import without_null
from sluice.config.checks.wall_clock_alignment import align
from sluice.config.checks.window_checks import window
from sluice.config.syntax.file_models.operator_models import CustomShape
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import nearest
from sluice.model.expressions import Attribute
from sluice.model.spec import Custom
from sluice.model.types import Type, optional_of, takes
from sluice.model.windows.kinds import kinds_of


def custom(checks: ExpressionChecks, index: int, shape: CustomShape) -> Custom:
    scope = checks.scope(shape.custom, "in a custom operator")
    clause, operator_window = window(shape.window, checks.path(index, "window"), scope, checks.report)
    if clause.sizes is not None:
        _, operator_window = checks.over_event_time(index, shape, shape.custom, clause, scope)
    check_window(checks, index, clause)
    operator_window = align(checks, index, shape, clause, operator_window)
    partition_by = checks.keys(checks.path(index, "partition_by"), shape.partition_by, scope)
    handler_class = handler(checks, index, shape)
    sent = {name: Attribute(name, kind) for name, kind in schema(handler_class.output)} if handler_class else {}
    outputs = tuple(
        checks.output(index, stream, attributes, sound=sound and handler_class is not None)
        for stream, attributes, sound in checks.given(index, shape, scope, sent)
    )
    name = shape.handler if handler_class is None else versioned(shape.handler, handler_class)
    return Custom(shape.name, shape.custom, name, operator_window, outputs, partition_by)


def check_window(checks: ExpressionChecks, index: int, clause: ParsedClause) -> None:
    if not clause.faults and "custom" not in clause.kind.operators:
        checks.report.problem(checks.path(index, "window"), f"a {kinds_of('custom')} window in a custom operator")
    if not clause.faults and clause.kind.says_partitioned:
        checks.check_partitioned(index, "window", "partition_by", partitioned=clause.partitioned)


def handler(checks: ExpressionChecks, index: int, shape: CustomShape) -> type[WindowHandler] | None:
    """The handler class; None if it cannot be loaded. Checks that the input has the attributes that the class reads."""
    path = checks.path(index, "handler")
    try:
        handler_class = load(shape.handler)
    except ClassError as error:
        checks.report.problem(path, error.expected, shape.handler, error.hint)
        return None
    types = dict(checks.streams.schemas.get(shape.custom, ()))
    for name, kind in schema(handler_class.input) if types else ():
        if name not in types or not takes(kind, types[name]):
            fault_text = _given(name, kind, types)
            hint = None if name in types else nearest(name, types)
            checks.report.problem(
                path, f"a stream with the {kind} {name}, which {handler_class.__name__} reads ({fault_text})", hint=hint
            )
    return handler_class


def _given(name: str, read: Type, types: dict[str, Type]) -> str:
    """What the stream has in place of the attribute that a handler reads; for a null, what to do (NU32)."""
    if name not in types:
        return f"it has no {name}"
    absent = types[name] == optional_of(read) != read
    remedies = f"; {without_null(Attribute(name, types[name]))}, or the class reads {types[name]}" if absent else ""
    return f"{name} is {types[name]}{remedies}"
