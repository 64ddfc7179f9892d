"""Checks what a map may have beside its outputs: `each`, the list whose elements become tuples (ST13), and functions of
earlier tuples with their keys (docs/reference/functions.md, PV1 to PV10).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.config.syntax.file_models.operator_models import MapShape
from sluice.config.syntax.typed_expressions import Scope
from sluice.model.expressions import Expression, previous_calls
from sluice.model.spec import Each, KeyedMap, Map
from sluice.model.types import MapType
from sluice.time_units import SECOND

if TYPE_CHECKING:
    from sluice.config.checks.expression_checks import ExpressionChecks

#: `items as item at n`
CLAUSE = re.compile(r"(?P<values>.+?)\s+as\s+(?P<item>\w+)(?:\s+at\s+(?P<position>\w+))?\s*", re.DOTALL)


def unnesting(checks: ExpressionChecks, index: int, shape: MapShape) -> Each | None:
    """The clause; None if it is wrong, which is reported."""
    path, text = checks.path(index, "each"), str(shape.each)
    parts = CLAUSE.fullmatch(text)
    if parts is None:
        checks.report.problem(path, "a list, `as`, and a name of its elements, such as items as item", text)
        return None
    before = len(checks.report.problems)
    values = checks.expression(path, parts["values"], checks.scope(shape.map, "in each"))
    _check_names(checks, index, shape, [name for name in (parts["item"], parts["position"]) if name])
    if values is None or not _has_elements(checks, index, values, text) or len(checks.report.problems) > before:
        return None
    return Each(values, parts["item"], parts["position"])


def _has_elements(checks: ExpressionChecks, index: int, values: Expression, text: str) -> bool:
    kind = values.type.present
    if kind.element is None and not isinstance(kind, MapType):
        checks.report.problem(checks.path(index, "each"), f"a list or a map, not {values.type}", text)
        return False
    return True


def _check_names(checks: ExpressionChecks, index: int, shape: MapShape, names: list[str]) -> None:
    path, input_types = checks.path(index, "each"), dict(checks.streams.schemas.get(shape.map, ()))
    for place, name in enumerate(names):
        checks.streams.check_attribute(path, name)
        if name in input_types or name in names[:place]:
            checks.report.problem(path, f"a name that no attribute of {shape.map} has, and that occurs once", name)


if TYPE_CHECKING:
    from sluice.config.checks.expression_checks import ExpressionChecks

BEFORE = (
    "in the output of a map alone, as where is decided before: give the value a name there, and drop tuples in a map "
    "that reads this one"
)


def looking_back(scope: Scope | None) -> Scope | None:
    """The scope in which functions of earlier tuples may be called."""
    return None if scope is None else replace(scope, no_earlier=None)


def decided_before(scope: Scope | None) -> Scope | None:
    """The scope of `where`, which drops tuples before a later tuple reads them (PV3)."""
    return None if scope is None else replace(scope, no_earlier=BEFORE)


def keyed(checks: ExpressionChecks, index: int, shape: MapShape, scope: Scope | None, plain: Map) -> Map:
    """The map, with its key if an output reads earlier tuples."""
    partition_by = checks.keys(checks.path(index, "partition_by"), shape.partition_by, scope)
    if not previous_calls(e for output in plain.outputs for _, e in output.attributes):
        _check_unused(checks, index, shape)
        return plain
    forget_after = None if shape.forget_after is None else round(shape.forget_after * SECOND)
    return KeyedMap(
        plain.name, plain.input, plain.outputs, plain.where, plain.each, partition_by=partition_by,
        forget_after=forget_after,
    )  # fmt: skip


def _check_unused(checks: ExpressionChecks, index: int, shape: MapShape) -> None:
    """Reports keys of the file without effect, unless an output has a problem of its own."""
    if checks.report.problems:
        return
    for key in ("partition_by", "forget_after"):
        if getattr(shape, key):
            expected = f"no {key}, as no output has previous(), change() or rate() (rule PV1)"
            checks.report.problem(checks.path(index, key), expected)
