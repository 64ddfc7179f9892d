"""Warns of results whose event time is behind the watermark, or in the wrong pane, for what reads them (E39, Q9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path
from sluice.model.lateness.late_words import Finding, findings
from sluice.model.spec import Aggregate, Join, Map, Pipeline, Union


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
