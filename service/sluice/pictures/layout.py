"""Positions in a picture: an axis of times, and rows into which boxes are packed. All numbers are pixels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median

#: height of a row
ROW = 22
#: a gap between two times is drawn as at least and at most this multiple of the median gap
BOUNDS = 0.75, 2.5
#: the bounds of an axis that would be longer than `WIDEST` with the others: a page shrinks a wide picture and its text
TIGHT_BOUNDS, WIDEST = (1.0, 1.25), 720.0
#: the bounds of an axis that would still be longer than it may be
DENSE_BOUNDS = 0.3, 4.0
#: the least distance of two signs for broken gaps
BREAK = 24.0


class Axis:
    """Gives times positions on a line. The distances follow the times, within bounds: a long gap is drawn shorter and
    marked.

    The times may repeat: then each has a position of its own, `positions[k]` for the k-th.
    """

    def __init__(self, times: Sequence[int], left: float, width: float, least: float, most: float) -> None:
        """The line begins at `left` and is `width` wide, or up to `most` if a gap would be smaller than `least`.
        `times` must not decrease.
        """
        gaps = [later - earlier for earlier, later in pairwise(times)]
        usual = median([gap for gap in gaps if gap] or [1])
        bounds = BOUNDS
        for wider, limit in ((TIGHT_BOUNDS, WIDEST), (DENSE_BOUNDS, most)):
            if sum(_weights(gaps, usual, bounds)) * least / bounds[0] > limit:
                bounds = wider
        weights = _weights(gaps, usual, bounds)
        total = sum(weights) or 1.0
        unit = min(max(width / total, least / bounds[0]), 2.2 * least, most / total)
        self.times = list(times)
        self.positions = [left]
        for weight in weights:
            self.positions.append(self.positions[-1] + weight * unit)
        #: the width of the smallest gap, at most `least`
        self.least = min(least, bounds[0] * unit)
        #: the numbers of the gaps that are drawn shorter than they are
        self.broken = [index for index, gap in enumerate(gaps) if gap / usual > bounds[1]]

    def breaks(self) -> Iterator[float]:
        """The middles of the broken gaps, as far as there is room for a sign."""
        last = -BREAK
        for gap in self.broken:
            middle = (self.positions[gap] + self.positions[gap + 1]) / 2
            if middle - last >= BREAK:
                yield middle
                last = middle

    @property
    def right(self) -> float:
        return self.positions[-1]

    def at(self, time: int) -> float:
        """The position of a time that is one of the times, or is between two of them."""
        if time <= self.times[0]:
            return self.positions[0]
        k = bisect_left(self.times, time)
        if k == len(self.times):
            return self.right
        earlier, later = self.times[k - 1], self.times[k]
        share = (time - earlier) / (later - earlier)
        return self.positions[k - 1] + share * (self.positions[k] - self.positions[k - 1])


def _weights(gaps: Sequence[int], usual: float, bounds: tuple[float, float]) -> list[float]:
    """The lengths of gaps as multiples of the usual one, within bounds."""
    return [min(max(gap / usual, bounds[0]), bounds[1]) for gap in gaps]


def packed(spans: Iterable[tuple[float, float]], gap: float = 5.0, most: int | None = None) -> list[int]:
    """For each span (left, right) the first row in which it overlaps no earlier span; `most` if none of this many rows
    has room.
    """
    ends: list[float] = []
    rows = []
    for left, right in spans:
        row = next((row for row, end in enumerate(ends) if end + gap <= left), len(ends))
        rows.append(row)
        if row != most:
            ends[row : row + 1] = [right]
    return rows
