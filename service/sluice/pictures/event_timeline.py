"""Draws windows over event time as SVG: each pane, session or slidingTime window as a bar, and its tuples above it.

         100       110       120       the axis is event time; a vertical line marks each watermark
tuples      [2] [1] [3]                each tuple at its own event time
          | [1, 2]  |                  a bar from the start to the end of the window, its tuples in order of arrival
          | → 100.0 110.0 [1, 2] ■     the output when the window fired, and the mark (■) after it
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.engine.stream.items import MAX_TIME
from sluice.pictures import labels
from sluice.pictures.layout import LETTER, Axis, packed, width_of
from sluice.pictures.story import Change, Chip, Port, Story, WindowId
from sluice.pictures.svg_canvas import Canvas, shown_from

LEFT, LEAST, TALL = 112.0, 58.0, 34.0
#: height of the line with the dates
DATE = 15


def split(text: str) -> tuple[str, str]:
    """The date and the time of day in the text of an event time; the date is empty if the text has none."""
    date, space, clock = text.rpartition(" ")
    return (date, clock) if space else ("", text)


@dataclass(slots=True)
class Pane:
    """A window over event time. `end` is the step that ends it, because it closes or another one replaces it.

    fired   what each firing contains: its step, its tuples and the texts that came out
    """

    window: WindowId
    start: int
    inside: tuple[Chip, ...] = ()
    end: int | None = None
    replaced: bool = False
    fired: list[tuple[int, tuple[Chip, ...], str]] = field(default_factory=list)


class EventTimeline:
    """The timeline of one port whose windows are over event time."""

    def __init__(self, story: Story, port: Port, outputs: dict[int, list[str]], width: float) -> None:
        self._story, self._port = story, port
        self._outputs = dict(outputs)
        self._tuples: list[tuple[int, Chip, bool]] = []
        self._watermarks: list[tuple[int, int]] = []
        self._panes: dict[WindowId, Pane] = {}
        self._old: list[Pane] = []
        for number, step in enumerate(story.steps):
            self._note(number)
            for time in {time for time in step.watermarks.values() if abs(time) < MAX_TIME}:
                if time not in {known for _, known in self._watermarks}:
                    self._watermarks.append((number, time))
        self._axis = self._scaled(width)

    def _note(self, number: int) -> None:
        changes = self._story.steps[number].of(self._port)
        firings = sum(len(change.fired) for change in changes)
        texts = self._outputs.get(number, [])
        paired = firings == len(texts) and firings > 0
        waiting = list(self._outputs.pop(number)) if paired else []
        seen = {chip.number for _, chip, _ in self._tuples}
        for change in changes:
            self._tuples += [(number, chip, False) for chip in change.entered if chip.number not in seen]
            self._tuples += [(number, chip, True) for chip in change.late]
            seen |= {chip.number for chip in change.entered}
            if change.window.start is not None:
                self._changed(number, change, waiting)

    def _changed(self, number: int, change: Change, waiting: list[str]) -> None:
        for old in change.replaces:
            self._ends(old, number, replaced=True)
        pane = self._panes.setdefault(change.window, Pane(change.window, number))
        pane.inside = change.inside or pane.inside
        for chips in change.fired:
            pane.fired.append((number, chips, waiting.pop(0) if waiting else ""))
        if change.ended:
            self._ends(change.window, number)

    def _ends(self, window: WindowId, number: int, *, replaced: bool = False) -> None:
        pane = self._panes.pop(window, None)
        if pane is not None:
            pane.end, pane.replaced = number, replaced
            self._old.append(pane)

    def _scaled(self, width: float) -> Axis:
        times = {chip.time for _, chip, _ in self._tuples if chip.time is not None}
        times |= {time for _, time in self._watermarks}
        for pane in [*self._old, *self._panes.values()]:
            times |= {time for time in (pane.window.start, pane.window.end) if time is not None}
        known = sorted(times) or [0]
        texts = [labels.on_scale(time, self._port.scale) for time in known]
        words = [width_of(part) + 8 for text in texts for part in split(text)]
        return Axis(known, LEFT, min(width - LEFT - LEAST, 90.0 * len(known)), min(max([LEAST, *words]), 170.0))

    def _dates(self) -> set[str]:
        """The dates of the axis, which have a line above the times."""
        return {split(labels.on_scale(time, self._port.scale))[0] for time in self._axis.times} - {""}

    @property
    def right(self) -> float:
        return self._axis.right + LEAST

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def draw(self, canvas: Canvas, top: float) -> float:
        top += DATE if self._dates() else 0
        y = self._head(canvas, top)
        y = self._arrivals(canvas, y)
        begin, lines = y, top + 18
        panes = sorted([*self._old, *self._panes.values()], key=lambda one: one.window)
        rows = self._rows([pane for pane in panes if not pane.replaced])
        end = y + ((max(rows) + 1) * (TALL + 4) if rows else 0)
        for number, time in self._watermarks:  # before the bars, so that no line crosses a text
            x = self._axis.at(time)
            canvas.line(x, lines, x, end, kind="time", tag=shown_from(number))
        self._bars(canvas, y, panes, rows)
        y = end
        texts = [(number, text) for number, some in sorted(self._outputs.items()) for text in some]
        for number, text in texts:
            at = labels.at_step(self._story, number)
            y += 18
            canvas.text(LEFT, y, f"at {at}: {text}", "late" if labels.LATE in text else "", tag=shown_from(number))
        return max(y, begin) + 12

    def _head(self, canvas: Canvas, top: float) -> float:
        """The event times, and the watermarks with the times of the clock at which they came."""
        scale = self._port.scale
        name = scale.name if scale else labels.clock_name(self._story)
        canvas.text(8, top + 12, labels.cut(name, 14), "soft")
        canvas.line(LEFT, top + 18, self.right, top + 18, kind="line")
        before = ""
        for time, x in zip(self._axis.times, self._axis.positions, strict=True):
            date, clock = split(labels.on_scale(time, scale))
            canvas.text(x, top + 12, clock, "soft", anchor="middle")
            if date != before:
                canvas.text(x, top + 12 - DATE, date, "soft", anchor="middle")
            before = date
            canvas.line(x, top + 15, x, top + 21, kind="line")
        for gap in self._axis.broken:
            canvas.break_in_axis((self._axis.positions[gap] + self._axis.positions[gap + 1]) / 2, top + 18)
        if not self._watermarks:
            return top + 26
        canvas.text(8, top + 36, "watermark", "time")
        spans = []
        words = [f"at {labels.at_step(self._story, number)}" for number, _ in self._watermarks]
        for (_, time), text in zip(self._watermarks, words, strict=True):
            spans.append((self._axis.at(time) + 3, self._axis.at(time) + 3 + width_of(text)))
        rows = packed(spans)
        for (number, _), text, (left, _), row in zip(self._watermarks, words, spans, rows, strict=True):
            canvas.text(left, top + 36 + 15 * row, text, "time", tag=shown_from(number))
        return top + 44 + 15 * max(rows)

    def _arrivals(self, canvas: Canvas, top: float) -> float:
        """The tuples at their event times; those that no window accepts in the colour of an error."""
        known = sorted(
            ((n, chip, late) for n, chip, late in self._tuples if chip.time is not None), key=lambda one: one[0]
        )
        if not known:
            return top
        canvas.text(8, top + 13, "tuples", "soft")
        spans = []
        for _, chip, _ in known:
            x, wide = self._axis.at(chip.time or 0), max(width_of(chip.label) + 9, 18.0)
            spans.append((x - wide / 2, x + wide / 2))
        rows = packed(spans, 3.0)
        for (number, chip, late), (left, right), row in zip(known, spans, rows, strict=True):
            at = labels.at_step(self._story, number)
            title = f"{labels.named(chip.values)}\narrives at {at}{', late' if late else ''}"
            kind = "gone" if late else "new"
            canvas.labelled(
                left, top + row * 20, right - left, chip.label, kind=kind, title=title, tag=shown_from(number)
            )
        return top + (max(rows) + 1) * 20 + 8

    def _bars(self, canvas: Canvas, top: float, panes: list[Pane], rows: list[int]) -> None:
        """The bars of all windows. `rows` has the rows of those that no other window replaced."""
        last = [pane for pane in panes if not pane.replaced]
        for pane, row in zip(last, rows, strict=True):
            self._bar(canvas, top + row * (TALL + 4), pane)
        for pane in panes:
            if pane.replaced:
                self._bar(canvas, top, pane, past=True)

    def _rows(self, panes: list[Pane]) -> list[int]:
        """The rows of the bars; those of another key are in other rows."""
        rows: list[int] = []
        first = 0
        for key in dict.fromkeys(pane.window.key for pane in panes):
            spans = []
            for pane in panes:
                if pane.window.key == key:
                    left, right = self._span(pane)
                    words = max([width_of(text) for _, _, text in pane.fired] or [0.0])
                    inside = right + width_of(self._inside(pane)) + 8 if self._beside(pane) else right
                    spans.append((left, max(inside, left + words + 26)))
            rows += [first + row for row in packed(spans, 6.0)]
            first = max(rows) + 1
        return rows

    def _inside(self, pane: Pane) -> str:
        """The key and the tuples of a window."""
        chips = pane.fired[-1][1] if pane.fired else pane.inside
        text = f"[{', '.join(chip.label for chip in chips)}]"
        return f"{pane.window.key} {text}" if pane.window.key else text

    def _beside(self, pane: Pane) -> bool:
        """Whether the bar is too short for its text, which then stands behind it."""
        left, right = self._span(pane)
        return right - left < min(width_of(self._inside(pane)) + 8, 60.0)

    def _span(self, pane: Pane) -> tuple[float, float]:
        left, right = self._axis.at(pane.window.start or 0), self._axis.at(pane.window.end or 0)
        return left, max(right, left + 16)

    def _bar(self, canvas: Canvas, y: float, pane: Pane, *, past: bool = False) -> None:
        left, right = self._span(pane)
        tag = shown_from(pane.start, pane.end if past else None)
        kind = "chip" if pane.fired else "open"
        scale = self._port.scale
        bounds = f"{labels.on_scale(pane.window.start or 0, scale)} to {labels.on_scale(pane.window.end or 0, scale)}"
        text = self._inside(pane)
        title = f"{self._port.operator} {bounds}: {text}"
        canvas.box(left, y, right - left, 17, f"{kind}{' past' if past else ''}", title=title, tag=tag)
        x, letters = (right + 4, len(text)) if self._beside(pane) else (left + 4, int((right - left - 6) / LETTER))
        canvas.text(x, y + 13, labels.cut(text, letters), "past" if past else "", title=title, tag=tag)
        if pane.fired and not past:
            number, _, words = pane.fired[-1]
            when = labels.at_step(self._story, number)
            times = f" ({len(pane.fired)} firings)" if len(pane.fired) > 1 else ""
            text = f"▶ {words or 'fires'}{times}"
            canvas.text(left, y + 30, text, "fire", title=f"fires at {when}", tag=shown_from(number))
