"""What can be wrong with a pipeline file.

SluiceError              anything that ends a command with a message instead of a traceback
└── PipelineError        the pipeline file is wrong; holds every Problem that was found
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: keys and list positions from the top of the file: ("operators", 0, "window")
Path = tuple[str | int, ...]

#: problems, and as many warnings, that are listed of one file
MOST_FINDINGS = 100
#: characters of a place, of a value and of what was expected that a message shows
MOST_PLACE, MOST_GOT, MOST_EXPECTED = 200, 200, 1000
#: characters of a word, and known words, among which `nearest` looks: its time grows with both
MOST_LETTERS, MOST_KNOWN = 100, 1000


class SluiceError(Exception):
    """Ends the command with its text on stderr and `exit_code`."""

    exit_code = 1


class PipelineError(SluiceError):
    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class TooManyError(Exception):
    """A file has more than MOST_FINDINGS problems; those that were found before are listed."""


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
        got = "nothing" if self.got is None else f'"{cut(self.got, MOST_GOT)}"'
        column = f" at column {self.column}" if self.column else ""
        hint = f" (did you mean {cut(self.hint, MOST_GOT)}?)" if self.hint else ""
        expected = cut(self.expected, MOST_EXPECTED)
        return printable(f"{place(self.file, self.line, self.path)}expected {expected}, got {got}{column}{hint}")


@dataclass(frozen=True, slots=True)
class Hint:
    """Legal, but perhaps not what was meant."""

    file: str
    line: int | None
    path: str
    text: str

    def __str__(self) -> str:
        return printable(f"{place(self.file, self.line, self.path)}warning: {cut(self.text, MOST_EXPECTED)}")


def place(file: str, line: int | None, path: str) -> str:
    file = cut(file, MOST_EXPECTED)
    where = file if line is None else f"{file}:{line}"
    return f"{where}: {cut(path, MOST_PLACE)}: " if path else f"{where}: "


def cut(text: str, most: int) -> str:
    """The text, or its first `most` characters and how many there are."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text):,} characters)"


def printable(text: str) -> str:
    """Text that every terminal and log takes: control characters and lone surrogates stand there as escapes."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


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
    if len(word) > MOST_LETTERS:
        return None
    words = list(islice(known, MOST_KNOWN))
    same = [w for w in words if w.lower() == word.lower()]
    return next(iter(same or difflib.get_close_matches(word, words, n=1, cutoff=0.6)), None)


def one_of(words: Iterable[str]) -> str:
    """`a, b or c`, in the given order."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
