"""Draws a story as SVG: a timeline for each windowed input, and all steps one below the other."""

from __future__ import annotations

from sluice.pictures import labels, step_rows
from sluice.pictures.clock_timeline import ClockTimeline
from sluice.pictures.event_timeline import EventTimeline
from sluice.pictures.story import Port, Story
from sluice.svg.svg_canvas import Canvas, width_of

#: the width that a timeline is stretched to, and the most that it gets if its events need it, pixels
WIDTH, MOST_WIDTH = 760.0, 1600.0
#: the style of the shapes of timelines and steps
RULES = """.chip{fill:var(--chip);stroke:var(--edge)}
.open{fill:var(--band);stroke:var(--edge);stroke-dasharray:4 3}
.new{fill:var(--new);stroke:var(--new-edge)}
.gone{fill:var(--gone);stroke:var(--gone-edge)}
.strike{stroke:var(--gone-edge)}
text.late{fill:var(--gone-edge)}
.fire{stroke:var(--fire);stroke-width:1.5;fill:none}
text.fire,.sluice-picture .fire-head{stroke:none;fill:var(--fire)}
text.fire{paint-order:stroke;stroke:var(--paper);stroke-width:3}
.time{stroke:var(--time);stroke-dasharray:3 3;fill:none}
text.time{fill:var(--time);stroke-dasharray:none;paint-order:stroke;stroke:var(--paper);stroke-width:3}
.past{display:none}
.cover{display:none;fill:var(--paper);opacity:.8}
"""


def drawing(story: Story, *, steps: bool = True, heading: str = "", width: float = WIDTH) -> str:
    """The SVG document. `steps`: whether the steps are below the timelines; `heading` replaces the pipeline's name;
    `width`: the width of the timelines of a short story, pixels.
    """
    canvas = Canvas()
    canvas.text(8, 20, heading or f"pipeline {story.pipeline}", "head")
    y = 34.0
    owners = _owners(story)
    for port in story.ports:
        is_owner = owners.get(port.operator) is port
        y = _timeline(canvas, story, port, y, owner=is_owner, heading=bool(heading), width=width)
    if steps or not story.ports:
        y = step_rows.draw(canvas, story, y + 4)
    if steps and story.ports:
        y = _legend(canvas, story, y + 6)
    if story.left_out:
        y += 18
        canvas.text(8, y, f"{story.left_out:,} more events are not drawn", "soft")
    return canvas.document(canvas.right + 14, y + 8, RULES)


def _legend(canvas: Canvas, story: Story, top: float) -> float:
    """The legend of the boxes and the lines of the timelines and of the steps."""
    rows: list[tuple[tuple[str, str], ...]] = []
    if any(port.scale is None for port in story.ports):
        rows.append((("chip", "a tuple in its window"), ("open", "still in it at the end")))
    if any(port.scale is not None for port in story.ports):
        rows.append((("chip", "a window that has fired"), ("open", "one that has not")))
    rows.append((("new", "inserted"), ("gone", "evicted, or late")))
    y = top
    for row in rows:
        x = 8.0
        for kind, words in row:
            canvas.box(x, y + 3, 14, 12, kind)
            canvas.text(x + 20, y + 13, words, "soft")
            x += 20 + width_of(words) + 22
        y += 18
    canvas.text(8, y + 13, "▶ ▼", "fire")
    canvas.text(8 + width_of("▶ ▼ "), y + 13, f"a result   {labels.MARK} the window mark that ends it", "soft")
    return y + 22


def _owners(story: Story) -> dict[str, Port]:
    """The port of each operator below which its outputs are drawn: its last one."""
    return {port.operator: port for port in story.ports}


def _timeline(
    canvas: Canvas, story: Story, port: Port, top: float, *, owner: bool, heading: bool, width: float
) -> float:
    if not story.steps:
        return top
    if not heading or len(story.ports) > 1:
        side = f" {port.side}" if port.side else ""
        canvas.text(8, top + 12, f"{port.operator}{side}", "head")
        canvas.text(8 + width_of(f"{port.operator}{side}  "), top + 12, port.clause, "soft")
        top += 22
    outputs = _outputs(story, port) if owner else {}
    kind = ClockTimeline if port.scale is None else EventTimeline
    return kind(story, port, outputs, width, max(MOST_WIDTH, width)).draw(canvas, top) + 10


def _outputs(story: Story, port: Port) -> dict[int, list[str]]:
    """By step the texts of the records that come out, if this port is the one that shows them: the last of its
    operator.
    """
    last = story.ports[-1] is port
    several = len({other.operator for other in story.ports}) > 1
    names = labels.several_streams(story)
    by_step = {}
    for number, step in enumerate(story.steps):
        if several and not last:
            continue
        texts = [labels.cut_result(text) for text in labels.result_texts(step.outputs, named=names)]
        if texts:
            by_step[number] = texts
    return by_step
