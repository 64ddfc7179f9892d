"""Splits a window clause into its parts: words such as `sliding` and calls such as `count(5)`, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

from sluice.config.syntax import durations
from sluice.config.syntax.durations import spelled_here, with_unit
from sluice.model.errors import Fault, nearest
from sluice.model.windows.policies.policy import MAX_COUNT

PART = re.compile(
    r"\s*(?P<text>(?P<word>[^\W\d]\w*)\s*(?P<call>\((?P<arguments>.*)\))?(?P<since>\s+since\s+first)?)\s*"
)
OR = re.compile(r"(?<=[\s)])or(?=\s)")
#: words with which other systems begin a size, as in `SIZE 1 MINUTE`
SIZE_WORDS = re.compile(r"^(size|of|range|every|gap|advance by|slide|within)\s+", re.IGNORECASE)
#: a policy with words behind it that may mean `since first`
BEHIND = re.compile(r"(?P<policy>[^\W\d]\w*\s*\(.*\))\s*(?P<words>[^\W\d]\w*(\s+[^\W\d]\w*)?)")
INTEGER = re.compile(r"[-+]?\d+")
#: a size as other languages give it, as in `count=5`
ASSIGNED = re.compile(r"(?P<word>[^\W\d]\w*)\s*[=:]\s*(?P<size>[\w.]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a clause: a word, with arguments if it is written as a call. `column` counts from 1. Policies read it
    (`Part` in model/windows/policies/policy.py has the contract).

    `alternative`: the word `or` stands before the part.
    """

    word: str
    arguments: tuple[str, ...] | None
    text: str
    column: int
    alternative: bool = False

    #: examples of sizes in seconds, for messages
    durations: ClassVar[str] = durations.EXAMPLES

    def fault(self, expected: str, hint: str | None = None) -> Fault:
        return Fault(expected, self.text, hint, self.column)

    def inside(self, argument: str, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        """Faults of an argument behind the first one, whose columns count from its beginning, as faults of the
        clause.
        """
        start = self.column + self.text.index(argument, self.text.index(",")) - 1
        return tuple(replace(fault, column=start + (fault.column or 1)) for fault in faults)

    def whole(self) -> int | None:
        """The argument, if it is the only one and a whole number from 0 to MAX_COUNT."""
        match self.arguments:
            case (text,) if INTEGER.fullmatch(text) and 0 <= Decimal(text) <= MAX_COUNT:
                return int(text)
        return None

    def seconds(self, text: str) -> Decimal | None:
        """The exact seconds of a number or of a number with a unit; None if the text is neither."""
        return durations.seconds(text)

    def with_unit(self, text: str) -> Decimal | None:
        """The exact seconds of a number with a unit; None if the text has another form."""
        return with_unit(text)

    def spelled_here(self, words: Container[str] = ()) -> str | None:
        """The part with its size as it is written here, if another system writes the size so: `time(5m)` for
        `time(5 minutes)`. `words`: the periods of the calendar that the part may have.
        """
        argument = self.arguments[0] if self.arguments and len(self.arguments) == 1 else ""
        word = argument.lower().strip("\"'").removeprefix("1").strip().removesuffix("s")
        size = (
            word
            if word in words and word != argument
            else spelled_here(argument)
            if with_unit(argument) is None
            else None
        )
        size = size or (spelled_here(f"1 {word}") if words else None)
        return f"{self.word}({size})" if size else None


def read_parts(text: str, faults: list[Fault]) -> Iterator[Part]:
    for start, piece, alternative in ((s + t, p, n > 0) for s, c in split(text) for n, (t, p) in enumerate(choices(c))):
        column = start + len(piece) - len(piece.lstrip()) + 1
        if match := PART.fullmatch(piece):
            arguments = match["arguments"]
            inside = tuple(a.strip() for _, a in split(arguments) if arguments.strip()) if match["call"] else None
            word = "sinceFirst" if match["since"] and match["word"] == "time" else match["word"]
            yield Part(word, inside, match["text"], column, alternative)
            if match["since"] and match["word"] != "time":
                faults.append(Fault("since first only behind time(seconds)", match["text"], None, column))
        else:
            part_text = piece.strip()
            faults.append(
                Fault(
                    "a word such as sliding, or a call such as count(5)",
                    part_text or None,
                    suggested(part_text),
                    column,
                )
            )


def suggested(text: str) -> str | None:
    """The part to write instead of a piece that is neither a word nor a call; None if there is no suggestion.

    It is `time(5m)` for `5 minutes`, `count(5)` for `count 5`, and `tumbling, count(5)` where the comma is missing.
    """
    size_text = SIZE_WORDS.sub("", text)
    if size := size_text if with_unit(size_text) is not None else spelled_here(size_text):
        return f"time({size})"
    if (behind := BEHIND.fullmatch(text)) and nearest(behind["words"], ("since first",)):
        return f"{behind['policy']} since first"
    if assigned := ASSIGNED.fullmatch(text):
        return f"{assigned['word']}({assigned['size']})"
    word, _, rest = text.partition(" ")
    if SIZE_WORDS.match(text):
        return None
    if PART.fullmatch(word) and (INTEGER.fullmatch(rest) or with_unit(rest) is not None or spelled_here(rest)):
        return f"{word}({spelled_here(rest) or rest})"
    return f"{word}, {rest.strip()}" if PART.fullmatch(word) and PART.fullmatch(rest) else None


def choices(text: str) -> Iterator[tuple[int, str]]:
    """The pieces between the words `or` outside of parentheses, each with the position of its first character."""
    start = 0
    for match in OR.finditer(text):
        if text.count("(", 0, match.start()) == text.count(")", 0, match.start()):
            yield start, text[start : match.start()]
            start = match.end()
    yield start, text[start:]


def split(text: str) -> Iterator[tuple[int, str]]:
    """The pieces between commas outside of parentheses, each with the position of its first character (from 0)."""
    depth = start = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield start, text[start:position]
            start = position + 1
    yield start, text[start:]
