"""Joins the parts of an expression without quotes that YAML has cut at a comma inside of {...}.

Each such expression is reported as a problem, with the quoted form to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path


def joined(report: Report) -> Mapping[str, Any]:
    """The data of the file, in which each expression that YAML has cut is whole. Each of them is a problem.

    YAML reads `{pages: First(page, 5)}` as `pages: First(page` and a key `5)` without a value.
    """
    data: Mapping[str, Any] = report.source.data
    operators = data.get("operators")
    if not isinstance(operators, list):
        return data
    changed = [_operator(report, ("operators", index), one) for index, one in enumerate(operators)]
    return {**data, "operators": changed}


def _operator(report: Report, path: Path, operator: object) -> object:
    outputs = operator.get("output") if isinstance(operator, Mapping) else None
    if not isinstance(operator, Mapping) or not isinstance(outputs, Mapping):
        return operator
    whole = {
        stream: dict(_whole(report, (*path, "output", stream), given)) if isinstance(given, Mapping) else given
        for stream, given in outputs.items()
    }
    return {**operator, "output": whole}


def _whole(report: Report, path: Path, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The attributes of an output with their expressions."""
    entries = list(given.items())
    while entries:
        name, text = entries.pop(0)
        if isinstance(text, str) and _open(text) and entries and entries[0][1] is None:
            while _open(text) and entries and entries[0][1] is None:
                text += f", {entries.pop(0)[0]}"
            expected = "quotes around an expression with commas inside of {...}"
            report.problem((*path, name), expected, text, f'"{text}"')
        yield name, text


def _open(text: str) -> bool:
    return text.count("(") > text.count(")")
