"""Draws lines and points over logarithmic axes as an SVG image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Points = Sequence[tuple[float, float]]
#: the plot and its margins, pixels; the legend is at its right, with so many pixels for a letter
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LETTER = 440, 360, 80, 30, 50, 7
#: the colours of the lines, on a light and on a dark screen
LIGHT = ("#1b6ca8", "#c1440e", "#3a7d44", "#7b4397", "#8a6d00", "#555555")
DARK = ("#58a6e0", "#f0884a", "#6fbf7a", "#c190dc", "#d0ac30", "#aaaaaa")
STYLE = """text{fill:#1f2328}.paper{fill:#ffffff}.grid{stroke:#dddddd}%s
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.paper{fill:#0d1117}.grid{stroke:#3d444d}%s}"""
#: a horizontal axis has a tick at each power of two up to this value, which suits counts of cores; else of ten
MOST_BY_TWO = 256
#: what the circles of a plot are
MEASURED = "○ measured"


@dataclass(frozen=True, slots=True)
class Line:
    """A line through `points`, and `measured` points of the same colour."""

    name: str
    points: Points
    measured: Points = field(default=())


def svg(title: str, axes: tuple[str, str], lines: Sequence[Line]) -> str:
    """The image. `axes` has the names of the horizontal and the vertical axis."""
    every = [point for line in lines for point in (*line.points, *line.measured)]
    low, high = min(a for a, _ in every), max(a for a, _ in every)
    x = _Scale(low, high, LEFT, LEFT + WIDTH, 2 if high <= MOST_BY_TWO else 10)
    y = _Scale(min(b for _, b in every), max(b for _, b in every), TOP + HEIGHT, TOP, 10)
    names = [line.name for line in lines] + [MEASURED] * any(line.measured for line in lines)
    legend = LEFT + WIDTH + 14
    width = legend + 20 + LETTER * max(map(len, names)) + 10
    height = TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE % (_colours(LIGHT), _colours(DARK))}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *(_tick(x.at(value), None, _short(value)) for value in x.ticks()),
        *(_tick(None, y.at(value), _short(value)) for value in y.ticks()),
        _text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, axes[0], "middle"),
        _text(LEFT, TOP - 12, axes[1], "start"),
    ]
    for number, line in enumerate(lines):
        colour = f"c{number % len(LIGHT)}"
        path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.points)
        parts.append(f'<polyline class="{colour}" points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>')
        parts += [
            f'<circle class="paper {colour}" cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="4" stroke="currentColor"'
            ' stroke-width="2"/>'
            for a, b in line.measured
        ]
        place = TOP + 10 + 20 * number
        parts.append(f'<rect class="{colour}" x="{legend}" y="{place - 9}" width="14" height="4" fill="currentColor"/>')
    parts += [_text(legend + 20, TOP + 7 + 20 * number, name, "start") for number, name in enumerate(names)]
    return "\n".join([*parts, "</svg>", ""])


def _colours(colours: Sequence[str]) -> str:
    """The style that gives the lines their colours."""
    return "".join(f".c{number}{{color:{colour}}}" for number, colour in enumerate(colours))


class _Scale:
    """Maps values to coordinates, logarithmically. The range is extended to whole powers of `base`."""

    def __init__(self, low: float, high: float, start: float, end: float, base: int) -> None:
        self._base = base
        self._low, self._high = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (math.log(value, self._base) - self._low) / max(1, self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """The powers of the base; between few powers of ten also their multiples by 2 and 5."""
        powers = [float(self._base) ** power for power in range(self._low, self._high + 1)]
        if self._base != 10 or len(powers) > 3:  # noqa: PLR2004 - more lines than that help no reader
            return powers
        return sorted({step * power for power in powers for step in (1, 2, 5) if step * power <= powers[-1]})


def _tick(x: float | None, y: float | None, words: str) -> str:
    if x is not None:
        line = f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
        return line + _text(x, TOP + HEIGHT + 16, words, "middle")
    line = f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}"/>'
    return line + _text(LEFT - 6, (y or 0.0) + 4, words, "end")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
