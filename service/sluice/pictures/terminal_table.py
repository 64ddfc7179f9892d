"""Shows a story in a terminal: one row for each step."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from sluice.pictures import labels
from sluice.pictures.clock_timeline import result_texts, several_streams
from sluice.pictures.step_rows import event_words, shown_chips, window_words
from sluice.pictures.story import Change, Chip, Step, Story

NEW, GONE, FIRED, SOFT = "green", "red strike", "bold yellow", "dim"


def table(story: Story) -> Table:
    """The steps: the clock, what arrives, the windows that change, what comes out.

    `+3` is a tuple that is inserted, `-1` one that leaves, `▶ [1 2 3]` a firing.
    """
    found = Table(box=SIMPLE_HEAD, title=f"pipeline {story.pipeline}", title_justify="left", caption=_caption(story))
    for name in ("clock", "arrives", "windows", "comes out"):
        found.add_column(name, overflow="fold")
    names = several_streams(story)
    for step in story.steps:
        found.add_row(*_cells(story, step, names=names))
    return found


def _caption(story: Story) -> str | None:
    return f"{story.left_out:,} more events are not shown" if story.left_out else None


def _cells(story: Story, step: Step, *, names: bool) -> tuple[Text, Text, Text, Text]:
    clock = Text(labels.clock(step.at, calendar=story.calendar), SOFT)
    arrives = Text(event_words(step), "red" if any(change.late for change in step.changes) else "")
    watermarks = sorted(set(step.watermarks.values()))
    if watermarks and step.event is not None:
        scales = [port.scale for port in story.ports if port.scale is not None]
        times = [labels.on_scale(time, scales[0] if scales else None) for time in watermarks]
        arrives.append(f"  w {', '.join(times)}", "magenta")
    windows = Text("\n").join([_window(story, change) for change in step.changes])
    outputs = Text("\n").join(
        [Text(text, "red" if labels.LATE in text else "") for text in result_texts(step.outputs, named=names)]
    )
    return clock, arrives, windows, outputs


def _window(story: Story, change: Change) -> Text:
    text = Text()
    where = window_words(change, story)
    if where:
        text.append(f"{where} ", SOFT)
    gone, chips, behind = shown_chips(change)
    for chip in gone:
        text.append(f"-{chip.label}", GONE).append(" ")
    if change.fired:
        text.append("▶ ", FIRED)
    if chips or change.fired or not change.late:  # a late tuple changes no window, and may have none
        text.append("[", FIRED if change.fired else "")
        for place, chip in enumerate(chips):
            text.append(" " if place else "").append_text(_chip(chip, change))
        text.append("]", FIRED if change.fired else "").append(" " if behind else "")
    for place, chip in enumerate(behind):
        late = Text(f"{labels.LATE} {chip.label}", "red") if chip in change.late else _chip(chip, change)
        text.append(" " if place else "").append_text(late)
    if change.ended:
        text.append(f" {change.ended}", SOFT)
    return text


def _chip(chip: Chip, change: Change) -> Text:
    return Text(f"+{chip.label}", NEW) if chip in change.entered else Text(chip.label)
