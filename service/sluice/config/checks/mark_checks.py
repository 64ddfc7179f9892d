"""Checks `mark_when` and `marks_in`: which tuples cause a window mark, and to which tuples a mark applies."""

from __future__ import annotations

from typing import TypedDict

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.model.expressions import Expression


class Marks(TypedDict):
    """The fields of a Stream that describe its incoming marks."""

    mark_before: Expression | None
    mark_after: Expression | None
    marks_in: str


def marks(typed: ExpressionChecks, stream: str) -> Marks:
    """The fields of the Stream about its incoming marks, as the file gives them."""
    shape, path = typed.streams.file.streams[stream], ("streams", stream)
    before = after = None
    for key in ("mark_when", "marks_in"):
        if key in shape.model_fields_set and stream in typed.streams.writers:
            what = f"no {key}, as an operator writes this stream: its marks are those of the operator"
            typed.report.problem((*path, key), what, key)
    if shape.mark_when is not None:
        inner, scope = (*path, "mark_when"), typed.scope(stream, "in mark_when")
        before = typed.condition((*inner, "before"), shape.mark_when.before, scope)
        after = typed.condition((*inner, "after"), shape.mark_when.after, scope)
        if shape.mark_when.before is shape.mark_when.after is None and not typed.shaped.partly(inner):
            typed.report.problem(inner, "before or after, or both")
    return Marks(mark_before=before, mark_after=after, marks_in=shape.marks_in)
