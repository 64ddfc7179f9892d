"""Draws the steps of a story one below the other: the clock, what arrives, what the windows hold, what comes out."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.pictures import labels
from sluice.pictures.story import Change, Chip, Step, Story
from sluice.svg.svg_canvas import Canvas, cut, shown_from, width_of

#: height of a line, the most letters of an event and of an output
LINE, MOST_EVENT, MOST_OUTPUT = 22.0, 38, 52
#: the most lines of a picture, and of one step
MOST_LINES, MOST_OF_STEP = 160, 8
#: the most tuples of a window that are drawn, and the width that they may take
MOST_CHIPS, MOST_WIDTH = 12, 320.0


def draw(canvas: Canvas, story: Story, top: float) -> float:
    """Draws the steps below `top` and returns the y behind them."""
    clock = labels.clock_name(story)
    steps = _fitting(story)
    full_texts = [labels.at_step(story, number) for number in range(len(steps))]
    clocks = [labels.after(before, text) for before, text in zip(["", *full_texts], full_texts, strict=False)]
    events = [cut(labels.event_words(step), MOST_EVENT) for step in steps]
    names = labels.several_streams(story)
    at = 8.0 + max([width_of(words) for words in [*clocks, clock]]) + 16
    inside = at + max([width_of(words) for words in [*events, "arrives"]]) + 16
    widths = [_width(change, story) for step in steps for change in step.changes[:MOST_OF_STEP]]
    out = inside + max([90.0, *widths]) + 16
    for x, words in ((8.0, clock), (at, "arrives"), (inside, "windows"), (out, "comes out")):
        canvas.text(x, top + 14, words, "soft")
    y = top + LINE
    for number, step in enumerate(steps):
        tag = shown_from(number)
        canvas.line(8, y - 1, out + 120, y - 1, kind="line")
        canvas.text(8, y + 15, clocks[number], "soft", tag=tag)
        kind = "late" if any(change.late for change in step.changes) else ""
        title = labels.event_words(step)
        canvas.text(at, y + 15, events[number], kind, tag=tag, title=title if title != events[number] else "")
        for line, change in enumerate(step.changes[:MOST_OF_STEP]):
            _change(canvas, inside, y + line * LINE, change, story=story, step=number)
        texts = labels.result_texts(step.outputs, named=names)
        for line, text in enumerate(texts[:MOST_OF_STEP]):
            late = "late" if labels.LATE in text else ""
            canvas.text(out, y + 15 + line * LINE, cut(text, MOST_OUTPUT), late, tag=tag, title=text)
        y += _lines(step, names=names) * LINE
        for x, entries, noun in ((inside, step.changes, "windows"), (out, texts, "results")):
            if len(entries) > MOST_OF_STEP:
                canvas.text(x, y - 7, f"{len(entries) - MOST_OF_STEP:,} more {noun}", "soft", tag=tag)
    if len(steps) < len(story.steps):
        left_out = f"{len(story.steps) - len(steps):,} more steps are in the timelines only; zoom to see them here"
        canvas.text(8, y + 15, left_out, "soft")
        y += LINE
    return y + 6


def _fitting(story: Story) -> list[Step]:
    """The first steps, with at most MOST_LINES lines."""
    names, lines, fitting = labels.several_streams(story), 0, []
    for step in story.steps:
        lines += _lines(step, names=names)
        if lines > MOST_LINES:
            break
        fitting.append(step)
    return fitting


def _lines(step: Step, *, names: bool) -> int:
    """The lines of a step; one more says how much is left out."""
    return max(1, min(max(len(step.changes), len(labels.result_texts(step.outputs, named=names))), MOST_OF_STEP + 1))


def _drawn(chips: list[Chip]) -> int:
    """The number of tuples of a window that are drawn."""
    room, number = MOST_WIDTH, 0
    while number < min(len(chips), MOST_CHIPS) and room > 0:
        room -= _chip_width(chips[number])
        number += 1
    return number


def _chip_width(chip: Chip) -> float:
    return max(width_of(chip.label) + 8, 18.0) + 3


def _width(change: Change, story: Story) -> float:
    chips = [chip for chips_shown in labels.shown_chips(change) for chip in chips_shown[: _drawn(chips_shown)]]
    return width_of(labels.window_words(change, story)) + 10 + sum(map(_chip_width, chips)) + 54


def _change(canvas: Canvas, x: float, y: float, change: Change, *, story: Story, step: int) -> None:
    tag = shown_from(step)
    where = labels.window_words(change, story)
    if where:
        canvas.text(x, y + 15, where, "soft", tag=tag)
        x += width_of(where) + 10
    left, chips, behind = labels.shown_chips(change)
    x = _chips(canvas, x, y, left, kinds={}, usual="gone", tag=tag)
    start = x
    x = _chips(canvas, x, y, chips, kinds=dict.fromkeys(change.entered, "new"), usual="chip", tag=tag)
    if change.fired:
        width = max(x - start, 8.0)
        canvas.box(start - 2, y + 0.5, width, LINE - 3, "fire", tag=tag, title="fires")
        times = f"{len(change.fired)}x" if len(change.fired) > 1 else ""
        canvas.text(start + width + 2, y + 15, f"▶{times}", "fire", tag=tag)
        x = start + width + 20 + width_of(times)
    elif not chips and not behind and not left:
        canvas.text(x, y + 15, change.ended or "empty", "soft", tag=tag)
    x = _chips(canvas, x, y, behind, kinds=dict.fromkeys(change.late, "gone"), usual="new", tag=tag, struck=False)
    if change.late:
        canvas.text(x, y + 15, "late", "late", tag=tag)


def _chips(
    canvas: Canvas, x: float, y: float, chips: list[Chip], *, kinds: Mapping[Chip, str], usual: str,
    tag: dict[str, str], struck: bool = True,
) -> float:  # fmt: skip
    """Draws tuples beside each other; evicted tuples have a line through them. Returns the x behind them."""
    count = _drawn(chips)
    for chip in chips[:count]:
        width = _chip_width(chip) - 3
        kind = kinds.get(chip, usual)
        canvas.labelled(x, y + 2, width, chip.label, kind=kind, title=labels.named(chip.values), tag=tag)
        if kind == "gone" and struck:
            canvas.line(x + 2, y + 10.5, x + width - 2, y + 10.5, kind="strike", tag=tag)
        x += width + 3
    if len(chips) > count:
        words = f"+{len(chips) - count}"
        canvas.text(x, y + 15, words, "soft", tag=tag)
        x += width_of(words) + 4
    return x
