"""Draws a story as SVG: a timeline for each windowed input, and all steps one below the other."""

from __future__ import annotations

from sluice.pictures import labels, step_rows
from sluice.pictures.clock_timeline import ClockTimeline, result_texts, several_streams
from sluice.pictures.event_timeline import EventTimeline
from sluice.pictures.layout import width_of
from sluice.pictures.story import Port, Story
from sluice.pictures.svg_canvas import Canvas

#: the width that a timeline is stretched to, pixels
WIDTH = 760.0


def drawing(story: Story, *, steps: bool = True, heading: str = "") -> str:
    """The SVG document. `steps`: with the steps below the timelines; `heading`: instead of the pipeline's name."""
    canvas = Canvas()
    canvas.text(8, 20, heading or f"pipeline {story.pipeline}", "head")
    y = 34.0
    owners = _owners(story)
    for port in story.ports:
        y = _timeline(canvas, story, port, y, owner=owners.get(port.operator) is port, heading=bool(heading))
    if steps or not story.ports:
        y = step_rows.draw(canvas, story, y + 4)
    if steps and story.ports:
        y = _legend(canvas, story, y + 6)
    if story.left_out:
        y += 18
        canvas.text(8, y, f"{story.left_out:,} more events are not drawn", "soft")
    return canvas.document(y + 8)


def _legend(canvas: Canvas, story: Story, top: float) -> float:
    """What the boxes and the lines of the timelines and of the steps mean."""
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


def _timeline(canvas: Canvas, story: Story, port: Port, top: float, *, owner: bool, heading: bool) -> float:
    if not story.steps:
        return top
    if not heading or len(story.ports) > 1:
        side = f" {port.side}" if port.side else ""
        canvas.text(8, top + 12, f"{port.operator}{side}", "head")
        canvas.text(8 + (len(port.operator) + len(side) + 2) * 7.3, top + 12, port.clause, "soft")
        top += 22
    outputs = _outputs(story, port) if owner else {}
    kind = ClockTimeline if port.scale is None else EventTimeline
    return kind(story, port, outputs, WIDTH).draw(canvas, top) + 10


def _outputs(story: Story, port: Port) -> dict[int, list[str]]:
    """By step the texts of the records that come out, if this port is the one that shows them: the last of its
    operator.
    """
    last = story.ports[-1] is port
    several = len({one.operator for one in story.ports}) > 1
    names = several_streams(story)
    found = {}
    for number, step in enumerate(story.steps):
        if several and not last:
            continue
        texts = [labels.cut_result(text) for text in result_texts(step.outputs, named=names)]
        if texts:
            found[number] = texts
    return found
