"""The errors of a pipeline file, and the texts of messages about them.

SluiceError              an error that ends a command with a message instead of a traceback
├── PipelineError        the pipeline file is wrong; it holds every Problem that was found
└── InvariantError       an invariant does not hold (invariants.py), which is a defect of Sluice
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: keys and list positions from the top of the file: ("operators", 0, "window")
Path = tuple[str | int, ...]

#: in place of the text of a value: the text that the file has at the path of the problem
AS_WRITTEN = "\0"
#: maximum number of problems, and also of hints, that are listed for one file
MAX_FINDINGS = 100
#: maximum number of characters of the path, the value and the expectation in a message
MAX_LOCATION, MAX_GOT, MAX_EXPECTED = 200, 200, 1000
#: maximum length of a word, and maximum number of known words, in `nearest`, whose cost grows with both
MAX_LETTERS, MAX_KNOWN = 100, 1000


class SluiceError(Exception):
    """An error that ends the command with `exit_code`. Its text is written to standard error."""

    exit_code = 1

    def lasts(self) -> bool:
        """Whether the error knows that its cause is still there, so that a new start would be refused again."""
        return False


class PipelineError(SluiceError):
    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class InvariantError(SluiceError):
    """An invariant does not hold, which is a defect of Sluice. The text has the invariant's name (invariants.py)."""

    exit_code = 70


class TooManyError(Exception):
    """A file has more than MAX_FINDINGS problems. Only the first of them are listed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error inside one text: a window clause or an expression."""

    expected: str
    #: the wrong part as it is written; None if something is missing
    got: str | None = None
    #: the most similar known word
    hint: str | None = None
    #: the column at which `got` starts in the text, from 1 on
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a pipeline file, with the file, the line and the path of the key."""

    file: str
    line: int | None
    path: str
    expected: str
    got: str | None = None
    hint: str | None = None
    column: int | None = None

    def __str__(self) -> str:
        value = "nothing" if self.got is None else f'"{cut(self.got, MAX_GOT)}"'
        column = f" at column {self.column}" if self.column else ""
        hint = f" (did you mean {cut(self.hint, MAX_GOT)}?)" if self.hint else ""
        expected = cut(self.expected, MAX_EXPECTED)
        return printable(f"{location(self.file, self.line, self.path)}expected {expected}, got {value}{column}{hint}")


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint: something in a pipeline file is permitted, but perhaps not intended."""

    file: str
    line: int | None
    path: str
    text: str

    def __str__(self) -> str:
        return printable(f"{location(self.file, self.line, self.path)}warning: {cut(self.text, MAX_EXPECTED)}")


def location(file: str, line: int | None, path: str) -> str:
    file = cut(file, MAX_EXPECTED)
    where = file if line is None else f"{file}:{line}"
    return f"{where}: {cut(path, MAX_LOCATION)}: " if path else f"{where}: "


def cut(text: str, limit: int) -> str:
    """The text if it has at limit `limit` characters, else its first `limit` characters and its length."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text):,} characters)"


def printable(text: str) -> str:
    """The text with control characters and lone surrogates as escapes, which is safe for terminals and logs."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def spell(path: Path) -> str:
    """The text of a path: `operators[0].window`, `kafka["bootstrap.servers"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "a").isalnum():
            text += f".{step}"
        else:
            text += f'["{step}"]'
    return text.removeprefix(".")


def nearest(word: str, candidates: Iterable[str], least: float = 0.6) -> str | None:
    """The known word most similar to `word`, in letters of any case; None if none is similar.

    `least` is the least similarity, the share of common letters: 1 for equal words.
    """
    if len(word) > MAX_LETTERS:
        return None
    words: dict[str, str] = {}
    for candidate in islice(candidates, MAX_KNOWN):
        words.setdefault(candidate.lower(), candidate)
    lower = word.lower()
    matches = [lower] if lower in words else difflib.get_close_matches(lower, words, n=1, cutoff=least)
    return words[matches[0]] if matches else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one; empty if none is similar."""
    near = nearest(word, words)
    return f" (did you mean {near}?)" if near else ""


def one_of(words: Iterable[str]) -> str:
    """The words as `a, b or c`, in the given order."""
    *limit, last = words
    return f"{', '.join(limit)} or {last}" if limit else last
