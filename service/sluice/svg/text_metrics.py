"""The space that a text takes, and texts that never cover each other. All numbers are pixels."""

from __future__ import annotations

import unicodedata
from collections import defaultdict

#: width of a letter of the monospaced font of 12 px, the least distance of two baselines, and of texts of one line
LETTER, LINE, APART = 7.3, 13.0, 2.0
#: the step from which on a shape is shown, and the first step that does not show it
Life = tuple[float, float]
ALWAYS: Life = (-1.0, float("inf"))


def letters(text: str) -> int:
    """The number of columns of a monospaced font: 2 for a wide letter, 0 for a mark above or below a letter."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(x) else 2 if unicodedata.east_asian_width(x) in "WF" else 1 for x in text)


def width_of(text: str, letter: float = LETTER) -> float:
    return letters(text) * letter


def cut(text: str, most: int) -> str:
    """The text in at most this many columns; a text that is cut ends with `…`."""
    if letters(text) <= most:
        return text
    short = text[: max(most - 1, 0)]
    while short and letters(short) > most - 1:
        short = short[:-1]
    return f"{short}…"


class TextLines:
    """The places of the texts that are drawn already."""

    def __init__(self) -> None:
        self._lines: dict[int, list[tuple[float, float, float, Life]]] = defaultdict(list)

    def room(self, left: float, right: float, y: float, life: Life = ALWAYS) -> float:
        """How far a text from `left` to `right` can extend at the baseline `y`: to the next text of its life, at most
        to `right`. `left` if another text is there already.
        """
        row = int(y // LINE)
        for number in (row - 1, row, row + 1):
            for begin, end, at, other in self._lines.get(number, ()):
                if abs(at - y) < LINE and begin < right and left < end + APART and _meet(life, other):
                    right = max(left, min(right, begin - APART))
        return right

    def take(self, left: float, right: float, y: float, life: Life = ALWAYS) -> None:
        self._lines[int(y // LINE)].append((left, right, y, life))


def _meet(one: Life, other: Life) -> bool:
    """Whether a step shows both."""
    return one[0] < other[1] and other[0] < one[1]
