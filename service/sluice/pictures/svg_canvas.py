"""An SVG document that is readable on light and dark screens, with text as text and nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from sluice.pictures.labels import cut
from sluice.pictures.layout import LETTER

#: the colours of light and of dark screens, by name
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "line": "#d1d9e0", "band": "#f6f8fa", "chip": "#ddf4ff",
    "edge": "#0969da", "new": "#dafbe1", "new-edge": "#1a7f37", "gone": "#ffebe9", "gone-edge": "#cf222e",
    "fire": "#bf5700", "time": "#8250df", "out": "#1f2328",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#9198a1", "line": "#3d444d", "band": "#151b23", "chip": "#12304f",
    "edge": "#4493f8", "new": "#12361f", "new-edge": "#3fb950", "gone": "#43171b", "gone-edge": "#f85149",
    "fire": "#f0883e", "time": "#ab7df8", "out": "#e6edf3",
}  # fmt: skip
STYLE = """
.sluice-picture{%(light)s;font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}
@media (prefers-color-scheme:dark){.sluice-picture{%(dark)s}}
.sluice-picture text{fill:var(--ink);white-space:pre}
.sluice-picture .paper{fill:var(--paper)}.sluice-picture .band{fill:var(--band)}
.sluice-picture .soft{fill:var(--soft)}.sluice-picture .head{font-weight:600}
.sluice-picture .line{stroke:var(--line);fill:none}
.sluice-picture .chip{fill:var(--chip);stroke:var(--edge)}
.sluice-picture .open{fill:var(--band);stroke:var(--edge);stroke-dasharray:4 3}
.sluice-picture .new{fill:var(--new);stroke:var(--new-edge)}
.sluice-picture .gone{fill:var(--gone);stroke:var(--gone-edge)}
.sluice-picture .strike{stroke:var(--gone-edge)}.sluice-picture text.late{fill:var(--gone-edge)}
.sluice-picture .fire{stroke:var(--fire);stroke-width:1.5;fill:none}
.sluice-picture text.fire,.sluice-picture .fire-head{stroke:none;fill:var(--fire)}
.sluice-picture text.fire{paint-order:stroke;stroke:var(--paper);stroke-width:3}
.sluice-picture .time{stroke:var(--time);stroke-dasharray:3 3;fill:none}
.sluice-picture text.time{stroke:none;fill:var(--time)}
.sluice-picture .past{display:none}
.sluice-picture .cover{display:none;fill:var(--paper);opacity:.8}
"""


class Canvas:
    """Collects shapes. `tag` names the attributes `data-from` and `data-to` of a shape: the steps that show it."""

    def __init__(self) -> None:
        self.svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "sluice-picture"})
        self._colours = ET.SubElement(self.svg, "style")
        light, dark = (";".join(f"--{name}:{value}" for name, value in of.items()) for of in (LIGHT, DARK))
        self._colours.text = STYLE % {"light": light, "dark": dark}
        self._paper = ET.SubElement(self.svg, "rect", {"class": "paper", "x": "0", "y": "0"})
        self._right = 0.0

    def text(
        self, x: float, y: float, words: str, kind: str = "", *, title: str = "", tag: dict[str, str] | None = None,
        anchor: str = "",
    ) -> None:  # fmt: skip
        """Text whose baseline starts at (x, y)."""
        known = {"x": _number(x), "y": _number(y)} | ({"class": kind} if kind else {}) | (tag or {})
        element = ET.SubElement(self.svg, "text", known | ({"text-anchor": anchor} if anchor else {}))
        if title:
            ET.SubElement(element, "title").text = title
            element[0].tail = words
        else:
            element.text = words
        if not anchor:
            self._right = max(self._right, x + len(words) * LETTER)

    def box(
        self, x: float, y: float, width: float, height: float, kind: str, *, title: str = "",
        tag: dict[str, str] | None = None, radius: float = 3,
    ) -> None:  # fmt: skip
        known = {"x": x, "y": y, "width": max(width, 1.0), "height": height, "rx": radius}
        element = ET.SubElement(
            self.svg, "rect", {n: _number(v) for n, v in known.items()} | {"class": kind} | (tag or {})
        )
        if title:
            ET.SubElement(element, "title").text = title
        self._right = max(self._right, x + width)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, kind: str, tag: dict[str, str] | None = None) -> None:
        known = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        ET.SubElement(self.svg, "line", {n: _number(v) for n, v in known.items()} | {"class": kind} | (tag or {}))

    def cover(self, top: float, bottom: float, right: float, positions: Sequence[float]) -> None:
        """A cover for what comes after a step, hidden at first. The lab moves it to the position of the step."""
        known = {"x": positions[0], "y": top, "width": right - positions[0] + 4, "height": bottom - top}
        steps = {"class": "cover", "data-positions": " ".join(map(_number, positions))}
        ET.SubElement(self.svg, "rect", {name: _number(value) for name, value in known.items()} | steps)

    def break_in_axis(self, x: float, y: float) -> None:
        """The sign `//` on an axis at this y: the distance of the times beside it is drawn shorter than it is."""
        self.path(f"M{x - 4:.1f} {y + 5:.1f}l3 -10m2 10l3 -10", "line")

    def path(self, shape: str, kind: str, tag: dict[str, str] | None = None) -> None:
        ET.SubElement(self.svg, "path", {"d": shape, "class": kind} | (tag or {}))

    def labelled(
        self,
        x: float,
        y: float,
        width: float,
        words: str,
        kind: str,
        *,
        title: str = "",
        tag: dict[str, str] | None = None,
    ) -> None:
        """A box of a row with as many letters of a text as fit."""
        self.box(x, y, width, 17, kind, title=title or words, tag=tag)
        letters = int((width - 6) / LETTER)
        if letters > 0:
            self.text(x + 4, y + 13, cut(words, letters), tag=tag, title=title)

    def document(self, height: float, least: float = 0.0) -> str:
        """The SVG as text. `height` is that of everything drawn, `least` the least width."""
        width = max(self._right + 14, least)
        size = {"width": _number(width), "height": _number(height)}
        for element in (self.svg, self._paper):
            for name, value in size.items():
                element.set(name, value)
        self.svg.set("viewBox", f"0 0 {size['width']} {size['height']}")
        return ET.tostring(self.svg, encoding="unicode") + "\n"


def shown_from(step: int, to: int | None = None) -> dict[str, str]:
    """The attributes of a shape that exists from a step on, until another one."""
    return {"data-from": str(step)} | ({"data-to": str(to)} if to is not None else {})


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
