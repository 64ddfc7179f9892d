"""Warns of results that are valid and seldom meant: event times that are late, or in the wrong pane, for the operator
that reads them (E39, Q9), and int64 results without their fractions (A20).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path
from sluice.model.expressions import AggregateCall, walk
from sluice.model.functions import AGGREGATES
from sluice.model.lateness.late_words import Finding, findings
from sluice.model.spec import Aggregate, Join, Map, Operator, Pipeline, Union
from sluice.model.types import FLOAT64, INT64, Type, list_of
from sluice.model.unparse import expression

#: the functions whose int64 results lack their fractions
CUTTING = {function.name for function in AGGREGATES.values() if function.cuts}


def check_late_results(pipeline: Pipeline, paths: Sequence[Path], report: Report) -> None:
    """`paths` has the path of each operator in the file, which has no unions."""
    written = [operator.name for operator in pipeline.operators if not isinstance(operator, Union)]
    of_operators = dict(zip(written, paths, strict=True))
    for finding in findings(pipeline):
        report.caution(_path(finding, of_operators), finding.text)


def _path(finding: Finding, paths: Mapping[str, Path]) -> Path:
    """The place that the file has for the event time of an output: an expression, the stream, or the operator."""
    operator = finding.operator
    if isinstance(operator, Union):
        return ("streams", finding.stream)
    if isinstance(operator, Aggregate | Join | Map):
        return (*paths[operator.name], "output", finding.stream, finding.attribute)
    return paths[operator.name]


def check_cut_results(operators: tuple[Operator, ...], paths: Sequence[Path], report: Report) -> None:
    """`paths` has the path of each operator in the file, which has no unions. `int64(Average(float64(x)))` is the same
    result on purpose.
    """
    written = [operator for operator in operators if not isinstance(operator, Union)]
    for path, operator in zip(paths, written, strict=True):
        for output in operator.outputs if isinstance(operator, Aggregate) else ():
            for name, result in output.attributes:
                for call in walk(result):
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
