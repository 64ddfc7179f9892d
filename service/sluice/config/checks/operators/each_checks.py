"""Checks `each` of a map: the list whose elements become tuples (ST13)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.config.syntax.file_models.operator_models import MapShape
from sluice.model.expressions import Expression
from sluice.model.spec import Each
from sluice.model.types import MapType

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
    path, known = checks.path(index, "each"), dict(checks.streams.schemas.get(shape.map, ()))
    for place, name in enumerate(names):
        checks.streams.check_attribute(path, name)
        if name in known or name in names[:place]:
            checks.report.problem(path, f"a name that no attribute of {shape.map} has, and that occurs once", name)
