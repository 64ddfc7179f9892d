"""Shows a story in a terminal: one row for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from sluice.json_texts import visible
from sluice.pictures import labels
from sluice.pictures.story import Change, Chip, Step, Story

NEW, GONE, FIRED, SOFT = "green", "red strike", "bold yellow", "dim"
#: least width of a column beside the clock, and the width that the padding of all columns takes
LEAST_COLUMN, PADDING = 16, 10


@dataclass(frozen=True, slots=True)
class Row:
    """A step: texts with one or more lines. `needs` is the least width at which no time of the calendar is broken."""

    clock: Text
    arrives: Text
    windows: Text
    outputs: Text
    needs: int


def table(story: Story, width: int) -> Table:
    """The steps: the clock, what arrives, the windows that change, what comes out.

    `+3` is a tuple that is inserted, `-1` one that leaves, `▶ [1 2 3]` a firing. If the four columns do not fit into
    `width` letters, a step has its event, its windows and its outputs one below the other.
    """
    grid = Table(box=SIMPLE_HEAD, title=f"pipeline {story.pipeline}", title_justify="left", caption=_caption(story))
    grid.add_column("clock", no_wrap=True)
    rows = _rows(story)
    if _fit(rows, width):
        for name in ("arrives", "windows", "comes out"):
            grid.add_column(name, overflow="fold")
        for row in rows:
            grid.add_row(row.clock, row.arrives, row.windows, row.outputs)
    else:
        grid.add_column("arrives, windows, → comes out", overflow="fold")
        for row in rows:
            grid.add_row(row.clock, _stacked(row))
    return grid


def _caption(story: Story) -> str | None:
    return f"{story.left_out:,} more events are not shown" if story.left_out else None


def _rows(story: Story) -> list[Row]:
    names, date = labels.several_streams(story), ""
    rows = []
    for step in story.steps:
        clock = labels.clock(step.at, calendar=story.calendar)
        day, space, time = clock.partition(" ")
        rows.append(_row(story, step, clock if day != date or not space else time, names=names))
        date = day if space else ""
    return rows


def _row(story: Story, step: Step, clock: str, *, names: bool) -> Row:
    """A date has a line of its own, above the time of the first step of the day."""
    arrives = Text(visible(labels.event_words(step)), "red" if any(change.late for change in step.changes) else "")
    watermarks = _watermarks(story, step)
    if watermarks:
        arrives.append("\n").append(watermarks, "magenta")
    windows = Text("\n").join([_window(story, change) for change in step.changes])
    outputs = Text("\n").join(
        [
            Text(visible(text), "red" if labels.LATE in text else "")
            for text in labels.result_texts(step.outputs, named=names)
        ]
    )
    needs = max([len(watermarks), *(len(labels.window_words(change, story)) for change in step.changes)])
    return Row(Text(clock.replace(" ", "\n"), SOFT), arrives, windows, outputs, needs)


def _watermarks(story: Story, step: Step) -> str:
    """The watermarks after an event; empty if there are none."""
    times = sorted(set(step.watermarks.values()))
    if not times or step.event is None:
        return ""
    scales = [port.scale for port in story.ports if port.scale is not None]
    return f"w {', '.join(labels.on_scale(time, scales[0] if scales else None) for time in times)}"


def _fit(rows: Sequence[Row], width: int) -> bool:
    """Whether four columns fit. Rich makes the three wide columns equally wide, if it has to fold their lines."""
    columns = [_width([getattr(row, name) for row in rows]) for name in ("clock", "arrives", "windows", "outputs")]
    share = (width - PADDING - columns[0]) // 3
    return sum(columns) + PADDING <= width or share >= max([LEAST_COLUMN, *(row.needs for row in rows)])


def _width(cells: Sequence[Text]) -> int:
    return max([line.cell_len for cell in cells for line in cell.split()], default=0)


def _stacked(row: Row) -> Text:
    windows = [Text("  ").append_text(line) for line in row.windows.split()] if row.windows else []
    outputs = [Text("→ ", SOFT).append_text(line) for line in row.outputs.split()] if row.outputs else []
    return Text("\n").join([row.arrives, *windows, *outputs])


def _window(story: Story, change: Change) -> Text:
    text = Text()
    where = labels.window_words(change, story)
    if where:
        text.append(f"{visible(where)} ", SOFT)
    left, chips, behind = labels.shown_chips(change)
    for chip in left:
        text.append(f"-{visible(chip.label)}", GONE).append(" ")
    if change.fired:
        text.append("▶ ", FIRED)
    if chips or change.fired or not change.late:  # a late tuple changes no window, and may have none
        text.append("[", FIRED if change.fired else "")
        for index, chip in enumerate(chips):
            text.append(" " if index else "").append_text(_chip(chip, change))
        text.append("]", FIRED if change.fired else "").append(" " if behind else "")
    for index, chip in enumerate(behind):
        late = Text(f"{labels.LATE} {visible(chip.label)}", "red") if chip in change.late else _chip(chip, change)
        text.append(" " if index else "").append_text(late)
    if change.ended:
        text.append(f" {change.ended}", SOFT)
    return text


def _chip(chip: Chip, change: Change) -> Text:
    label = visible(chip.label)
    return Text(f"+{label}", NEW) if chip in change.entered else Text(label)
