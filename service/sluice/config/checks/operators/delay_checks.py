"""Builds a delay or a throttle (docs/reference/toolkit.md, DL1 to DL7)."""

from __future__ import annotations

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.operator_models import DelayShape, ThrottleShape
from sluice.model.spec import Delay
from sluice.time_units import SECOND


def delay(typed: ExpressionChecks, index: int, shape: DelayShape | ThrottleShape) -> Delay:
    """The operator. Its output tuples have the attributes of the input, unchanged."""
    source = shape.delay if isinstance(shape, DelayShape) else shape.throttle
    outputs = typed.outputs(index, shape, None, typed.unchanged(source))
    scope = typed.scope(source, f"in a {'delay' if isinstance(shape, DelayShape) else 'throttle'}")
    key = typed.keys(typed.path(index, "partition_by"), shape.partition_by, scope)
    by = round(shape.by * SECOND) if isinstance(shape, DelayShape) else 0
    gap = 0 if isinstance(shape, DelayShape) else round(SECOND / shape.rate)
    return Delay(shape.name, source, outputs, by, gap, shape.buffer, key)
