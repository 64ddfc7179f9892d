"""Collects the problems and hints that checks find in a pipeline file, each with its line and key."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.config.syntax.yaml_reader import Source
from sluice.model.errors import AS_WRITTEN, MAX_FINDINGS, Fault, Hint, Path, Problem, TooManyError, spell


@dataclass(slots=True)
class Report:
    """The problems and hints found in a file. `problem` raises TooManyError at more than MAX_FINDINGS problems."""

    source: Source
    problems: list[Problem] = field(default_factory=list)
    cautions: list[Hint] = field(default_factory=list)

    def problem(
        self,
        path: Path,
        expected: str,
        got: str | None = AS_WRITTEN,
        hint: str | None = None,
        column: int | None = None,
    ) -> None:
        if len(self.problems) >= MAX_FINDINGS:
            raise TooManyError
        line = self.source.line(path)
        text = self.source.texts.get(path) if got == AS_WRITTEN else got
        self.problems.append(Problem(self.source.file, line, spell(path), expected, text, hint, column))

    def fault(self, path: Path, fault: Fault) -> None:
        self.problem(path, fault.expected, fault.got, fault.hint, fault.column)

    def caution(self, path: Path, text: str) -> None:
        if len(self.cautions) < MAX_FINDINGS:
            self.cautions.append(Hint(self.source.file, self.source.line(path), spell(path), text))
