"""Warns of functions whose int64 results lack their fractions, which is seldom what is meant (A20)."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path
from sluice.model.expressions import AggregateCall, walk
from sluice.model.functions import AGGREGATES
from sluice.model.spec import Aggregate, Operator, Union
from sluice.model.types import FLOAT64, INT64, Type, list_of
from sluice.model.unparse import expression

#: the functions whose int64 results lack their fractions
CUTTING = {function.name for function in AGGREGATES.values() if function.cuts}


def check_cut_results(operators: tuple[Operator, ...], paths: Sequence[Path], report: Report) -> None:
    """`paths` has the path of each operator in the file, which has no unions. `int64(Average(float64(x)))` is the same
    result on purpose.
    """
    for path, operator in zip(
        paths, (operator for operator in operators if not isinstance(operator, Union)), strict=True
    ):
        for output in operator.outputs if isinstance(operator, Aggregate) else ():
            for name, given in output.attributes:
                for call in walk(given):
                    if isinstance(call, AggregateCall) and call.function in CUTTING and _is_whole(call.type):
                        report.caution((*path, "output", output.stream, name), _about_cut(call))


def _is_whole(type_: Type) -> bool:
    return INT64 in (type_, type_.element)


def _about_cut(call: AggregateCall) -> str:
    argument = expression(call.arguments[0])
    whole = f"{call.function}({argument}) of {call.arguments[0].type} is cut to whole numbers, as in SPL (rule A20)"
    if call.type == INT64:
        return f"{whole}; {call.function}(float64({argument})) has the fraction"
    return f"{whole}; of {list_of(FLOAT64)} it has the fraction"
