"""The contents of the windows that fired: the input of the aggregation functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sluice.columns.interner import Interner
from sluice.engine.windows import policies
from sluice.engine.windows.early_results import are_early
from sluice.engine.windows.event_time.event_records import EMPTY

#: the results of flushReason, by kind of policy
REASONS = np.array([policies.REASONS[kind] for kind in range(len(policies.REASONS))], object)


@dataclass(frozen=True, slots=True)
class FiringDetails:
    """The details of each row's firing: the bounds and the index of its pane (E29), or why its window flushed.

    `to_units` converts internal ticks to units of the event-time attribute.
    """

    firings: np.ndarray
    firing: np.ndarray
    to_units: Callable[[np.ndarray], np.ndarray] = lambda ticks: ticks

    @property
    def start(self) -> np.ndarray:
        return self.to_units(self.firings["start"][self.firing])

    @property
    def end(self) -> np.ndarray:
        return self.to_units(self.firings["end"][self.firing])

    @property
    def index(self) -> np.ndarray:
        """The number of earlier firings of the pane; an empty pane that comes out is none (EP5)."""
        index: np.ndarray = np.maximum(self.firings["index"][self.firing], 0)
        return index

    @property
    def empty(self) -> np.ndarray:
        """Whether the firing is that of a pane without tuples (EP1)."""
        empty: np.ndarray = self.firings["index"][self.firing] == EMPTY
        return empty

    @property
    def early(self) -> np.ndarray:
        """Whether the firing gave an early result (F4)."""
        return are_early(self.firings[self.firing])

    @property
    def reason(self) -> np.ndarray:
        """Why the tumbling window emitted its tuples, in the words of flushReason (H4)."""
        reason: np.ndarray = REASONS.take(self.firings["reason"][self.firing])
        return reason


@dataclass(frozen=True, slots=True)
class CountedValues:
    """Counts of values, from multisets.py. A series is one counted column.

    counts   for each row and series two columns: the number of distinct values (without NaN), and the number of NaN
    pairs    the values of the rounded series with their counts, by row and then by series
    rounded  for each series whether its values are rounded
    """

    counts: np.ndarray
    pairs: np.ndarray
    rounded: np.ndarray

    def distinct(self, series: int) -> np.ndarray:
        """The number of distinct values of each row. Each NaN counts as a distinct value (A17)."""
        counts: np.ndarray = self.counts[:, 2 * series] + self.counts[:, 2 * series + 1]
        return counts

    def values(self, series: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For a rounded series: how many distinct values each row has, these values, and how often each occurs."""
        lengths = self.counts[:, 0::2][:, self.rounded]
        starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        place = int(np.count_nonzero(self.rounded[:series]))
        size, start = lengths[:, place], starts[:, place]
        before = np.cumsum(size) - size
        pairs = self.pairs[np.repeat(start - before, size) + np.arange(int(size.sum()))]
        return size, pairs["word"], pairs["times"]


@dataclass(frozen=True, slots=True)
class FiredContents:
    """The contents of all windows that fired: one row per output tuple, that is, per group of a firing.

    size        the number of tuples of the group, never 0 (A4)
    firing      the number of the row's firing; never decreases from row to row
    stored      for each firing the number of tuples that CountAll returns (A18); empty if no function needs it
    grouped     whether the operator has a `group_by`
    summary     the words of the summaries
    listed      the words of the tuples of every row, row after row, in order of arrival; empty if no function needs
                the tuples themselves
    details        the bounds and the index of panes; None unless the window is over event time
    counted     the counts of values; None if the window is over event time
    """

    size: np.ndarray
    firing: np.ndarray
    stored: np.ndarray
    grouped: bool
    summary: np.ndarray
    listed: np.ndarray
    strings: Interner
    details: FiringDetails | None = None
    counted: CountedValues | None = None

    @property
    def everything(self) -> np.ndarray:
        """The result of CountAll for each row (A18)."""
        seen: np.ndarray = self.stored[self.firing]
        return seen

    def real(self, word: int) -> np.ndarray:
        """The column `word` of the summaries, whose bits are float64 values."""
        return np.ascontiguousarray(self.summary[:, word]).view(np.float64)

    def per_firing(self, values: np.ndarray) -> np.ndarray:
        """For each row the sum of the values of all rows of its firing."""
        if not len(self.firing):
            return values
        ends = np.append(np.flatnonzero(np.diff(self.firing)), len(self.firing) - 1)
        lengths = np.diff(ends, prepend=-1)
        sums: np.ndarray = np.repeat(np.add.reduceat(values, ends - lengths + 1), lengths)
        return sums

    def position_in_firing(self) -> np.ndarray:
        """For each row its position in its firing, from 0."""
        first = np.ones(len(self.firing), np.bool_)
        first[1:] = self.firing[1:] != self.firing[:-1]
        rows = np.arange(len(self.firing))
        places: np.ndarray = rows - np.maximum.accumulate(np.where(first, rows, 0))
        return places

    def row(self) -> np.ndarray:
        """For each listed tuple the number of its row."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def position_in_row(self) -> np.ndarray:
        """For each listed tuple its position in its row, from 0."""
        places: np.ndarray = np.arange(len(self.listed)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        return places

    def rows(self, chosen: np.ndarray) -> FiredContents:
        """A copy with the rows for which `chosen` is true. It has neither details nor counts of values."""
        listed = self.listed[chosen[self.row()]] if len(self.listed) else self.listed
        return replace(
            self, size=self.size[chosen], firing=self.firing[chosen], summary=self.summary[chosen], listed=listed,
            details=None, counted=None,
        )  # fmt: skip

    def only(self, chosen: np.ndarray) -> FiredContents:
        """A copy with the listed tuples for which `chosen` is true. A row may have no tuples in it."""
        size = np.bincount(self.row()[chosen], minlength=len(self.size))
        return replace(self, size=size, listed=self.listed[chosen])
