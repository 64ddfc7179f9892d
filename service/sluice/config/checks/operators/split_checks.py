"""Checks a split and builds it (docs/reference/toolkit.md)."""

from __future__ import annotations

import json

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.operator_models import SplitShape
from sluice.config.syntax.file_models.value_models import written
from sluice.model.expressions import Expression
from sluice.model.spec import Split


def split(typed: ExpressionChecks, index: int, shape: SplitShape) -> Split:
    """The split. Its output tuples have the attributes of the input, unchanged (SW1)."""
    outputs = typed.outputs(index, shape, None, typed.unchanged(shape.split))
    conditions = [_condition(typed, index, shape, stream) for stream in shape.to]
    if shape.otherwise is not None and shape.otherwise in shape.to:
        typed.report.problem(typed.path(index, "otherwise"), "a stream that is not in to", shape.otherwise)
    rest = () if shape.otherwise is None else (None,)
    return Split(
        shape.name, shape.split, outputs, conditions=(*conditions, *rest), several=shape.copies == "all"
    )  # fmt: skip


def _condition(typed: ExpressionChecks, index: int, shape: SplitShape, stream: str) -> Expression | None:
    """The condition of an output: one of its conditions holds or, with `by`, the expression has one of its values."""
    texts = [_equal(shape.by, value) if shape.by is not None else str(written(value)) for value in shape.to[stream]]
    whole = texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)
    return typed.condition(typed.path(index, "to", stream), whole, typed.scope(shape.split, "in a split"))


def _equal(by: str, value: str | float) -> str:
    """The condition that an expression has this value; a text is a value as it stands."""
    return f"({by}) == {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else written(value)}"
