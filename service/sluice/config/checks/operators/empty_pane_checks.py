"""Checks the key `empty_panes` of an aggregate: the results of panes without tuples (EP1 to EP8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.checks.event_time_checks import nanoseconds
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.file_models.operator_models import AggregateShape, EmptyPanesShape
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import nearest
from sluice.model.expressions import Expression
from sluice.model.spec import EmptyPanes
from sluice.model.windows.empty_panes import needs_fill, null_if_empty, zero_if_empty
from sluice.model.windows.kinds import kinds_with_panes


@dataclass(frozen=True, slots=True)
class Filling:
    """How the outputs of an aggregate are filled; `shape` is None if it has no results of empty panes."""

    shape: EmptyPanesShape | None
    partition_by: tuple[Expression, ...]

    def attributes(self, expressions: Mapping[str, Expression]) -> dict[str, Expression]:
        """The attributes of an output, of which each has a value also in an empty pane (EP3)."""
        return {name: self._filled(name, e) for name, e in expressions.items()}

    def _filled(self, name: str, expression: Expression) -> Expression:
        if self.shape is None or not needs_fill(expression, self.partition_by):
            return expression
        match self.word(name):
            case "null":
                return null_if_empty(expression)
            case "zero":
                return zero_if_empty(expression)
        return expression

    def word(self, name: str) -> str:
        """The word of the file for an attribute."""
        assert self.shape is not None  # noqa: S101 - the callers have checked
        return self.shape.attributes.get(name, self.shape.fill)

    def spec(self, outputs: Sequence[tuple[str, Mapping[str, Expression]]]) -> EmptyPanes | None:
        """`outputs`: by stream the expressions of the file. The value before is that of the whole attribute (EP4)."""
        if self.shape is None:
            return None
        previous = tuple(
            (stream, name)
            for stream, attributes in outputs
            for name, e in attributes.items()
            if self.word(name) == "previous" and (name in self.shape.attributes or needs_fill(e, self.partition_by))
        )
        return EmptyPanes(nanoseconds(self.shape.forget_after) or 0, previous)


def check_empty_panes(checks: ExpressionChecks, index: int, shape: AggregateShape, clause: ParsedClause) -> None:
    """Checks that the window has panes, that the aggregate has no groups, and the names of attributes (EP8)."""
    if shape.empty_panes is None or clause.faults or checks.shaped.partly(checks.path(index)):
        return
    path = checks.path(index, "empty_panes")
    if not clause.kind.paned:
        expected = f"empty_panes only with a {kinds_with_panes()} window (rule EP8); this one is a {clause.kind.word}"
        checks.report.problem(path, expected)
    of_calendar = clause.kind.no_empty_panes_of_calendar
    if of_calendar and (shape.align is not None or (clause.sizes and clause.sizes.months)):
        checks.report.problem(path, of_calendar)
    if shape.group_by:
        expected = "no group_by, as an empty pane has no groups; use partition_by, whose keys are remembered (rule EP8)"
        checks.report.problem(checks.path(index, "group_by"), expected)
    output_names = list(_names(shape))
    for name in shape.empty_panes.attributes:
        if name not in output_names:
            expected = f"an attribute of the output ({', '.join(output_names)})"
            checks.report.problem((*path, "attributes", name), expected, name, nearest(name, output_names))


def _names(shape: AggregateShape) -> Iterator[str]:
    for attributes in shape.output.values() if isinstance(shape.output, dict) else ():
        yield from attributes
