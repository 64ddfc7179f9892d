"""Draws the plan of a pipeline with what each topic and operator does now, as SVG inside the page.

The positions are those of `sluice explain --svg` (planning/explain/explain_drawing.py). Colours are classes of the
page's style sheet, so that the picture follows its light and dark colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from sluice.planning.explain.explain_drawing import Band, Box

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
    svg = ET.Element("svg", {"viewBox": f"0 0 {width} {height}", "class": "graph", "role": "img"})
    svg.set("width", str(width))
    svg.set("height", str(height))
    ET.SubElement(svg, "title").text = "The operators of the pipeline, its topics, and what each of them does now"
    top = 0
    for (band, notes), (_, tall) in zip(bands, sizes, strict=True):
        _text(svg, MARGIN, top + 21, band.title, "band")
        for source, target, stream in band.arrows:
            start, end = (_position(band.boxes[one], top, columns) for one in (source, target))
            _arrow(svg, (start[0] + start[2], start[1]), end[:2], stream)
        for key, box in band.boxes.items():
            _box(svg, box, _position(box, top, columns), notes.get(key, ()))
        top += tall
    return ET.tostring(svg, encoding="unicode")


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


def _box(svg: ET.Element, box: Box, position: tuple[int, int, int], notes: Sequence[str]) -> None:
    x, y, wide = position
    group = ET.SubElement(svg, "g", {"class": box.kind})
    ET.SubElement(group, "title").text = f"{box.name}: {box.detail}"
    ET.SubElement(group, "rect", x=str(x), y=str(y), width=str(wide), height=str(HEIGHT), rx="7")
    _text(group, x + 11, y + 22, box.name, "name")
    for number, note in enumerate(notes[:MAX_NOTES]):
        style = "warn" if note.startswith("!") else "note"
        _text(group, x + 11, y + 41 + number * LINE, note.removeprefix("!"), style)


def _arrow(svg: ET.Element, start: tuple[int, int], end: tuple[int, int], stream: str) -> None:
    """An arrow between two boxes: from the upper right corner of one to the upper left corner of the other."""
    x, y = start[0], start[1] + HEIGHT // 2
    to, at = end[0], end[1] + HEIGHT // 2
    bend = ACROSS // 2
    turn = max(x, to - ACROSS)  # an arrow across several columns stays in the row of its start up to the last gap
    path = f"M {x} {y} H {turn} C {turn + bend} {y}, {to - bend} {at}, {to - 5} {at}"
    ET.SubElement(svg, "path", {"class": "arrow"}, d=path)
    ET.SubElement(svg, "path", {"class": "head"}, d=f"M {to - 7} {at - 4} L {to} {at} L {to - 7} {at + 4} z")
    if stream:
        ET.SubElement(ET.SubElement(svg, "g"), "title").text = stream


def _text(parent: ET.Element, x: int, y: int, words: str, style: str) -> None:
    shown = words if len(words) <= MAX_LINE or style == "band" else f"{words[: MAX_LINE - 1]}…"
    ET.SubElement(parent, "text", {"class": style}, x=str(x), y=str(y)).text = shown
