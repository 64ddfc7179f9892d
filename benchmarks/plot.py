"""Draws lines and points over logarithmic axes as an SVG image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 80, 240, 30, 50
COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7b4397", "#8a6d00", "#555555")


@dataclass(frozen=True, slots=True)
class Line:
    """A line through `points`, and `measured` points of the same colour."""

    name: str
    points: Points
    measured: Points = field(default=())


def svg(title: str, axes: tuple[str, str], lines: Sequence[Line]) -> str:
    """The image. `axes` has the names of the horizontal and the vertical axis."""
    every = [point for line in lines for point in (*line.points, *line.measured)]
    x = _Scale(min(a for a, _ in every), max(a for a, _ in every), LEFT, WIDTH - RIGHT, 2)
    y = _Scale(min(b for _, b in every), max(b for _, b in every), HEIGHT - BOTTOM, TOP, 10)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *(_tick(x.at(value), None, _short(value)) for value in x.ticks()),
        *(_tick(None, y.at(value), _short(value)) for value in y.ticks()),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, axes[0], "middle"),
        _text(LEFT, TOP - 12, axes[1], "start"),
    ]
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="4" fill="white" stroke="{colour}" stroke-width="2"/>'
            for a, b in line.measured
        ]
        place = TOP + 10 + 20 * number
        parts.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{place - 9}" width="14" height="4" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 34, place - 3, line.name, "start"))
    return "\n".join([*parts, "</svg>", ""])


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
        return [float(self._base) ** power for power in range(self._low, self._high + 1)]


def _tick(x: float | None, y: float | None, words: str) -> str:
    if x is not None:
        line = f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        return line + _text(x, HEIGHT - BOTTOM + 16, words, "middle")
    line = f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
    return line + _text(LEFT - 6, (y or 0.0) + 4, words, "end")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
