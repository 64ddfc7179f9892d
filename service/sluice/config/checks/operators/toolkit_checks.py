"""Checks and builds the operators of SPL's toolkit (docs/reference/toolkit.md): barriers and pairs (BA1 to BA8), delays
and throttles (DL1 to DL7), splits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.operators.union_checks import Unions
from sluice.config.syntax.file_models.operator_models import (
    BarrierShape,
    DelayShape,
    PairShape,
    SplitShape,
    ThrottleShape,
    input_key,
    inputs_of,
)
from sluice.config.syntax.file_models.value_models import written
from sluice.config.syntax.typed_expressions import Scope
from sluice.model.errors import nearest
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Barrier, Delay, Output, Port, Split
from sluice.time_units import SECOND


def barrier(checks: ExpressionChecks, index: int, shape: BarrierShape | PairShape) -> Barrier:
    names, unions = [name for _, name in inputs_of(shape)], Unions(checks.streams)
    is_pair = isinstance(shape, PairShape)
    if not is_pair:
        unions.check_distinct(checks.path(index, input_key(shape)), names)
    ports = tuple(Port(name, name, keys(checks, index, shape, name)) for name in names)
    check_keys(checks, index, shape, ports)
    outputs = of_pair(checks, index, shape, unions, names) if is_pair else of_sets(checks, index, shape, names)
    timeout = None if shape.timeout is None else round(shape.timeout * SECOND)
    return Barrier(shape.name, ports, outputs, is_pair, shape.buffer, timeout)


def of_sets(
    checks: ExpressionChecks, index: int, shape: BarrierShape | PairShape, names: Sequence[str]
) -> tuple[Output, ...]:
    """The outputs of a barrier: expressions over the attributes of all inputs (BA2)."""
    schemas = [checks.streams.schemas.get(name) for name in names]
    sides = {name: dict(schema) for name, schema in zip(names, schemas, strict=True) if schema is not None}
    scope = Scope(" and ".join(names), {}, "in a barrier", sides) if len(sides) == len(names) else None
    unchanged: dict[str, Expression] = {}
    for name in names:
        unchanged = checks.unchanged(name, name) | unchanged
    return checks.outputs(index, shape, scope, unchanged)


def of_pair(
    checks: ExpressionChecks, index: int, shape: BarrierShape | PairShape, unions: Unions, names: Sequence[str]
) -> tuple[Output, ...]:
    """The outputs of a pair, whose inputs have the same attributes (BA3)."""
    schema = unions.united(checks.path(index, input_key(shape)), names) or ()
    return checks.outputs(index, shape, None, {name: Attribute(name, kind) for name, kind in schema})


def keys(checks: ExpressionChecks, index: int, shape: BarrierShape | PairShape, name: str) -> tuple[Expression, ...]:
    """The key of one input."""
    scope, path, texts = checks.scope(name, "in partition_by"), checks.path(index, "partition_by"), shape.partition_by
    if not isinstance(texts, dict):
        return checks.keys(path, texts, scope)
    return checks.keys((*path, name), texts.get(name, ()), scope)


def check_keys(checks: ExpressionChecks, index: int, shape: BarrierShape | PairShape, ports: Sequence[Port]) -> None:
    """Checks that all inputs have keys of the same types."""
    path, names, first = checks.path(index, "partition_by"), [port.name for port in ports], ports[0]
    if isinstance(shape.partition_by, dict):
        for name in shape.partition_by:
            if name not in names:
                checks.report.problem((*path, name), f"an input ({', '.join(names)})", name, nearest(name, names))
    if checks.report.problems:
        return
    for port in ports[1:]:
        of_first, of_port = ([str(key.type.present) for key in compared.key] for compared in (first, port))
        if of_first != of_port:
            actual, wanted = (", ".join(kinds) or "no key" for kinds in (of_port, of_first))
            expected = f"a key with the types of {first.name}, which has {wanted}; {port.name} has {actual} (rule BA1)"
            checks.report.problem(path, expected, port.name)


def delay(checks: ExpressionChecks, index: int, shape: DelayShape | ThrottleShape) -> Delay:
    """The operator. Its output tuples have the attributes of the input, unchanged."""
    source = shape.delay if isinstance(shape, DelayShape) else shape.throttle
    outputs = checks.outputs(index, shape, None, checks.unchanged(source))
    scope = checks.scope(source, f"in a {'delay' if isinstance(shape, DelayShape) else 'throttle'}")
    key = checks.keys(checks.path(index, "partition_by"), shape.partition_by, scope)
    lag = round(shape.by * SECOND) if isinstance(shape, DelayShape) else 0
    gap = 0 if isinstance(shape, DelayShape) else round(SECOND / shape.rate)
    return Delay(shape.name, source, outputs, lag, gap, shape.buffer, key)


def split(checks: ExpressionChecks, index: int, shape: SplitShape) -> Split:
    """The split. Its output tuples have the attributes of the input, unchanged (SW1)."""
    outputs = checks.outputs(index, shape, None, checks.unchanged(shape.split))
    conditions = [_condition(checks, index, shape, stream) for stream in shape.to]
    if shape.otherwise is not None and shape.otherwise in shape.to:
        checks.report.problem(checks.path(index, "otherwise"), "a stream that is not in to", shape.otherwise)
    rest = () if shape.otherwise is None else (None,)
    return Split(
        shape.name, shape.split, outputs, conditions=(*conditions, *rest), several=shape.copies == "all"
    )  # fmt: skip


def _condition(checks: ExpressionChecks, index: int, shape: SplitShape, stream: str) -> Expression | None:
    """The condition of an output: one of its conditions holds or, with `by`, the expression has one of its values."""
    texts = [_equal(shape.by, value) if shape.by is not None else str(written(value)) for value in shape.to[stream]]
    whole = texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)
    return checks.condition(checks.path(index, "to", stream), whole, checks.scope(shape.split, "in a split"))


def _equal(by: str, value: str | float) -> str:
    """The condition that an expression has this value; a text is a value as it stands."""
    return f"({by}) == {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else written(value)}"
