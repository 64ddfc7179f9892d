"""Builds the window of an operator from its clause, and converts sizes of delta to the types of their attributes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from sluice.config.syntax.durations import NUMBER, with_unit
from sluice.config.syntax.expression_grammar import ExpressionError
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.config.syntax.window_clause import DeltaText, ParsedClause, parse_clause
from sluice.model.errors import Fault, Path, nearest
from sluice.model.expressions import Call
from sluice.model.spec import Count, Delta, Punct, Sliding, Time, Tumbling, Window
from sluice.model.types import FLOAT64, INT64, TIMESTAMP, Type
from sluice.time_units import SECOND

MAX_INT64 = 2**63 - 1


#: replaces a window that is wrong; the report has the reason
UNKNOWN = Tumbling(Punct())


def window(
    text: str, path: Path, scope: Scope | None, report: Report, *, storing: bool = True
) -> tuple[ParsedClause, Window]:
    """The parsed clause, and the window. `scope` is that of the input; if it is None, sizes of delta are not checked.

    With `storing`, a window that stores no tuples gets a hint. In a join such a window is useful: its tuples are only
    matched with those of the other side (J17).
    """
    clause = parse_clause(text, storing=storing)
    for fault in clause.faults:
        report.fault(path, fault)
    for caution in clause.cautions:
        report.caution(path, caution)
    policies = [typed(policy, scope, path, report) for policy, _ in clause.policies]
    return clause, assemble(clause, policies)


def assemble(clause: ParsedClause, policies: list[Count | Time | Delta | Punct | None]) -> Window:
    leaving = next((found for found, _ in clause.leaving), None)
    match policies:
        case [eviction, *others] if clause.tumbling and eviction and all(others):
            return Tumbling(eviction, clause.partitioned, leaving, tuple(one for one in others if one))
        case [(Count() | Time() | Delta()) as eviction]:
            return Sliding(eviction, partitioned=clause.partitioned, partition_eviction=leaving)
        case [(Count() | Time() | Delta()) as eviction, (Count() | Time() | Delta()) as trigger]:
            return Sliding(eviction, trigger, clause.partitioned, leaving)
        case _:
            return UNKNOWN


def typed(
    policy: Count | Time | DeltaText | Punct, scope: Scope | None, path: Path, report: Report
) -> Count | Time | Delta | Punct | None:
    if not isinstance(policy, DeltaText):
        return policy
    if scope is None:
        return None
    found = delta(policy, scope)
    if isinstance(found, Delta):
        return found
    for fault in found:
        report.fault(path, fault)
    return None


def delta(policy: DeltaText, scope: Scope) -> Delta | tuple[Fault, ...]:
    """The delta policy over an attribute of the input (W8), with its size in the attribute's type; or its faults."""
    part = policy.part
    kind = scope.attributes.get(policy.attribute)
    if kind is None:
        known = ", ".join(scope.attributes)
        hint = nearest(policy.attribute, scope.attributes)
        return (Fault(f"an attribute of {scope.stream} in delta ({known})", policy.attribute, hint, part.column),)
    if not kind.numeric and kind != TIMESTAMP:
        return (part.fault(f"delta over an int64, a float64 or a timestamp, not {policy.attribute}, a {kind}"),)
    duration = with_unit(policy.size)
    if duration is not None and kind == INT64:
        return (part.fault(f"a size without a unit, as {policy.attribute} is an int64"),)
    if duration is None and not NUMBER.fullmatch(policy.size):
        return delta_with_expression_size(policy, kind, scope)
    size = in_units(Decimal(policy.size) if duration is None else duration, kind)
    return Delta(policy.attribute, size) if size is not None else (part.fault(UNITS[kind]),)


def delta_with_expression_size(policy: DeltaText, kind: Type, scope: Scope) -> Delta | tuple[Fault, ...]:
    """A delta policy whose size is an expression over the newest tuple; or its faults."""
    try:
        size = parse(policy.size, replace(scope, no_aggregates="in a window clause"))
    except ExpressionError as error:
        start = policy.part.column + policy.part.text.index(policy.size, policy.part.text.index(",")) - 1
        return tuple(replace(fault, column=start + (fault.column or 1)) for fault in error.faults)
    wanted = INT64 if kind == INT64 else FLOAT64
    if size.type == INT64 != wanted:
        size = Call("float64", (size,), FLOAT64)
    if size.type != wanted:
        unit = "in seconds, " if kind == TIMESTAMP else ""
        return (policy.part.fault(f"a size that is {wanted}, {unit}as {policy.attribute} is {kind}, not {size.type}"),)
    return Delta(policy.attribute, size)


#: by type of the attribute: the sizes that a delta policy may have, for messages
UNITS = {
    INT64: f"a whole size up to {MAX_INT64}, as the attribute is an int64",
    TIMESTAMP: "a size in seconds and whole nanoseconds, as the attribute is a timestamp",
}


def in_units(size: Decimal, kind: Type) -> int | float | None:
    """The size in the unit of the engine (a timestamp's is 1 ns); None if it is not exact in that unit."""
    if kind not in UNITS:
        return float(size)
    exact = size * SECOND if kind == TIMESTAMP else size
    return int(exact) if exact <= MAX_INT64 and exact == exact.to_integral_value() else None
