"""Draws the plan of a pipeline with what each topic and operator does now, as SVG inside the page.

The positions are those of `sluice explain --svg` (planning/explain/explain_drawing.py). Colours are classes of the
page's style sheet, so that the picture follows its light and dark colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from sluice.planning.explain.explain_drawing import Band, Box

WIDTH, HEIGHT, ACROSS, DOWN = 240, 104, 54, 18
MARGIN, TITLE, LINE = 14, 34, 17
#: characters of a line that fit into a box
MAX_LINE = 36

#: key of a box -> lines below its name; a line that begins with "!" is a warning
Notes = Mapping[str, Sequence[str]]


def drawing(bands: Sequence[tuple[Band, Notes]]) -> str:
    """The SVG element of the stages, each with the notes of its boxes."""
    sizes = [_size(band) for band, _ in bands]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    svg = ET.Element("svg", {"viewBox": f"0 0 {width} {height}", "class": "graph", "role": "img"})
    svg.set("width", str(width))
    svg.set("height", str(height))
    ET.SubElement(svg, "title").text = "The operators of the pipeline, its topics, and what each of them does now"
    top = 0
    for (band, notes), (_, tall) in zip(bands, sizes, strict=True):
        _text(svg, MARGIN, top + 21, band.title, "band")
        for source, target, stream in band.arrows:
            _arrow(svg, _corner(band.boxes[source], top), _corner(band.boxes[target], top), stream)
        for key, box in band.boxes.items():
            _box(svg, box, _corner(box, top), notes.get(key, ()))
        top += tall
    return ET.tostring(svg, encoding="unicode")


def _size(band: Band) -> tuple[int, int]:
    columns = max(box.column for box in band.boxes.values()) + 1
    rows = max(box.row for box in band.boxes.values()) + 1
    return MARGIN * 2 + columns * (WIDTH + ACROSS) - ACROSS, TITLE + rows * (HEIGHT + DOWN)


def _corner(box: Box, top: int) -> tuple[int, int]:
    return MARGIN + box.column * (WIDTH + ACROSS), top + TITLE + box.row * (HEIGHT + DOWN)


def _box(svg: ET.Element, box: Box, corner: tuple[int, int], notes: Sequence[str]) -> None:
    x, y = corner
    group = ET.SubElement(svg, "g", {"class": box.kind})
    ET.SubElement(group, "title").text = f"{box.name}: {box.detail}"
    ET.SubElement(group, "rect", x=str(x), y=str(y), width=str(WIDTH), height=str(HEIGHT), rx="7")
    _text(group, x + 11, y + 22, box.name, "name")
    for number, note in enumerate(notes[:4]):
        style = "warn" if note.startswith("!") else "note"
        _text(group, x + 11, y + 41 + number * LINE, note.removeprefix("!"), style)


def _arrow(svg: ET.Element, start: tuple[int, int], end: tuple[int, int], stream: str) -> None:
    x, y = start[0] + WIDTH, start[1] + HEIGHT // 2
    to, at = end[0], end[1] + HEIGHT // 2
    bend = ACROSS // 2
    path = f"M {x} {y} C {x + bend} {y}, {to - bend} {at}, {to - 5} {at}"
    ET.SubElement(svg, "path", {"class": "arrow"}, d=path)
    ET.SubElement(svg, "path", {"class": "head"}, d=f"M {to - 7} {at - 4} L {to} {at} L {to - 7} {at + 4} z")
    if stream:
        ET.SubElement(ET.SubElement(svg, "g"), "title").text = stream


def _text(parent: ET.Element, x: int, y: int, words: str, style: str) -> None:
    shown = words if len(words) <= MAX_LINE or style == "band" else f"{words[: MAX_LINE - 1]}…"
    ET.SubElement(parent, "text", {"class": style}, x=str(x), y=str(y)).text = shown
