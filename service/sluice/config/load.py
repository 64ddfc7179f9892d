"""Loads a pipeline file: the result is the Pipeline that the file describes, or all problems of the file.

${NAME} in window clauses is replaced by variables of the environment. Sizes are no secrets: messages show them, and a
size that changes is a changed pipeline.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sluice.api.class_loader import search_beside
from sluice.config.checks.pipeline_builder import build
from sluice.config.syntax.parse_model import parse_model
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.yaml_reader import Source, read, read_text
from sluice.model.errors import MAX_FINDINGS, Hint, PipelineError, Problem, TooManyError
from sluice.model.spec import Pipeline

#: the keys of an operator that have sizes of windows
KEYS = ("window", "window_left", "window_right", "within", "early")
#: ${NAME}; $${ stands for the two characters ${
REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}")


class Checked(NamedTuple):
    #: None if there are problems
    pipeline: Pipeline | None
    problems: tuple[Problem, ...]
    cautions: tuple[Hint, ...]


def load(
    path: str | Path, *, environment: Mapping[str, str] | None = os.environ, overrides: Mapping[str, Any] | None = None
) -> Pipeline:
    """The pipeline of a file. Raises PipelineError with all problems.

    `environment` has the values of ${...} under `kafka` and `registry`. None leaves ${...} unchanged, for callers that
    do not connect to Kafka. `overrides` replaces top-level keys of the file; `kafka` is merged with that of the file.
    """
    search_beside(path)
    return result(check_source(read(path), environment, overrides))


def load_text(
    text: str,
    file: str,
    *,
    environment: Mapping[str, str] | None = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Pipeline:
    """The pipeline of a text, as `load` gives it for a file. `file` is the name of the file in messages."""
    return result(check_source(read_text(text, file), environment, overrides))


def check(
    path: str | Path, *, environment: Mapping[str, str] | None = os.environ, overrides: Mapping[str, Any] | None = None
) -> Checked:
    """The pipeline, all problems and all hints of a file. Raises no PipelineError."""
    search_beside(path)
    try:
        return check_source(read(path), environment, overrides)
    except PipelineError as error:
        return Checked(None, error.problems, ())


def check_text(text: str, file: str, *, environment: Mapping[str, str] | None = os.environ) -> Checked:
    """The pipeline, all problems and all hints of a text, as `check` gives them for a file."""
    try:
        return check_source(read_text(text, file), environment, None)
    except PipelineError as error:
        return Checked(None, error.problems, ())


def check_source(source: Source, environment: Mapping[str, str] | None, overrides: Mapping[str, Any] | None) -> Checked:
    source.override(overrides or {})
    report = Report(source, source.problems[:MAX_FINDINGS])
    pipeline = None
    with suppress(TooManyError):
        replace_variables(report, os.environ if environment is None else environment)
        shaped = parse_model(report)
        pipeline = build(shaped, environment, report) if shaped else None
    problems = sorted(report.problems, key=lambda problem: problem.line or 0)
    cautions = sorted(report.cautions, key=lambda caution: caution.line or 0)
    return Checked(None if problems else pipeline, tuple(problems), tuple(cautions))


def result(checked: Checked) -> Pipeline:
    if checked.pipeline is None:
        raise PipelineError(checked.problems)
    return checked.pipeline


def replace_variables(report: Report, environment: Mapping[str, str]) -> None:
    """Replaces each ${NAME} in the data of the file. A variable that is missing is a problem of its key."""
    operators = report.source.data.get("operators")
    for index, operator in enumerate(operators if isinstance(operators, list) else ()):
        for key in KEYS if isinstance(operator, dict) else ():
            if isinstance(text := operator.get(key), str) and "${" in text:
                missing = [name for name in REFERENCE.findall(text) if name and name not in environment]
                for name in missing:
                    report.problem(("operators", index, key), f"the environment variable {name}", f"${{{name}}}")
                operator[key] = REFERENCE.sub(lambda match: _value(match["name"], environment), text)


def _value(name: str | None, environment: Mapping[str, str]) -> str:
    return "${" if name is None else environment.get(name, "1")
