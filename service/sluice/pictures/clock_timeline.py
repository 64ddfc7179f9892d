"""Draws windows over the operator clock: each tuple is a bar from its insertion to its eviction, firings are lines.

    0     1     2     3
■  [1---------)▼
      [2------)▼   [4----
            [3)▼
               [1, 2, 3] ■

A window with more tuples at a time than a lane has rows is an area as high as the number of its tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from sluice.pictures import labels
from sluice.pictures.layout import ROW, Axis, packed
from sluice.pictures.story import Change, Chip, Port, Step, Story, WindowId
from sluice.svg.svg_canvas import Canvas, cut, shown_from, width_of

#: where the axis begins, how far an eviction lies before its step, and the least distance of two steps
LEFT, BEFORE, LEAST = 112.0, 4.0, 46.0
#: rows of all lanes, the least and the most rows of a lane, and lanes of a timeline
MOST_ROWS, LEAST_LANE, MOST_LANE, MOST_LANES = 60, 4, 14, 24
#: rows of the texts that come out
MOST_RESULTS = 8
#: height of the area of a window with many tuples
AREA = 44.0
#: the least distance of steps at which the line of a firing is behind the text of a bar, not across it
CLEAR = 30.0


@dataclass(slots=True)
class Bar:
    """The stay of a tuple in a window, by the numbers of steps. `end` is None while the tuple is inside."""

    chip: Chip
    start: int
    end: int | None = None
    evicted: bool = False


class ClockTimeline:
    """The timeline of one port. `draw` draws it below `top` and returns the y behind it."""

    def __init__(self, story: Story, port: Port, outputs: dict[int, list[str]], width: float, most: float) -> None:
        """`outputs` has the texts that come out at each step; they are drawn below the windows."""
        self._story, self._port, self._outputs = story, port, outputs
        steps = story.steps
        full_texts = [labels.at_step(story, number) for number in range(len(steps))]
        texts = [labels.after(before, text) for before, text in pairwise(full_texts)]
        texts += [f"{chip.label}." for step in steps for change in step.changes for chip in change.entered]
        least = min(max([LEAST, *(width_of(text) + 8 for text in texts)]), 130.0) if len(steps) <= 60 else LEAST / 2  # noqa: PLR2004
        times = [step.at for step in steps]
        self._axis = Axis(times, LEFT, min(width - LEFT, 80.0 * len(steps)), least, most - LEFT)
        chips = [width_of(chip.label) + 11 for step in steps for change in step.changes for chip in change.entered]
        #: how far behind the tuple of its step a firing is drawn
        self._behind = min(max([24.0, *chips]), 0.9 * self._axis.least)
        self._bars: dict[WindowId, list[Bar]] = {}
        self._sizes: dict[WindowId, list[tuple[int, int]]] = {}
        self._fires: dict[WindowId, list[tuple[int, bool]]] = {}
        for number, step in enumerate(steps):
            for change in step.of(port):
                self._note(number, change)

    @property
    def right(self) -> float:
        return self._axis.right + max(self._axis.least, 24.0)

    def _note(self, number: int, change: Change) -> None:
        bars = self._bars.setdefault(change.window, [])
        bars += [Bar(chip, number) for chip in change.entered]
        left = {chip.number for chip in change.left}
        inside = {chip.number for chip in change.inside}
        for bar in bars:
            if bar.end is None and bar.chip.number not in inside:
                bar.end, bar.evicted = number, bar.chip.number in left
        sizes = [max(map(len, change.fired), default=0), len(change.inside)] if change.fired else [len(change.inside)]
        self._sizes.setdefault(change.window, []).extend((number, size) for size in sizes)
        if change.fired:
            fired = {chip.number for chips in change.fired for chip in chips}
            early = any(chip.number not in fired for chip in change.entered)
            self._fires.setdefault(change.window, []).append((number, early))

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def draw(self, canvas: Canvas, top: float) -> float:
        y = self._head(canvas, top)
        begin = y
        groups = [(window, bars) for window, bars in self._bars.items() if bars]
        lanes = groups[:MOST_LANES]
        for window, bars in lanes:
            y = self._group(canvas, y, window, bars, max(LEAST_LANE, min(MOST_LANE, MOST_ROWS // len(lanes))))
        if len(groups) > len(lanes):
            y += 18
            canvas.text(LEFT, y - 4, f"{len(groups) - len(lanes):,} more windows are not drawn", "soft")
        for window, fires in self._fires.items():
            if not self._bars.get(window):
                self._lines(canvas, begin, max(y, begin + 8), fires)
        canvas.cover(begin - 4, y, self.right, self._axis.positions)
        return self._results(canvas, max(y, begin + 8) + 2)

    def _head(self, canvas: Canvas, top: float) -> float:
        """The times of the clock, and what arrives besides tuples."""
        canvas.text(8, top + 12, labels.clock_name(self._story), "soft")
        canvas.line(LEFT, top + 18, self.right, top + 18, kind="line")
        last, before = 0.0, ""
        for number in range(len(self._story.steps)):
            x, tag = self._axis.positions[number], shown_from(number)
            full = labels.at_step(self._story, number)
            words = labels.after(before, full)
            if x >= last and x + width_of(words) < self.right + LEFT:
                before = full
                canvas.text(x, top + 12, words, "soft", tag=tag)
                last = x + width_of(words) + 8
                canvas.line(x, top + 15, x, top + 21, kind="line")
        for middle in self._axis.breaks():
            canvas.break_in_axis(middle, top + 18)
        signs = [(number, self._sign(step)) for number, step in enumerate(self._story.steps)]
        signs = [(number, sign) for number, sign in signs if sign]
        if not signs:
            return top + 28
        canvas.text(8, top + 36, "arrives", "soft")
        for number, sign in signs:
            kind = "late" if sign.startswith(labels.LATE) else "time" if sign.startswith("w ") else "head"
            canvas.text(self._axis.positions[number], top + 36, sign, kind, tag=shown_from(number))
        return top + 46

    def _sign(self, step: Step) -> str:
        """A mark, a watermark, or a tuple that no window of this port accepts."""
        late = [chip for change in step.of(self._port) for chip in change.late]
        if late:
            return f"{labels.LATE} {late[0].label}"
        if step.event is None or "tuple" in step.event:
            return ""
        return labels.arrival(step.event).removesuffix(" window mark").removesuffix(" final mark")

    def _group(self, canvas: Canvas, top: float, window: WindowId, bars: list[Bar], most: int) -> float:
        """The bars of one window partition, in at most `most` rows, or the area of its sizes."""
        fires = self._fires.get(window, [])
        spans = [self._span(bar, dict(fires)) for bar in bars]
        rows = packed(spans, 2.0)
        fits = max(rows) < most
        bottom = top + ((max(rows) + 1) * ROW if fits else AREA + 6)
        canvas.box(LEFT - 6, top - 2, self.right - LEFT + 6, bottom - top, "band", radius=4)
        if window.key:
            canvas.text(8, top + 13, cut(window.key, 13), "head", title=window.key)
        if not fits:
            self._area(canvas, top, window)
        for bar, (left, right), row in zip(bars, spans, rows, strict=True):
            if fits:
                kind = "chip" if bar.end is not None else "open"
                title = f"{labels.named(bar.chip.values)}\n{self._stay(bar)}"
                tag = shown_from(bar.start)
                canvas.labelled(left, top + row * ROW, right - left, bar.chip.label, kind=kind, title=title, tag=tag)
        self._lines(canvas, top - 2, bottom - 2, fires)
        return bottom + 4

    def _area(self, canvas: Canvas, top: float, window: WindowId) -> None:
        """The number of tuples of a window over the clock, and the most at a time."""
        sizes = self._sizes[window]
        most = max(*(size for _, size in sizes), 1)
        path, foot = f"M{self._axis.positions[sizes[0][0]]:.1f} {top + AREA:.1f}", top + AREA
        for number, size in sizes:
            path += f"H{self._axis.positions[number]:.1f}V{foot - size / most * (AREA - 4):.1f}"
        canvas.path(f"{path}H{self.right:.1f}V{foot:.1f}z", "chip", title=f"up to {most:,} tuples at a time")
        canvas.text(8, top + 13 + (18 if window.key else 0), f"≤ {most:,} tuples", "soft")

    def _stay(self, bar: Bar) -> str:
        start = f"inserted at {labels.at_step(self._story, bar.start)}"
        if bar.end is None:
            return f"{start}, inside at the end"
        end = labels.at_step(self._story, bar.end)
        return f"{start}, {'evicted' if bar.evicted else 'out with the firing'} at {end}"

    def _span(self, bar: Bar, fires: Mapping[int, bool]) -> tuple[float, float]:
        left = self._axis.positions[bar.start]
        if bar.end is None:
            return left, self.right
        if bar.evicted or bar.end not in fires:
            right = self._axis.positions[bar.end] - BEFORE
        else:
            right = self._fire_at(bar.end, early=fires[bar.end])
        return left, max(right, left + min(14.0, self._axis.least))

    def _fire_at(self, number: int, *, early: bool) -> float:
        """Where a firing is drawn: before the tuple of its step, or behind it."""
        x = self._axis.positions[number]
        step = self._story.steps[number]
        entered = any(change.entered for change in step.changes)
        return x - BEFORE if early else x + self._behind if entered else x

    def _lines(self, canvas: Canvas, top: float, bottom: float, fires: list[tuple[int, bool]]) -> None:
        """A line for each firing; where lines would cross the texts of bars, only their heads."""
        for number, early in fires:
            x, tag = self._fire_at(number, early=early), shown_from(number)
            if self._axis.least >= CLEAR:
                canvas.line(x, top, x, bottom, kind="fire", tag=tag)
            canvas.path(f"M{x - 4:.1f} {bottom:.1f}h8l-4 6z", "fire-head", tag)

    def _results(self, canvas: Canvas, top: float) -> float:
        """What comes out, below the step that brings it out, as far as there is room."""
        texts = [(number, text) for number, outputs in sorted(self._outputs.items()) for text in outputs]
        if not texts:
            return top + 4
        canvas.text(8, top + 18, "comes out", "soft")
        fires = {
            number: self._fire_at(number, early=early) for firings in self._fires.values() for number, early in firings
        }
        begins = [fires.get(number, self._axis.positions[number]) for number, _ in texts]
        spans = [(begin, begin + width_of(text)) for begin, (_, text) in zip(begins, texts, strict=True)]
        rows = packed(spans, 14.0, MOST_RESULTS)
        for (number, text), (left, _), row in zip(texts, spans, rows, strict=True):
            kind = "late" if text.startswith(labels.LATE) else ""
            if row < MOST_RESULTS:
                canvas.text(left, top + 18 + row * 18, text, kind, tag=shown_from(number))
        if left_out := sum(row == MOST_RESULTS for row in rows):
            canvas.text(8, top + 36, f"{left_out:,} have no", "soft")
            canvas.text(8, top + 54, "room here", "soft")
        return top + 18 + min(max(rows) + 1, MOST_RESULTS) * 18
