"""Draws windows over event time as SVG: each pane, session or slidingTime window as a bar, and its tuples above it.

         100       110       120       the axis is event time; a vertical line marks each watermark
tuples      [2] [1] [3]                each tuple at its own event time
          | [1, 2]  |                  a bar from the start to the end of the window, its tuples in order of arrival
          | → 100.0 110.0 [1, 2] ■     the output when the window fired, and the mark (■) after it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from sluice.engine.stream.items import MAX_TIME
from sluice.pictures import labels
from sluice.pictures.layout import Axis, packed
from sluice.pictures.story import Change, Chip, Port, Story, WindowId
from sluice.svg.svg_canvas import Canvas, cut, shown_from, width_of

LEFT, LEAST = 112.0, 58.0
#: height of the line with the dates
DATE = 15
#: height of the row of a window with its result, and of one without
TALL, LOW = 38.0, 20.0
#: rows of tuples with their texts, of the times of watermarks, of the results without a window, and lanes of keys
MOST_TUPLES, MOST_WATERMARKS, MOST_RESULTS, MOST_LANES = 10, 3, 10, 24
#: rows of all lanes, and the least and the most rows of a lane
MOST_ROWS, LEAST_LANE, MOST_LANE = 60, 3, 12
#: the most rows of a lane whose windows have their results below them
MOST_TALL = 6
#: width of a tuple without its text, and the least distance of the lines of watermarks
DOT, CLEAR = 7.0, 8.0


def split(text: str) -> tuple[str, str]:
    """The date and the time of day in the text of an event time; the date is empty if the text has none."""
    date, space, clock = text.rpartition(" ")
    return (date, clock) if space else ("", text)


@dataclass(slots=True)
class Pane:
    """A window over event time. `end` is the step that ends it, because it closes or another one replaces it.

    fired   what each firing contains: its step, its tuples and the texts that came out
    grown   whether it replaced another one; `into` is the window that replaced it
    """

    window: WindowId
    start: int
    inside: tuple[Chip, ...] = ()
    end: int | None = None
    fired: list[tuple[int, tuple[Chip, ...], str]] = field(default_factory=list)
    grown: bool = False
    into: WindowId | None = None


class EventTimeline:
    """The timeline of one port whose windows are over event time."""

    def __init__(self, story: Story, port: Port, outputs: dict[int, list[str]], width: float, most: float) -> None:
        self._story, self._port = story, port
        self._outputs = dict(outputs)
        self._tuples: list[tuple[int, Chip, bool]] = []
        self._watermarks: list[tuple[int, int]] = []
        self._panes: dict[WindowId, Pane] = {}
        self._old: list[Pane] = []
        self._seen: set[int] = set()
        labelled: set[int] = set()
        for number, step in enumerate(story.steps):
            self._note(number)
            new = {time for time in step.watermarks.values() if abs(time) < MAX_TIME} - labelled
            self._watermarks += [(number, time) for time in sorted(new)]
            labelled |= new
        self._axis = self._scaled(width, most)

    def _note(self, number: int) -> None:
        changes = self._story.steps[number].of(self._port)
        firings = sum(len(change.fired) for change in changes)
        texts = self._outputs.get(number, [])
        paired = firings == len(texts) and firings > 0
        waiting = list(self._outputs.pop(number)) if paired else []
        for change in changes:
            self._tuples += [(number, chip, False) for chip in change.entered if chip.number not in self._seen]
            self._tuples += [(number, chip, True) for chip in change.late]
            self._seen |= {chip.number for chip in change.entered}
            if change.window.start is not None:
                self._changed(number, change, waiting)

    def _changed(self, number: int, change: Change, waiting: list[str]) -> None:
        for old in change.replaces:
            self._ends(old, number, into=change.window)
        pane = self._panes.setdefault(change.window, Pane(change.window, number, grown=bool(change.replaces)))
        pane.inside = change.inside or pane.inside
        for chips in change.fired:
            pane.fired.append((number, chips, waiting.pop(0) if waiting else ""))
        if change.ended:
            self._ends(change.window, number)

    def _ends(self, window: WindowId, number: int, into: WindowId | None = None) -> None:
        pane = self._panes.pop(window, None)
        if pane is not None:
            pane.end, pane.into = number, into
            self._old.append(pane)

    def _scaled(self, width: float, most: float) -> Axis:
        times = {chip.time for _, chip, _ in self._tuples if chip.time is not None}
        times |= {time for _, time in self._watermarks}
        for pane in [*self._old, *self._panes.values()]:
            times |= {time for time in (pane.window.start, pane.window.end) if time is not None}
        on_axis = sorted(times) or [0]
        texts = [labels.on_scale(time, self._port.scale) for time in on_axis]
        words = [width_of(part) + 8 for text in texts for part in split(text)]
        least = min(max([LEAST, *words]), 170.0)
        return Axis(on_axis, LEFT, min(width - LEFT - LEAST, 90.0 * len(on_axis)), least, most - LEFT - LEAST)

    def _dates(self) -> set[str]:
        """The dates of the axis, which have a line above the times."""
        return {split(labels.on_scale(time, self._port.scale))[0] for time in self._axis.times} - {""}

    @property
    def right(self) -> float:
        return self._axis.right + LEAST

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def draw(self, canvas: Canvas, top: float) -> float:
        top += DATE if self._dates() else 0
        lines = canvas.group()  # the first shapes lie below all others, so that no line crosses a text
        head = self._head(canvas, top)
        y = begin = self._arrivals(canvas, head)
        lanes = self._lanes()
        most = max(LEAST_LANE, min(MOST_LANE, MOST_ROWS // max(min(len(lanes), MOST_LANES), 1)))
        for key, panes in islice(lanes.items(), MOST_LANES):
            y = self._lane(canvas, y, key, panes, most)
        if len(lanes) > MOST_LANES:
            y += 18
            canvas.text(LEFT, y - 4, f"{len(lanes) - MOST_LANES:,} more keys are not drawn", "soft")
        one_row = head <= top + 44  # else lines from the axis would cross the times of the other rows
        self._watermark_lines(lines, top + 18 if one_row else head - 6, y)
        return max(self._results(canvas, y), begin) + 12

    def _results(self, canvas: Canvas, y: float) -> float:
        """What comes out without a firing that it belongs to, such as dead letters."""
        texts = [(number, text) for number, results in sorted(self._outputs.items()) for text in results]
        for number, text in texts[:MOST_RESULTS]:
            at = labels.at_step(self._story, number)
            y += 18
            canvas.text(LEFT, y, f"at {at}: {text}", "late" if labels.LATE in text else "", tag=shown_from(number))
        if len(texts) > MOST_RESULTS:
            y += 18
            canvas.text(LEFT, y, f"{len(texts) - MOST_RESULTS:,} more results are not drawn here", "soft")
        return y

    def _watermark_lines(self, canvas: Canvas, top: float, bottom: float) -> None:
        last = -CLEAR
        for number, time in self._watermarks:
            x = self._axis.at(time)
            if abs(x - last) >= CLEAR:
                canvas.line(x, top, x, bottom, kind="time", tag=shown_from(number))
                last = x

    def _head(self, canvas: Canvas, top: float) -> float:
        """The event times, and the watermarks with the times of the clock at which they came."""
        scale = self._port.scale
        name = scale.name if scale else labels.clock_name(self._story)
        canvas.text(8, top + 12, cut(name, 14), "soft")
        canvas.line(LEFT, top + 18, self.right, top + 18, kind="line")
        before, last = "", 0.0
        for time, x in zip(self._axis.times, self._axis.positions, strict=True):
            date, clock = split(labels.on_scale(time, scale))
            wide = width_of(clock) + 4
            if x - wide / 2 < last:
                continue
            canvas.text(x, top + 12, clock, "soft", anchor="middle")
            if date != before and canvas.text(x, top + 12 - DATE, date, "soft", anchor="middle"):
                before = date
            canvas.line(x, top + 15, x, top + 21, kind="line")
            last = x + wide / 2
        for middle in self._axis.breaks():
            canvas.break_in_axis(middle, top + 18)
        if not self._watermarks:
            return top + 26
        canvas.text(8, top + 36, "watermark", "time")
        spans = []
        full_texts = [labels.at_step(self._story, number) for number, _ in self._watermarks]
        words = [
            f"at {labels.after(before, text)}" for before, text in zip(["", *full_texts], full_texts, strict=False)
        ]
        for (_, time), text in zip(self._watermarks, words, strict=True):
            spans.append((self._axis.at(time) + 3, self._axis.at(time) + 3 + width_of(text)))
        rows = packed(spans, most=MOST_WATERMARKS)
        for (number, _), text, (left, _), row in zip(self._watermarks, words, spans, rows, strict=True):
            if row < MOST_WATERMARKS:
                canvas.text(left, top + 36 + 15 * row, text, "time", tag=shown_from(number))
        return top + 44 + 15 * min(max(rows), MOST_WATERMARKS - 1)

    def _arrivals(self, canvas: Canvas, top: float) -> float:
        """Draws the tuples at their event times; tuples that no window accepts have the colour of an error."""
        arrivals = sorted(
            ((n, chip, late) for n, chip, late in self._tuples if chip.time is not None), key=lambda arrival: arrival[0]
        )
        if not arrivals:
            return top
        canvas.text(8, top + 13, "tuples", "soft")
        rows, spans = self._packed(arrivals, 18.0)
        if max(rows) >= MOST_TUPLES:
            rows, spans = self._packed(arrivals, DOT)
        for (number, chip, late), (left, right), row in zip(arrivals, spans, rows, strict=True):
            at = labels.at_step(self._story, number)
            title = f"{labels.named(chip.values)}\narrives at {at}{', late' if late else ''}"
            kind, tag = "gone" if late else "new", shown_from(number)
            if row < MOST_TUPLES:
                canvas.labelled(left, top + row * 20, right - left, chip.label, kind=kind, title=title, tag=tag)
        return top + (min(max(rows), MOST_TUPLES - 1) + 1) * 20 + 8

    def _packed(
        self, arrivals: list[tuple[int, Chip, bool]], least: float
    ) -> tuple[list[int], list[tuple[float, float]]]:
        """The rows and the spans of tuples that are at least this wide; without their texts if it is DOT."""
        spans = []
        for _, chip, _ in arrivals:
            x, wide = self._axis.at(chip.time or 0), DOT if least == DOT else max(width_of(chip.label) + 9, least)
            spans.append((x - wide / 2, x + wide / 2))
        return packed(spans, 3.0, MOST_TUPLES), spans

    def _lanes(self) -> dict[str, list[Pane]]:
        """By key the windows that no other window replaced."""
        lanes: dict[str, list[Pane]] = {}
        for pane in sorted([*self._old, *self._panes.values()], key=lambda pane: pane.window):
            if pane.into is None:
                lanes.setdefault(pane.window.key, []).append(pane)
        return lanes

    def _lane(self, canvas: Canvas, top: float, key: str, panes: list[Pane], most: int) -> float:
        """The windows of a key: bars with their results or, if they are many, without."""
        rows, tall = packed(map(self._wide_span, panes), 6.0, MOST_TALL), TALL
        if max(rows) >= MOST_TALL:
            rows, tall = packed(map(self._span, panes), 2.0, most), LOW
        if key:
            canvas.text(8, top + 13, cut(key, 13), "head", title=key)
        place = {}
        for pane, row in zip(panes, rows, strict=True):
            if row < most:
                place[pane.window] = top + row * tall
                self._bar(canvas, top + row * tall, pane, result=tall == TALL)
        for pane in reversed(self._old):
            if pane.into in place and pane.window not in place:
                place[pane.window] = place[pane.into]
                self._bar(canvas, place[pane.window], pane, past=True)
        bottom = top + min(max(rows) + 1, most) * tall
        if left_out := sum(row == most for row in rows):
            canvas.text(LEFT, bottom + 12, f"{left_out:,} more windows are not drawn", "soft")
            bottom += 18
        return bottom + 4

    def _wide_span(self, pane: Pane) -> tuple[float, float]:
        """The space of a bar with all its texts."""
        left, right = self._span(pane)
        words = max([width_of(text) for _, _, text in pane.fired] or [0.0])
        inside = right + width_of(self._inside(pane)) + 8 if self._beside(pane) else right
        return left, max(inside, left + words + 26)

    def _inside(self, pane: Pane) -> str:
        """The tuples of a window."""
        chips = pane.fired[-1][1] if pane.fired else pane.inside
        return f"[{', '.join(chip.label for chip in chips)}]"

    def _beside(self, pane: Pane) -> bool:
        """Whether the bar is too short for its text, which then stands behind it."""
        left, right = self._span(pane)
        return right - left < min(width_of(self._inside(pane)) + 8, 60.0)

    def _span(self, pane: Pane) -> tuple[float, float]:
        left, right = self._axis.at(pane.window.start or 0), self._axis.at(pane.window.end or 0)
        return left, max(right, left + min(16.0, self._axis.least))

    def _bar(self, canvas: Canvas, y: float, pane: Pane, *, past: bool = False, result: bool = False) -> None:
        """The bar of a window with its tuples; with the `result` below it if it has room, else in its title."""
        left, right = self._span(pane)
        tag = shown_from(pane.start, pane.end if past else None)
        state = " past" if past else " grown" if pane.grown else ""
        scale = self._port.scale
        bounds = f"{labels.on_scale(pane.window.start or 0, scale)} to {labels.on_scale(pane.window.end or 0, scale)}"
        text = self._inside(pane)
        title = "\n".join([f"{self._port.operator} {pane.window.key} {bounds}: {text}", *self._fired_words(pane)])
        canvas.box(left, y, right - left, 17, f"{'chip' if pane.fired else 'open'}{state}", title=title, tag=tag)
        beside = result and self._beside(pane)
        x, most = (right + 4, width_of(text)) if beside else (left + 4, right - left - 5)
        canvas.text(x, y + 13, text, state.strip(), title=title, tag=tag, most=most)
        if result and pane.fired:
            number, _, words = pane.fired[-1]
            times = f" ({len(pane.fired)} firings)" if len(pane.fired) > 1 else ""
            canvas.text(left, y + 30, f"▶ {words or 'fires'}{times}", "fire", title=title, tag=shown_from(number))

    def _fired_words(self, pane: Pane) -> list[str]:
        return [f"fires at {labels.at_step(self._story, number)}: {words}" for number, _, words in pane.fired]
