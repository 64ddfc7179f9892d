"""Replaces ${NAME} in the window clauses of a pipeline file by variables of the environment.

Sizes are no secrets: messages show them, and a size that changes is a changed pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sluice.config.syntax.problem_report import Report

#: the keys of an operator that have sizes of windows
KEYS = ("window", "window_left", "window_right", "within", "early")
#: ${NAME}; $${ stands for the two characters ${
REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}")


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
