"""Builds the window of an operator from its clause."""

from __future__ import annotations

from dataclasses import replace

from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.config.syntax.window_clause import ParsedClause, parse_clause
from sluice.model.errors import Fault, Path
from sluice.model.expressions import Expression
from sluice.model.spec import Count, Punct, Sliding, Tumbling, Window
from sluice.model.windows.policies.policy import Input
from sluice.model.windows.table_window import TableWindow

#: replaces a window that is wrong; the report has the reason
UNKNOWN = Tumbling(Punct())


def window(
    text: str, path: Path, scope: Scope | None, report: Report, *, storing: bool = True
) -> tuple[ParsedClause, Window]:
    """The parsed clause, and the window. `scope` is that of the input; if it is None, attributes in policies are not
    checked.

    With `storing`, a window that stores no tuples gets a hint. In a join such a window is useful: its tuples are only
    matched with those of the other side (J17).
    """
    clause = parse_clause(text, input_of(scope), storing=storing)
    for fault in clause.faults:
        report.fault(path, fault)
    for caution in clause.cautions:
        report.caution(path, caution)
    for fault in clause.mistyped:
        report.fault(path, fault)
    return clause, assemble(clause)


def input_of(scope: Scope | None) -> Input | None:
    """The input as policies read it. Sizes of policies are expressions without aggregation functions."""
    if scope is None:
        return None
    inside = replace(scope, no_aggregates="in a window clause")

    def size(text: str) -> Expression | tuple[Fault, ...]:
        try:
            return parse(text, inside)
        except ExpressionError as error:
            return error.faults

    return Input(scope.stream, scope.attributes, size)


def assemble(clause: ParsedClause) -> Window:
    leaving = next((policy for policy, _ in clause.leaving), None)
    policies = [policy for _, policy, _ in clause.policies if policy is not None]
    if len(policies) < len(clause.policies) or (not clause.tumbling and any(policy.by_marks for policy in policies)):
        return UNKNOWN
    if clause.whole:
        return TableWindow(policies[0] if policies else Count(1), clause.partitioned)
    match policies:
        case [eviction, *others] if clause.tumbling:
            return Tumbling(eviction, clause.partitioned, leaving, tuple(others))
        case [eviction]:
            return Sliding(eviction, partitioned=clause.partitioned, partition_eviction=leaving)
        case [eviction, trigger]:
            return Sliding(eviction, trigger, clause.partitioned, leaving)
    return UNKNOWN
