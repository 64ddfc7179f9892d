"""Checks `mark_when`, `marks_in` and `marks`: which tuples cause a window mark, to which tuples a mark applies, and how
it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.stream_models import StreamShape
from sluice.config.syntax.problem_report import Report
from sluice.model.expressions import Expression
from sluice.model.spec import Pipeline, Stream
from sluice.model.stream_marks import CHOICES, closed_keys, passing, why_records, without_scope
from sluice.model.topology import returning
from sluice.model.unparse import expressions


class Marks(TypedDict):
    """The fields of a Stream that describe its incoming marks."""

    mark_before: Expression | None
    mark_after: Expression | None
    mark_of: tuple[Expression, ...]
    marks_in: str
    marks_in_given: bool


def marks(checks: ExpressionChecks, stream: str) -> Marks:
    """The fields of the Stream about its incoming marks, as the file gives them."""
    shape, path = checks.streams.file.streams[stream], ("streams", stream)
    before, after = None, None
    mark_of: tuple[Expression, ...] = ()
    for key in ("mark_when", "marks_in"):
        if key in shape.model_fields_set and stream in checks.streams.writers:
            expected = f"no {key}, as an operator writes this stream: its marks are those of the operator"
            checks.report.problem((*path, key), expected, key)
    if shape.mark_when is not None:
        inner, scope = (*path, "mark_when"), checks.scope(stream, "in mark_when")
        before = checks.condition((*inner, "before"), shape.mark_when.before, scope)
        after = checks.condition((*inner, "after"), shape.mark_when.after, scope)
        mark_of = checks.keys((*inner, "of"), shape.mark_when.of, scope)
        if shape.mark_when.before is shape.mark_when.after is None and not checks.shaped.partly(inner):
            checks.report.problem(inner, "before or after, or both")
    is_set = "marks_in" in shape.model_fields_set
    return Marks(mark_before=before, mark_after=after, mark_of=mark_of, marks_in=shape.marks_in, marks_in_given=is_set)


def check_keys(pipeline: Pipeline, report: Report) -> None:
    """Checks that each `punct()` window that gets a mark for one key has the same key, because the mark closes the
    window partition of that key (B9).
    """
    for stream, operator, key in closed_keys(pipeline):
        mark_key = pipeline.streams[stream].mark_of
        if mark_key and key != mark_key:
            keys = f"by {expressions(operator.partition_by)}" if operator.partition_by else "without partitions"
            expected = f"the key of the windows that its marks close; {operator.name} reads {operator.input} {keys}"
            report.problem(("streams", stream, "mark_when", "of"), expected, expressions(mark_key))


def with_marks(pipeline: Pipeline, shapes: Mapping[str, StreamShape], report: Report) -> Pipeline:
    """The pipeline with the way in which the window marks of each output stream are written."""
    records = why_records(pipeline)
    chosen: dict[str, Stream] = {}
    for stream in pipeline.outputs:
        form = shapes[stream.name].marks
        why = passing(pipeline, stream.name) if form == "header" else None
        if why is not None:
            report.problem(("streams", stream.name, "marks"), f"record or none, as {why}")
        default = "record" if stream.name in records else "header"
        if stream.name in returning(pipeline):
            default = "none"  # only tuples return (M13)
        chosen[stream.name] = replace(stream, marks=form or default)
    return replace(pipeline, streams={**pipeline.streams, **chosen})


def check_scopes(pipeline: Pipeline, shapes: Mapping[str, StreamShape], report: Report) -> None:
    """Warns of each stream without `marks_in` whose marks close `punct()` windows.

    Without `marks_in` the file does not say to which tuples a mark applies. If the file says that the topic has several
    topic partitions, this is a problem instead of a warning.
    """
    for stream, operators in without_scope(pipeline).items():
        shape, path = shapes[stream], ("streams", stream, "marks_in")
        closes = f"its window marks close {' and '.join(operators)}"
        if "partitions" in shape.model_fields_set and (shape.partitions or 1) > 1:
            report.problem(path, f"marks_in, as {closes} and there are several topic partitions ({CHOICES})", None)
        else:
            text = f"{closes}; a start demands marks_in if {shape.topic} has several topic partitions ({CHOICES})"
            report.caution(path, text)
