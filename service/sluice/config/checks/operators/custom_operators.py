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


def custom(typed: ExpressionChecks, index: int, shape: CustomShape) -> Custom:
    scope = typed.scope(shape.custom, "in a custom operator")
    clause, operator_window = window(shape.window, typed.path(index, "window"), scope, typed.report)
    if clause.sizes is not None:
        _, operator_window = typed.over_event_time(index, shape, shape.custom, clause, scope)
    check_window(typed, index, clause)
    operator_window = align(typed, index, shape, clause, operator_window)
    partition_by = typed.keys(typed.path(index, "partition_by"), shape.partition_by, scope)
    handler_class = handler(typed, index, shape)
    sent = {name: Attribute(name, kind) for name, kind in schema(handler_class.output)} if handler_class else {}
    outputs = tuple(
        typed.output(index, stream, attributes, sound=sound and handler_class is not None)
        for stream, attributes, sound in typed.given(index, shape, scope, sent)
    )
    name = shape.handler if handler_class is None else versioned(shape.handler, handler_class)
    return Custom(shape.name, shape.custom, name, operator_window, outputs, partition_by)


def check_window(typed: ExpressionChecks, index: int, clause: ParsedClause) -> None:
    if not clause.faults and "custom" not in clause.kind.operators:
        typed.report.problem(typed.path(index, "window"), f"a {kinds_of('custom')} window in a custom operator")
    if not clause.faults and clause.kind.says_partitioned:
        typed.check_partitioned(index, "window", "partition_by", partitioned=clause.partitioned)


def handler(typed: ExpressionChecks, index: int, shape: CustomShape) -> type[WindowHandler] | None:
    """The handler class; None if it cannot be loaded. Checks that the input has the attributes that the class reads."""
    path = typed.path(index, "handler")
    try:
        handler_class = load(shape.handler)
    except ClassError as error:
        typed.report.problem(path, error.expected, shape.handler, error.hint)
        return None
    known = dict(typed.streams.schemas.get(shape.custom, ()))
    for name, kind in schema(handler_class.input) if known else ():
        if name not in known or not takes(kind, known[name]):
            is_ = _given(name, kind, known)
            hint = None if name in known else nearest(name, known)
            typed.report.problem(
                path, f"a stream with the {kind} {name}, which {handler_class.__name__} reads ({is_})", hint=hint
            )
    return handler_class


def _given(name: str, read: Type, known: dict[str, Type]) -> str:
    """What the stream has in place of the attribute that a handler reads; for a null, what to do (NU32)."""
    if name not in known:
        return f"it has no {name}"
    absent = known[name] == optional_of(read) != read
    remedies = f"; {without_null(Attribute(name, known[name]))}, or the class reads {known[name]}" if absent else ""
    return f"{name} is {known[name]}{remedies}"
