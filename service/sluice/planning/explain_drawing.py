"""Draws a plan as SVG: a band for each stage, with its input topics on the left, its output topics on the right, and
its operators between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.model.spec import Pipeline
from sluice.planning.explain_plan import Stage
from sluice.svg.svg_canvas import Canvas

WIDTH, HEIGHT, ACROSS, DOWN = 310, 50, 70, 22
MARGIN, TITLE = 24, 30
#: the style of its shapes
RULES = """.frame{fill:var(--band);stroke:var(--line)}
.topic rect{fill:var(--topic);stroke:var(--topic-edge)}
.operator rect{fill:var(--chip);stroke:var(--edge)}
.arrow{fill:none;stroke:var(--soft)}
.arrow-head{fill:var(--soft)}
"""


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
        columns, rows = (max(getattr(box, axis) for box in self.boxes.values()) + 1 for axis in ("column", "row"))
        return MARGIN * 2 + columns * (WIDTH + ACROSS) - ACROSS, TITLE + rows * (HEIGHT + DOWN) + MARGIN


def drawing(pipeline: Pipeline, stages: Sequence[Stage]) -> str:
    """The SVG document."""
    bands = [band_of(stage, number) for number, stage in enumerate(stages, 1)]
    width, top = max(band.size[0] for band in bands), TITLE // 2
    canvas = Canvas(f"pipeline {pipeline.name}")
    for band in bands:
        _draw(canvas, band, top, width)
        top += band.size[1]
    return canvas.document(width, top + TITLE // 2, RULES)


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


def _draw(canvas: Canvas, band: Band, top: int, width: int) -> None:
    canvas.box(6, top, width - 12, band.size[1] - 12, "frame", radius=8)
    canvas.text(MARGIN, top + 19, band.title, "soft")
    for source, target, stream in band.arrows:
        (x, y), (to, at) = band.boxes[source].corner(top), band.boxes[target].corner(top)
        canvas.arrow((x + WIDTH, y + HEIGHT / 2), (to, at + HEIGHT / 2), ACROSS)
        canvas.text(x + WIDTH + 6, y + HEIGHT / 2 - 6, stream, "soft", most=ACROSS - 8)
    for box in band.boxes.values():
        x, y = box.corner(top)
        group = canvas.group(box.kind, title=f"{box.name}: {box.detail}")
        group.box(x, y, WIDTH, HEIGHT, "", radius=6)
        group.text(x + 10, y + 20, box.name, most=WIDTH - 16)
        group.text(x + 10, y + 39, box.detail, "soft", most=WIDTH - 16)
