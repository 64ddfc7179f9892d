"""What can be wrong with a pipeline file.

SluiceError              anything that ends a command with a message instead of a traceback
└── PipelineError        the pipeline file is wrong; holds every Problem that was found
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

#: keys and list positions from the top of the file: ("operators", 0, "window")
Path = tuple[str | int, ...]


class SluiceError(Exception):
    """Ends the command with its text on stderr and `exit_code`."""

    exit_code = 1


class PipelineError(SluiceError):
    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong inside one text, a window clause or an expression."""

    expected: str
    #: the wrong part as it is written; None: nothing is there
    got: str | None = None
    #: the nearest known word
    hint: str | None = None
    #: where `got` starts in the text, from 1
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in the file."""

    file: str
    line: int | None
    path: str
    expected: str
    got: str | None = None
    hint: str | None = None
    column: int | None = None

    def __str__(self) -> str:
        got = "nothing" if self.got is None else f'"{self.got}"'
        column = f" at column {self.column}" if self.column else ""
        hint = f" (did you mean {self.hint}?)" if self.hint else ""
        return f"{place(self.file, self.line, self.path)}expected {self.expected}, got {got}{column}{hint}"


@dataclass(frozen=True, slots=True)
class Caution:
    """Legal, but perhaps not what was meant."""

    file: str
    line: int | None
    path: str
    text: str

    def __str__(self) -> str:
        return f"{place(self.file, self.line, self.path)}warning: {self.text}"


def place(file: str, line: int | None, path: str) -> str:
    where = file if line is None else f"{file}:{line}"
    return f"{where}: {path}: " if path else f"{where}: "


def spell(path: Path) -> str:
    """`operators[0].window`, `kafka["bootstrap.servers"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "a").isalnum():
            text += f".{step}"
        else:
            text += f'["{step}"]'
    return text.removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    words = list(known)
    same = [w for w in words if w.lower() == word.lower()]
    return next(iter(same or difflib.get_close_matches(word, words, n=1, cutoff=0.6)), None)


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`, in the given order."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
