"""Draws a plan as SVG: a band for each stage, with its input topics on the left, its output topics on the right, and
its operators between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from sluice.model.spec import Pipeline
from sluice.planning.explain.explain_plan import Stage

WIDTH, HEIGHT, ACROSS, DOWN = 250, 50, 70, 22
MARGIN, TITLE = 24, 30
FONT = "font: 13px sans-serif"
#: the colours of the fill and the border of a box
COLOURS = {"topic": ("#fff7e6", "#c98a1b"), "operator": ("#eaf2fd", "#3b6fb5")}


@dataclass(frozen=True, slots=True)
class Box:
    """A topic or an operator: its position in its band, and its two lines of text (`name` and `detail`)."""

    name: str
    column: int
    row: int
    kind: str
    detail: str

    def corner(self, top: int) -> tuple[int, int]:
        return MARGIN + self.column * (WIDTH + ACROSS), top + TITLE + self.row * (HEIGHT + DOWN)


@dataclass(frozen=True, slots=True)
class Band:
    """The boxes of a stage, and the arrows between them.

    An arrow is (from box, to box, label). The label is the name of a stream within the stage, "" for a topic's arrow.
    """

    title: str
    boxes: dict[str, Box]
    arrows: tuple[tuple[str, str, str], ...]

    @property
    def size(self) -> tuple[int, int]:
        columns, rows = (max(getattr(box, of) for box in self.boxes.values()) + 1 for of in ("column", "row"))
        return MARGIN * 2 + columns * (WIDTH + ACROSS) - ACROSS, TITLE + rows * (HEIGHT + DOWN) + MARGIN


def drawing(pipeline: Pipeline, stages: Sequence[Stage]) -> str:
    """The SVG document."""
    bands = [band_of(stage, number) for number, stage in enumerate(stages, 1)]
    width = max(band.size[0] for band in bands)
    height = sum(band.size[1] for band in bands) + TITLE
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", style=FONT)
    ET.SubElement(svg, "title").text = f"pipeline {pipeline.name}"
    _arrow_head(svg)
    top = TITLE // 2
    for band in bands:
        _draw(svg, band, top, width)
        top += band.size[1]
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


# ---- positions -------------------------------------------------------------------------------------------------------


def band_of(stage: Stage, number: int) -> Band:
    depth = {stream.name: 0 for stream in stage.reads}
    columns: dict[str, int] = {}
    for step in stage.steps:
        columns[step.name] = 1 + max(depth[name] for name in step.inputs)
        depth |= dict.fromkeys(step.outputs, columns[step.name])
    last = max(columns.values()) + 1
    nodes = [(f"<{s.name}", 0, "topic", s.name, f"topic {s.topic}") for s in stage.reads]
    nodes += [(s.name, columns[s.name], "operator", f"{s.kind} {s.name}", s.fires) for s in stage.steps]
    nodes += [(f">{s.name}", last, "topic", s.name, f"topic {s.topic}") for s in stage.writes]
    rows = dict.fromkeys(range(last + 1), 0)
    boxes = {}
    for key, column, kind, name, detail in nodes:
        boxes[key] = Box(name, column, rows[column], kind, detail)
        rows[column] += 1
    where = "one bucket" if stage.spread is None else "spread over buckets"
    return Band(f"stage {number}: {stage.name}, {where}", boxes, tuple(_arrows(stage)))


def _arrows(stage: Stage) -> list[tuple[str, str, str]]:
    writer = {name: step.name for step in stage.steps for name in step.outputs}
    topics = {stream.name for stream in stage.writes}
    inner = [
        (writer.get(name, f"<{name}"), step.name, name if name in writer else "")
        for step in stage.steps
        for name in step.inputs
    ]
    return inner + [(writer[name], f">{name}", "") for name in writer if name in topics]


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _draw(svg: ET.Element, band: Band, top: int, width: int) -> None:
    frame = {"x": "6", "y": str(top), "width": str(width - 12), "height": str(band.size[1] - 12), "rx": "8"}
    ET.SubElement(svg, "rect", frame, fill="#fbfbfb", stroke="#bbbbbb")
    _text(svg, MARGIN, top + 19, band.title, "#444444")
    for source, target, stream in band.arrows:
        _arrow(svg, band.boxes[source].corner(top), band.boxes[target].corner(top), stream)
    for box in band.boxes.values():
        _box(svg, box, *box.corner(top))


def _box(svg: ET.Element, box: Box, x: int, y: int) -> None:
    fill, border = COLOURS[box.kind]
    group = ET.SubElement(svg, "g")
    ET.SubElement(group, "title").text = f"{box.name}: {box.detail}"
    corner = {"x": str(x), "y": str(y), "width": str(WIDTH), "height": str(HEIGHT), "rx": "6"}
    ET.SubElement(group, "rect", corner, fill=fill, stroke=border)
    _text(group, x + 10, y + 20, _short(box.name), "#111111")
    _text(group, x + 10, y + 39, _short(box.detail), "#555555")


def _arrow(svg: ET.Element, start: tuple[int, int], end: tuple[int, int], stream: str) -> None:
    x, y = start[0] + WIDTH, start[1] + HEIGHT // 2
    to, at = end[0], end[1] + HEIGHT // 2
    bend = ACROSS // 2
    path = f"M {x} {y} C {x + bend} {y}, {to - bend} {at}, {to - 2} {at}"
    ET.SubElement(svg, "path", {"marker-end": "url(#head)"}, d=path, fill="none", stroke="#777777")
    if stream:
        _text(svg, x + 6, y - 6, stream, "#777777")


def _arrow_head(svg: ET.Element) -> None:
    shape = {"id": "head", "viewBox": "0 0 10 10", "refX": "9", "refY": "5", "markerWidth": "7", "markerHeight": "7"}
    marker = ET.SubElement(ET.SubElement(svg, "defs"), "marker", shape, orient="auto")
    ET.SubElement(marker, "path", d="M 0 0 L 10 5 L 0 10 z", fill="#777777")


def _text(parent: ET.Element, x: int, y: int, words: str, fill: str) -> None:
    ET.SubElement(parent, "text", x=str(x), y=str(y), fill=fill).text = words


def _short(words: str, most: int = 36) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
