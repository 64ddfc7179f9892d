"""Checks the functions of earlier tuples in a map, and their keys (docs/reference/functions.md, PV1 to PV10)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.config.syntax.file_models.operator_models import MapShape
from sluice.config.syntax.typed_expressions import Scope
from sluice.model.expressions import previous_calls
from sluice.model.spec import KeyedMap, Map
from sluice.time_units import SECOND

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
