"""Checks a barrier or a pair and builds it (docs/reference/toolkit.md, BA1 to BA8)."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.operators.union_checks import Unions
from sluice.config.syntax.file_models.operator_models import BarrierShape, PairShape, input_key, inputs_of
from sluice.config.syntax.typed_expressions import Scope
from sluice.model.errors import nearest
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Barrier, Output, Port
from sluice.time_units import SECOND


def barrier(typed: ExpressionChecks, index: int, shape: BarrierShape | PairShape) -> Barrier:
    names, unions = [name for _, name in inputs_of(shape)], Unions(typed.streams)
    apart = isinstance(shape, PairShape)
    if not apart:
        unions.check_distinct(typed.path(index, input_key(shape)), names)
    ports = tuple(Port(name, name, keys(typed, index, shape, name)) for name in names)
    check_keys(typed, index, shape, ports)
    outputs = of_pair(typed, index, shape, unions, names) if apart else of_sets(typed, index, shape, names)
    timeout = None if shape.timeout is None else round(shape.timeout * SECOND)
    return Barrier(shape.name, ports, outputs, apart, shape.buffer, timeout)


def of_sets(
    typed: ExpressionChecks, index: int, shape: BarrierShape | PairShape, names: Sequence[str]
) -> tuple[Output, ...]:
    """The outputs of a barrier: expressions over the attributes of all inputs (BA2)."""
    schemas = [typed.streams.schemas.get(name) for name in names]
    sides = {name: dict(schema) for name, schema in zip(names, schemas, strict=True) if schema is not None}
    scope = Scope(" and ".join(names), {}, "in a barrier", sides) if len(sides) == len(names) else None
    unchanged: dict[str, Expression] = {}
    for name in names:
        unchanged = typed.unchanged(name, name) | unchanged
    return typed.outputs(index, shape, scope, unchanged)


def of_pair(
    typed: ExpressionChecks, index: int, shape: BarrierShape | PairShape, unions: Unions, names: Sequence[str]
) -> tuple[Output, ...]:
    """The outputs of a pair, whose inputs have the same attributes (BA3)."""
    schema = unions.united(typed.path(index, input_key(shape)), names) or ()
    return typed.outputs(index, shape, None, {name: Attribute(name, kind) for name, kind in schema})


def keys(typed: ExpressionChecks, index: int, shape: BarrierShape | PairShape, name: str) -> tuple[Expression, ...]:
    """The key of one input."""
    scope, path, texts = typed.scope(name, "in partition_by"), typed.path(index, "partition_by"), shape.partition_by
    if not isinstance(texts, dict):
        return typed.keys(path, texts, scope)
    return typed.keys((*path, name), texts.get(name, ()), scope)


def check_keys(typed: ExpressionChecks, index: int, shape: BarrierShape | PairShape, ports: Sequence[Port]) -> None:
    """Checks that all inputs have keys of the same types."""
    path, names, first = typed.path(index, "partition_by"), [port.name for port in ports], ports[0]
    if isinstance(shape.partition_by, dict):
        for name in shape.partition_by:
            if name not in names:
                typed.report.problem((*path, name), f"an input ({', '.join(names)})", name, nearest(name, names))
    if typed.report.problems:
        return
    for port in ports[1:]:
        theirs, ours = ([str(key.type.present) for key in compared.key] for compared in (first, port))
        if theirs != ours:
            has, needs = (", ".join(kinds) or "no key" for kinds in (ours, theirs))
            expected = f"a key with the types of {first.name}, which has {needs}; {port.name} has {has} (rule BA1)"
            typed.report.problem(path, expected, port.name)
