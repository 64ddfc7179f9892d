"""Draws the phases of the last batches as stacked bars, as SVG inside the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from sluice.ops.metrics import WHOLE
from sluice.page.history import Batch
from sluice.page.times import duration

WIDTH, HEIGHT, BOTTOM, TOP = 1000, 220, 22, 8
#: the least share of the width at which the labels of the first and the last batch do not touch on a phone
APART = 0.5
#: minimum number of bars for which there is room
MIN_BARS = 60
#: Spark's phases in their order within a batch -> (class of the style sheet, what happens); all others are "other".
#: The second name of the first ones is that of the idle clock.
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
    known = [(*about, sum(batch.phases.get(name, 0.0) for name in names)) for names, about in PHASES.items()]
    rest = batch.phases.get(WHOLE, 0.0) - sum(seconds for *_, seconds in known)
    return [*known, (*OTHER, max(0.0, rest))]


def drawing(batches: Sequence[Batch]) -> str:
    """The SVG element: a bar for each batch, oldest on the left. It is as wide as the page.

    The bars are an SVG element of their own, which is stretched, so that the letters keep their size. The labels of the
    axis are left of the element.
    """
    svg = ET.Element("svg", {"class": "bars", "role": "img", "width": "100%", "height": str(HEIGHT)})
    ET.SubElement(svg, "title").text = "Durations of the last batches by phase"
    most = max([sum(seconds for *_, seconds in parts(one)) for one in batches], default=0.0) or 1.0
    step = next((one for one in STEPS if most / one <= 5), STEPS[-1])  # noqa: PLR2004 - lines
    tall = HEIGHT - BOTTOM - TOP
    for number in range(int(most / step) + 1):
        y = HEIGHT - BOTTOM - number * step / most * tall
        ET.SubElement(svg, "line", {"class": "grid"}, x1="0", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}")
        label = ET.SubElement(svg, "text", {"class": "axis", "text-anchor": "end"}, x="-6", y=f"{y + 4:.1f}")
        label.text = duration(number * step) if number else "0"
    stretched = {"viewBox": f"0 0 {WIDTH} {tall}", "preserveAspectRatio": "none", "y": str(TOP)}
    bars = ET.SubElement(svg, "svg", stretched, width="100%", height=str(tall))
    wide = WIDTH / max(MIN_BARS, len(batches))
    for index, batch in enumerate(batches):
        _bar(bars, batch, index * wide, wide, tall / most)
    for batch, share, anchor in _ends(batches):
        style = {"class": "axis", "text-anchor": anchor}
        label = ET.SubElement(svg, "text", style, x=f"{share:.0%}", y=str(HEIGHT - 6))
        label.text = f"batch {batch.number}"
    return ET.tostring(svg, encoding="unicode")


def _ends(batches: Sequence[Batch]) -> list[tuple[Batch, float, str]]:
    """The batches that have a label, each with its position as a share of the width."""
    if not batches:
        return []
    share = len(batches) / max(MIN_BARS, len(batches))
    return [(batches[0], 0.0, "start"), *([(batches[-1], share, "end")] if share > APART else [])]


def _bar(svg: ET.Element, batch: Batch, x: float, wide: float, scale: float) -> None:
    group = ET.SubElement(svg, "g")
    lines = [f"{name}: {duration(seconds)}" for _, name, seconds in parts(batch) if seconds]
    title = f"batch {batch.number}, {batch.records:,} records\n" + "\n".join(lines)
    ET.SubElement(group, "title").text = title
    y = float(HEIGHT - BOTTOM - TOP)
    for style, _, seconds in parts(batch):
        tall = seconds * scale
        if tall:
            y -= tall
            corner = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{wide * 0.9:.2f}", "height": f"{tall:.2f}"}
            ET.SubElement(group, "rect", {"class": style, **corner})
