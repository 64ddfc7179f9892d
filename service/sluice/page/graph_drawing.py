"""Draws the plan of a pipeline with what each topic and operator does now, as SVG inside the page.
Rows and columns are the same as in `sluice explain --svg` (planning/explain_drawing.py). Colours are classes of the
page's style sheet, so that the picture follows its light and dark colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from sluice.page.pipeline_pages import PipelinePage
from sluice.page.times import moment, rate
from sluice.planning.explain_drawing import Band, Box, band_of
from sluice.svg.svg_canvas import Canvas

#: class of the style sheet -> the width of a drawing in pixels: one for a desk, one for a phone
WIDTHS = {"wide": 1190, "narrow": 366}


def graph(page: PipelinePage, status: Mapping[str, Any]) -> Markup:
    """The SVG elements, of which the style sheet shows the one that fits."""
    bands = [
        (band_of(stage.explained, number), dict(_notes(shown)))
        for number, (stage, shown) in enumerate(zip(page.stages, status["stages"], strict=True), 1)
    ]
    drawn = "".join(drawing(bands, width, style) for style, width in WIDTHS.items())
    return Markup(drawn)  # noqa: S704 - the XML library has escaped every text


def _notes(stage: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for stream in stage["inputs"]:
        lag = f"{stream['unread']:,} unread" if stream["unread"] else "nothing unread"
        notes = [f"topic {stream['topic']}", f"{rate(stream['rate'])}, {lag}"]
        if stream["event_time"]:
            notes.append(
                f"watermark {moment(stream['watermark'])}" if stream["watermark"] is not None else "!no watermark"
            )
        if stream["dead_letters"]:
            notes.append(f"!{rate(stream['dead_letters'])} dead letters")
        yield f"<{stream['stream']}", notes
    for operator in stage["operators"]:
        yield operator["name"], list(_of_operator(operator, stage))
    for stream in stage["outputs"]:
        yield f">{stream['stream']}", [f"topic {stream['topic']}", rate(stream["rate"])]


def _of_operator(operator: Mapping[str, Any], stage: Mapping[str, Any]) -> Iterator[str]:
    yield (operator["windows"] or (operator["kind"],))[0]
    yield f"in {rate(operator['read'])}, out {rate(operator['written'])}, fired {rate(operator['fired'])}"
    if operator["partitions"] is not None:
        yield f"{operator['partitions']:,} partitions, {operator['tuples']:,} tuples"
    if operator["held_back"]:
        yield "!held back"
        return
    watermarks = [time for time in operator["watermarks"].values() if time is not None]
    if operator["watermarks"]:
        yield f"watermark {moment(min(watermarks))}" if watermarks else "!no watermark"
    elif stage["clock"] is not None and operator["partitions"] is not None:
        yield f"clock {moment(stage['clock'])}"


HEIGHT, ACROSS, DOWN = 104, 46, 18
MARGIN, TITLE, LINE = 14, 34, 17
#: how far an arrow to the next line runs beside a box
AROUND = 9
#: width of a character of a note, and of the margins beside it
LETTER, BESIDE = 6.6, 28
#: least and most characters of a line that fit into a box
MIN_LINE, MAX_LINE = 22, 58
#: lines below the name of a box
MAX_NOTES = 4

#: key of a box -> lines below its name; a line that begins with "!" is a warning
Notes = Mapping[str, Sequence[str]]


def drawing(bands: Sequence[tuple[Band, Notes]], width: int, style: str) -> str:
    """The SVG element of the stages, each with the notes of its boxes. Columns for which the width does not suffice
    continue in a further line. `style` is a class of the style sheet.
    """
    columns = _columns(bands, width)
    lines = _lines([wide for _, wide in columns], width)
    right = max(left + wide for left, wide in columns) + MARGIN
    tops = list(accumulate((_height(band, lines) for band, _ in bands), initial=0))
    canvas = Canvas(
        "The operators of the pipeline, its topics, and what each of them does now", letter=LETTER,
        class_=f"graph {style}", role="img", viewBox=f"0 0 {right} {tops[-1]}", width=right, height=tops[-1],
    )  # fmt: skip
    for (band, notes), top in zip(bands, tops, strict=False):
        canvas.text(MARGIN, top + 21, band.title, "band")
        places = _places(band, top + TITLE, columns, lines)
        for source, target, _ in band.arrows:
            _arrow(canvas, places[source], places[target])
        for key, box in band.boxes.items():
            _box(canvas, box, places[key], notes.get(key, ()))
    return canvas.inline()


def _columns(bands: Sequence[tuple[Band, Notes]], width: int) -> list[tuple[int, int]]:
    """For each column of boxes its left edge and its width: its longest line fits, up to MAX_LINE characters."""
    longest: dict[int, int] = {}
    for band, notes in bands:
        for key, box in band.boxes.items():
            lines = [f"{box.name}  ", *(note.removeprefix("!") for note in notes.get(key, ())[:MAX_NOTES])]
            longest[box.column] = max([longest.get(box.column, MIN_LINE), *map(len, lines)])
    letters = [min(longest.get(column, MIN_LINE), MAX_LINE) for column in range(max(longest) + 1)]
    widths = [min(round(count * LETTER) + BESIDE, width - 2 * MARGIN) for count in letters]
    columns: list[tuple[int, int]] = []
    for line in _split(widths, width):
        left = MARGIN
        for wide in line:
            columns.append((left, wide))
            left += wide + ACROSS
    return columns


def _split(widths: Sequence[int], width: int) -> list[list[int]]:
    """The widths of the columns of each line. A line has at least one column."""
    lines: list[list[int]] = [[]]
    for wide in widths:
        if lines[-1] and 2 * MARGIN + sum(lines[-1]) + len(lines[-1]) * ACROSS + wide > width:
            lines.append([])
        lines[-1].append(wide)
    return lines


def _lines(widths: Sequence[int], width: int) -> list[int]:
    """The line of each column."""
    return [number for number, line in enumerate(_split(widths, width)) for _ in line]


def _rows(band: Band, lines: Sequence[int]) -> list[int]:
    """The number of rows of each line."""
    rows = [0] * (max(lines) + 1)
    for box in band.boxes.values():
        rows[lines[box.column]] = max(rows[lines[box.column]], box.row + 1)
    return rows


def _height(band: Band, lines: Sequence[int]) -> int:
    return TITLE + sum(_rows(band, lines)) * (HEIGHT + DOWN)


def _places(
    band: Band, top: int, columns: Sequence[tuple[int, int]], lines: Sequence[int]
) -> dict[str, tuple[int, int, int]]:
    """By key of a box: its left edge, its upper edge, and its width."""
    tops = [top + rows * (HEIGHT + DOWN) for rows in accumulate(_rows(band, lines), initial=0)]
    return {
        key: (columns[box.column][0], tops[lines[box.column]] + box.row * (HEIGHT + DOWN), columns[box.column][1])
        for key, box in band.boxes.items()
    }


def _box(canvas: Canvas, box: Box, position: tuple[int, int, int], notes: Sequence[str]) -> None:
    x, y, wide = position
    group = canvas.group(box.kind, title=f"{box.name}: {box.detail}")
    group.box(x, y, wide, HEIGHT, "", radius=7)
    group.text(x + 11, y + 22, box.name, "name", most=wide - 14)
    for number, note in enumerate(notes[:MAX_NOTES]):
        style = "warn" if note.startswith("!") else "note"
        group.text(x + 11, y + 41 + number * LINE, note.removeprefix("!"), style, most=wide - 14)


def _arrow(canvas: Canvas, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    """An arrow from the right side of a box to the left side of another one: to a later column of the same line, or
    around the end of the line to the next one.
    """
    (x, y), (to, at) = (start[0] + start[2], start[1] + HEIGHT / 2), (end[0], end[1] + HEIGHT / 2)
    around = f"M{x} {y}h{AROUND}V{end[1] - DOWN / 2}H{to - AROUND}V{at}" if to < x else ""
    canvas.arrow((x, y), (to, at), ACROSS, around)
