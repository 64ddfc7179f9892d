"""Draws lines and points over logarithmic axes as an SVG image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.svg.svg_canvas import SERIES, Canvas, width_of

Points = Sequence[tuple[float, float]]
#: the plot and its margins, pixels; the legend is at its right
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 440, 360, 80, 30, 50
#: the style of lines, of their points, and of the squares of their legend
RULES = "\n".join(
    f".c{number}{{stroke:var(--c{number});fill:none;stroke-width:2}}\n.measured.c{number}{{fill:var(--paper)}}"
    for number in range(SERIES)
)
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
    canvas = Canvas(title)
    for value in x.ticks():
        canvas.line(x.at(value), TOP, x.at(value), TOP + HEIGHT, kind="line")
        canvas.text(x.at(value), TOP + HEIGHT + 16, _short(value), anchor="middle")
    for value in y.ticks():
        canvas.line(LEFT, y.at(value), LEFT + WIDTH, y.at(value), kind="line")
        canvas.text(LEFT - 6, y.at(value) + 4, _short(value), anchor="end")
    canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 40, axes[0], anchor="middle")
    canvas.text(LEFT, TOP - 12, axes[1])
    for number, line in enumerate(lines):
        colour = f"c{number % SERIES}"
        points = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.points)
        canvas.shape("polyline", colour, points=points)
        for a, b in line.measured:
            canvas.shape("circle", f"measured {colour}", cx=x.at(a), cy=y.at(b), r=4)
        place = TOP + 3 + 20 * number
        canvas.line(legend, place, legend + 14, place, kind=colour)
    for number, name in enumerate(names):
        canvas.text(legend + 20, TOP + 7 + 20 * number, name)
    return canvas.document(legend + 30 + max(map(width_of, names)), TOP + HEIGHT + BOTTOM, RULES)


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


def _short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
