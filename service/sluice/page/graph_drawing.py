"""Draws the plan of a pipeline with what each topic and operator does now, as SVG inside the page.

The positions are those of `sluice explain --svg` (planning/explain/explain_drawing.py). Colours are classes of the
page's style sheet, so that the picture follows its light and dark colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.planning.explain.explain_drawing import Band, Box
from sluice.svg.svg_canvas import Canvas

HEIGHT, ACROSS, DOWN = 104, 46, 18
MARGIN, TITLE, LINE = 14, 34, 17
#: width of a character of a note, and of the margins beside it
LETTER, BESIDE = 6.6, 28
#: least and most characters of a line that fit into a box
MIN_LINE, MAX_LINE = 22, 58
#: lines below the name of a box
MAX_NOTES = 4

#: key of a box -> lines below its name; a line that begins with "!" is a warning
Notes = Mapping[str, Sequence[str]]


def drawing(bands: Sequence[tuple[Band, Notes]]) -> str:
    """The SVG element of the stages, each with the notes of its boxes."""
    columns = _columns(bands)
    sizes = [_size(band, columns) for band, _ in bands]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    canvas = Canvas(
        "The operators of the pipeline, its topics, and what each of them does now", letter=LETTER, class_="graph",
        role="img", viewBox=f"0 0 {width} {height}", width=width, height=height,
    )  # fmt: skip
    top = 0
    for (band, notes), (_, tall) in zip(bands, sizes, strict=True):
        canvas.text(MARGIN, top + 21, band.title, "band")
        for source, target, _ in band.arrows:
            (x, y, wide), (to, at, _) = (_position(band.boxes[one], top, columns) for one in (source, target))
            canvas.arrow((x + wide, y + HEIGHT / 2), (to, at + HEIGHT / 2), ACROSS)
        for key, box in band.boxes.items():
            _box(canvas, box, _position(box, top, columns), notes.get(key, ()))
        top += tall
    return canvas.inline()


def _columns(bands: Sequence[tuple[Band, Notes]]) -> list[tuple[int, int]]:
    """For each column of boxes its left edge and its width: its longest line fits, up to MAX_LINE characters."""
    longest: dict[int, int] = {}
    for band, notes in bands:
        for key, box in band.boxes.items():
            lines = [f"{box.name}  ", *(note.removeprefix("!") for note in notes.get(key, ())[:MAX_NOTES])]
            longest[box.column] = max([longest.get(box.column, MIN_LINE), *map(len, lines)])
    found, left = [], MARGIN
    for column in range(max(longest) + 1):
        wide = round(min(longest.get(column, MIN_LINE), MAX_LINE) * LETTER) + BESIDE
        found.append((left, wide))
        left += wide + ACROSS
    return found


def _size(band: Band, columns: Sequence[tuple[int, int]]) -> tuple[int, int]:
    left, wide = columns[max(box.column for box in band.boxes.values())]
    rows = max(box.row for box in band.boxes.values()) + 1
    return left + wide + MARGIN, TITLE + rows * (HEIGHT + DOWN)


def _position(box: Box, top: int, columns: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """The left edge, the upper edge and the width of a box."""
    left, wide = columns[box.column]
    return left, top + TITLE + box.row * (HEIGHT + DOWN), wide


def _box(canvas: Canvas, box: Box, position: tuple[int, int, int], notes: Sequence[str]) -> None:
    x, y, wide = position
    group = canvas.group(box.kind, title=f"{box.name}: {box.detail}")
    group.box(x, y, wide, HEIGHT, "", radius=7)
    group.text(x + 11, y + 22, box.name, "name", most=wide - 14)
    for number, note in enumerate(notes[:MAX_NOTES]):
        style = "warn" if note.startswith("!") else "note"
        group.text(x + 11, y + 41 + number * LINE, note.removeprefix("!"), style, most=wide - 14)
