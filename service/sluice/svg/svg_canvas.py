"""An SVG picture that is readable on light and dark screens, with text as text and nothing from outside.

Texts never cover each other: the canvas cuts a text that would cover an earlier one. All numbers are pixels.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from sluice.json_texts import visible

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


def _meet(first: Life, second: Life) -> bool:
    """Whether a step shows both."""
    return first[0] < second[1] and second[0] < first[1]


#: the colours of light and of dark screens, by name; c0 to c5 are for series
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "line": "#d1d9e0", "band": "#f6f8fa", "chip": "#ddf4ff",
    "edge": "#0969da", "new": "#dafbe1", "new-edge": "#1a7f37", "gone": "#ffebe9", "gone-edge": "#cf222e",
    "fire": "#bf5700", "time": "#8250df", "topic": "#fff7e6", "topic-edge": "#c98a1b",
    "c0": "#1b6ca8", "c1": "#c1440e", "c2": "#3a7d44", "c3": "#7b4397", "c4": "#8a6d00", "c5": "#555555",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#9198a1", "line": "#3d444d", "band": "#151b23", "chip": "#12304f",
    "edge": "#4493f8", "new": "#12361f", "new-edge": "#3fb950", "gone": "#43171b", "gone-edge": "#f85149",
    "fire": "#f0883e", "time": "#ab7df8", "topic": "#3a2d0f", "topic-edge": "#d9a441",
    "c0": "#58a6e0", "c1": "#f0884a", "c2": "#6fbf7a", "c3": "#c190dc", "c4": "#d0ac30", "c5": "#aaaaaa",
}  # fmt: skip
#: the number of colours of series, and the least letters of a text that is cut: fewer say nothing
SERIES, LEAST = 6, 4
NAME = "sluice-picture"
#: rules of CSS that all pictures have, one a line; a picture adds rules for its own classes
RULES = """text{fill:var(--ink);white-space:pre}
.paper{fill:var(--paper)}
.band{fill:var(--band)}
text.soft{fill:var(--soft)}
.head{font-weight:600}
.line{stroke:var(--line);fill:none}
"""
FONT = "12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

#: the attributes `data-from` and `data-to` of a shape: the steps that show it
Tag = Mapping[str, str]


class Canvas:
    """Collects shapes. A text that would cover an earlier one is cut; its whole is shown when the pointer is over it.

    `group` and `nested` return canvases whose shapes are parts of this one.
    """

    def __init__(self, title: str = "", *, letter: float = LETTER, **attributes: Any) -> None:  # noqa: ANN401 - numbers or texts
        """`letter` is the width of a letter. `attributes` are attributes of the `svg` element."""
        self.element = ET.Element("svg", _texts(attributes))
        self._letter, self._lines, self._right = letter, TextLines(), [0.0]
        if title:
            self.shape("title").text = title

    def shape(self, name: str, kind: str = "", *, title: str = "", tag: Tag | None = None, **attributes: Any) -> Any:  # noqa: ANN401 - an element
        """Adds an element of the class `kind`; an underscore in the name of an attribute stands for a hyphen."""
        texts = ({"class": kind} if kind else {}) | _texts(attributes) | dict(tag or {})
        element = ET.SubElement(self.element, name, texts)
        if title:
            ET.SubElement(element, "title").text = "\n".join(map(visible, title.split("\n")))
        return element

    def group(self, kind: str = "", *, title: str = "") -> Canvas:
        return self._inner(self.shape("g", kind, title=title), self._lines)

    def nested(self, **attributes: Any) -> Canvas:  # noqa: ANN401 - numbers or texts
        """A canvas with coordinates of its own."""
        return self._inner(self.shape("svg", **attributes), TextLines())

    def _inner(self, element: ET.Element, lines: TextLines) -> Canvas:
        inner = object.__new__(Canvas)
        inner.element, inner._lines = element, lines
        inner._letter, inner._right = self._letter, self._right
        return inner

    # ---- shapes ------------------------------------------------------------------------------------------------------

    def text(
        self, x: float, y: float, words: str, kind: str = "", *, title: str = "", tag: Tag | None = None,
        anchor: str = "", most: float = float("inf"),
    ) -> bool:  # fmt: skip
        """Draws a text at most `most` wide. `anchor` says whether (x, y) is the start, middle or end of its baseline.

        Returns whether there was room for the text or for its beginning.
        """
        words = visible(words)
        wide = min(width_of(words, self._letter), most)
        left = x - wide * {"middle": 0.5, "end": 1.0}.get(anchor, 0.0)
        life = _life(tag)
        room = self._lines.room(left, left + wide, y, life) - left
        columns = int(room / self._letter + 0.01)
        if not words or columns < min(letters(words), LEAST) or (anchor and columns < letters(words)):
            return False
        shown = cut(words, columns)
        right = left + width_of(shown, self._letter)
        self._lines.take(left, right, y, life)
        self._right[0] = max(self._right[0], right)
        element = self.shape(
            "text", kind, title=title or (words if shown != words else ""), tag=tag, x=x, y=y,
            **({"text_anchor": anchor} if anchor else {}),
        )  # fmt: skip
        if len(element):
            element[0].tail = shown
        else:
            element.text = shown
        return True

    def box(
        self, x: float, y: float, width: float, height: float, kind: str, *, title: str = "", tag: Tag | None = None,
        radius: float = 3,
    ) -> None:  # fmt: skip
        self.shape(
            "rect", kind, title=title, tag=tag, x=x, y=y, width=max(width, 1.0), height=height,
            **({"rx": radius} if radius else {}),
        )  # fmt: skip
        self._right[0] = max(self._right[0], x + width)

    def labelled(
        self, x: float, y: float, width: float, words: str, kind: str, *, title: str = "", tag: Tag | None = None
    ) -> None:
        """A box of a row with as many letters of a text as fit."""
        self.box(x, y, width, 17, kind, title=title or words, tag=tag)
        self.text(x + 4, y + 13, words, tag=tag, title=title, most=width - 5)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, kind: str, tag: Tag | None = None) -> None:
        self.shape("line", kind, tag=tag, x1=x1, y1=y1, x2=x2, y2=y2)

    def path(self, shape: str, kind: str, tag: Tag | None = None, title: str = "") -> None:
        self.shape("path", kind, tag=tag, title=title, d=shape)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], across: float, around: str = "") -> None:
        """An arrow from the right side of a box to the left side of another one, which is `across` away or more: then
        it stays at the height of its start up to the last gap. `around` is another way, a path that ends at the height
        of `end`.
        """
        (x, y), (to, at), bend = start, end, across / 2
        turn = max(x, to - across)
        curve = (turn + bend, y, to - bend, at, to - 5, at)
        straight = f"M{_number(x)} {_number(y)}H{_number(turn)}C{' '.join(map(_number, curve))}"
        self.path(f"{around}H{_number(to - 5)}" if around else straight, "arrow")
        self.path(f"M{_number(to - 7)} {_number(at - 4)}l7 4l-7 4z", "arrow-head")

    # ---- axes --------------------------------------------------------------------------------------------------------

    def break_in_axis(self, x: float, y: float) -> None:
        """The sign `//` on an axis at this y: the distance of the times beside it is drawn shorter than it is."""
        self.path(f"M{x - 4:.1f} {y + 5:.1f}l3 -10m2 10l3 -10", "line")

    def cover(self, top: float, bottom: float, right: float, positions: Sequence[float]) -> None:
        """A cover for what comes after a step, hidden at first. The lab moves it to the position of the step."""
        self.shape(
            "rect", "cover", x=positions[0], y=top, width=right - positions[0] + 4, height=bottom - top,
            data_positions=" ".join(map(_number, positions)),
        )  # fmt: skip

    # ---- the picture -------------------------------------------------------------------------------------------------

    @property
    def right(self) -> float:
        """The right edge of all boxes and texts."""
        return self._right[0]

    def inline(self) -> str:
        """The SVG element for a page, whose style sheet has the colours of the classes."""
        return ET.tostring(self.element, encoding="unicode")

    def document(self, width: float, height: float, rules: str = "") -> str:
        """The SVG document as text. `rules` has one rule of CSS a line, for the classes of its shapes."""
        size = {"width": _number(width), "height": _number(height)}
        paper = ET.Element("rect", {"class": "paper", "x": "0", "y": "0"} | size)
        style = ET.Element("style")
        style.text = _style(rules)
        self.element.insert(0, style)
        self.element.insert(1, paper)
        constant = {"xmlns": "http://www.w3.org/2000/svg", "class": NAME, "viewBox": f"0 0 {' '.join(size.values())}"}
        for name, value in (constant | size).items():
            self.element.set(name, value)
        return self.inline() + "\n"


def shown_from(step: int, to: int | None = None) -> dict[str, str]:
    """The attributes of a shape that exists from a step on, until another one."""
    return {"data-from": str(step)} | ({"data-to": str(to)} if to is not None else {})


def _life(tag: Tag | None) -> tuple[float, float]:
    if not tag:
        return ALWAYS
    return float(tag["data-from"]), float(tag.get("data-to", "inf"))


def _style(rules: str) -> str:
    """The style sheet of a document. It applies to the document alone, also if it is a part of a page."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
    head = f".{NAME}{{{light};font:{FONT}}}\n@media (prefers-color-scheme:dark){{.{NAME}{{{dark}}}}}\n"
    return f"\n{head}" + "".join(f".{NAME} {rule}\n" for rule in (RULES + rules).splitlines())


def _texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else _number(value)
        for name, value in attributes.items()
    }


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
