"""What the windows that fired hold: what the results of aggregation functions are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sluice.columns.interner import Interner


@dataclass(frozen=True, slots=True)
class FiringDetails:
    """Of each row its window, as its firing has it (E29); `to_units` makes units of the event time of its ticks."""

    firings: np.ndarray
    firing: np.ndarray
    to_units: Callable[[np.ndarray], np.ndarray]

    @property
    def start(self) -> np.ndarray:
        return self.to_units(self.firings["start"][self.firing])

    @property
    def end(self) -> np.ndarray:
        return self.to_units(self.firings["end"][self.firing])

    @property
    def index(self) -> np.ndarray:
        """How often the pane fired before."""
        index: np.ndarray = self.firings["index"][self.firing]
        return index


@dataclass(frozen=True, slots=True)
class CountedValues:
    """What multisets.py tells: of each row, series by series, how many values and how many NaN; and the values of the
    series that are rounded, row by row and then series by series.
    """

    counts: np.ndarray
    pairs: np.ndarray
    rounded: np.ndarray

    def distinct(self, series: int) -> np.ndarray:
        """How many distinct values each row has; each NaN is one of its own (A17)."""
        found: np.ndarray = self.counts[:, 2 * series] + self.counts[:, 2 * series + 1]
        return found

    def values(self, series: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each row how many values a rounded series has, these values, and how often each is there."""
        lengths = self.counts[:, 0::2][:, self.rounded]
        starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)
        place = int(np.count_nonzero(self.rounded[:series]))
        size, start = lengths[:, place], starts[:, place]
        before = np.cumsum(size) - size
        pairs = self.pairs[np.repeat(start - before, size) + np.arange(int(size.sum()))]
        return size, pairs["word"], pairs["times"]


@dataclass(frozen=True, slots=True)
class FiredContents:
    """One row per tuple to emit, which is one cell of one firing.

    size        tuples of the cell, never 0 (A4)
    firing      the firing of each row; never decreases
    stored      of each firing the tuples as CountAll sees them (A18); empty where nobody asks
    grouped     whether there is a `group_by`
    summary     the words of the summaries
    listed      the words of the tuples of every cell, cell after cell, in order of arrival; empty where no function
                lists them
    told        of a window over event time, what can be told of it
    counted     of other windows, what is counted
    """

    size: np.ndarray
    firing: np.ndarray
    stored: np.ndarray
    grouped: bool
    summary: np.ndarray
    listed: np.ndarray
    strings: Interner
    told: FiringDetails | None = None
    counted: CountedValues | None = None

    @property
    def everything(self) -> np.ndarray:
        """Of each row all tuples as CountAll sees them."""
        seen: np.ndarray = self.stored[self.firing]
        return seen

    def real(self, word: int) -> np.ndarray:
        """A word of the summaries that holds a float64."""
        return np.ascontiguousarray(self.summary[:, word]).view(np.float64)

    def per_firing(self, values: np.ndarray) -> np.ndarray:
        """For each row the sum over all rows of its firing."""
        if not len(self.firing):
            return values
        ends = np.append(np.flatnonzero(np.diff(self.firing)), len(self.firing) - 1)
        lengths = np.diff(ends, prepend=-1)
        sums: np.ndarray = np.repeat(np.add.reduceat(values, ends - lengths + 1), lengths)
        return sums

    def place_in_firing(self) -> np.ndarray:
        """0 for the first row of each firing, 1 for the second ..."""
        first = np.ones(len(self.firing), np.bool_)
        first[1:] = self.firing[1:] != self.firing[:-1]
        rows = np.arange(len(self.firing))
        places: np.ndarray = rows - np.maximum.accumulate(np.where(first, rows, 0))
        return places

    def row(self) -> np.ndarray:
        """The row of each listed tuple."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def place_in_row(self) -> np.ndarray:
        """0 for the first listed tuple of each row, 1 for the second ..."""
        places: np.ndarray = np.arange(len(self.listed)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        return places

    def only(self, chosen: np.ndarray) -> FiredContents:
        """With those listed tuples alone for which `chosen` is true; a row may be left with none."""
        size = np.bincount(self.row()[chosen], minlength=len(self.size))
        return replace(self, size=size, listed=self.listed[chosen])
