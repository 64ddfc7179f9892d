"""Draws the phases of the last batches as stacked bars, as SVG inside the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.ops.metrics import WHOLE
from sluice.page.history import Batch
from sluice.page.times import duration
from sluice.svg.svg_canvas import Canvas

WIDTH, HEIGHT, BOTTOM, TOP = 1000, 220, 22, 8
#: the least share of the width at which the labels of the first and the last batch do not touch on a phone
APART = 0.5
#: minimum number of bars for which there is room
MIN_BARS = 60
#: Spark's phases in their order within a batch -> (class of the style sheet, what happens); all others are "other".
#: The idle clock calls the first phase `getOffset`.
PHASES: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("latestOffset", "getOffset"): ("p0", "find new records"),
    ("walCommit",): ("p1", "plan: write the offsets"),
    ("getBatch",): ("p2", "plan: divide the records"),
    ("queryPlanning",): ("p3", "plan: Spark's plan"),
    ("addBatch",): ("p4", "run: read, windows, write to Kafka"),
    ("commitOffsets",): ("p5", "note the end in the checkpoint"),
}
OTHER = ("p6", "other")
#: steps of the axis, in seconds: the smallest one with at most 5 lines
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


def parts(batch: Batch) -> list[tuple[str, str, float]]:
    """The phases of a batch in their order: class, name and seconds. The rest of the whole is "other"."""
    timed_parts = [(*about, sum(batch.phases.get(name, 0.0) for name in names)) for names, about in PHASES.items()]
    rest = batch.phases.get(WHOLE, 0.0) - sum(seconds for *_, seconds in timed_parts)
    return [*timed_parts, (*OTHER, max(0.0, rest))]


def drawing(batches: Sequence[Batch]) -> str:
    """The SVG element: a bar for each batch, oldest on the left. It is as wide as the page.

    The bars are an SVG element of their own, which is stretched, so that the letters keep their size. The labels of the
    axis are left of the element.
    """
    canvas = Canvas("Durations of the last batches by phase", class_="bars", role="img", width="100%", height=HEIGHT)
    most = max([sum(seconds for *_, seconds in parts(batch)) for batch in batches], default=0.0) or 1.0
    step = next((size for size in STEPS if most / size <= 5), STEPS[-1])  # noqa: PLR2004 - lines
    tall = HEIGHT - BOTTOM - TOP
    for number in range(int(most / step) + 1):
        y = HEIGHT - BOTTOM - number * step / most * tall
        canvas.shape("line", "grid", x1=0, x2="100%", y1=y, y2=y)
        canvas.text(-6, y + 4, duration(number * step) if number else "0", "axis", anchor="end")
    stretched = {"viewBox": f"0 0 {WIDTH} {tall}", "preserveAspectRatio": "none"}
    bars = canvas.nested(**stretched, y=TOP, width="100%", height=tall)
    wide = WIDTH / max(MIN_BARS, len(batches))
    for index, batch in enumerate(batches):
        _bar(bars, batch, index * wide, wide, tall / most)
    for batch, share, anchor in _ends(batches):
        label = canvas.shape("text", "axis", text_anchor=anchor, x=f"{share:.0%}", y=HEIGHT - 6)
        label.text = f"batch {batch.number}"
    return canvas.inline()


def _ends(batches: Sequence[Batch]) -> list[tuple[Batch, float, str]]:
    """The batches that have a label, each with its position as a share of the width."""
    if not batches:
        return []
    share = len(batches) / max(MIN_BARS, len(batches))
    return [(batches[0], 0.0, "start"), *([(batches[-1], share, "end")] if share > APART else [])]


def _bar(canvas: Canvas, batch: Batch, x: float, wide: float, scale: float) -> None:
    lines = [f"{name}: {duration(seconds)}" for _, name, seconds in parts(batch) if seconds]
    title = f"batch {batch.number}, {batch.records:,} records\n" + "\n".join(lines)
    group, y = canvas.group(title=title), float(HEIGHT - BOTTOM - TOP)
    for style, _, seconds in parts(batch):
        if tall := seconds * scale:
            y -= tall
            group.shape("rect", style, x=x, y=y, width=wide * 0.9, height=tall)
