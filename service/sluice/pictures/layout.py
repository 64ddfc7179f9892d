"""Positions in a picture: an axis of times, and rows into which boxes are packed. All numbers are pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

#: width of a letter of the picture's font, and height of a row
LETTER, ROW = 7.3, 22
#: a gap between two times is drawn as at least and at most this multiple of the median gap
BOUNDS = 0.75, 2.5
#: the bounds of an axis that would be longer than `WIDEST` with the others: a page shrinks a wide picture and its text
TIGHT_BOUNDS, WIDEST = (1.0, 1.25), 720.0


class Axis:
    """Gives times positions on a line. The distances follow the times, within bounds: a long gap is drawn shorter and
    marked.

    The times may repeat: then each has a position of its own, `positions[k]` for the k-th.
    """

    def __init__(self, times: Sequence[int], left: float, width: float, least: float) -> None:
        """The line begins at `left` and is `width` wide, or wider if a gap would be smaller than `least`. `times` must
        not decrease.
        """
        gaps = [later - earlier for earlier, later in pairwise(times)]
        usual = median([gap for gap in gaps if gap] or [1])
        bounds = BOUNDS
        if sum(_weights(gaps, usual, bounds)) * least / bounds[0] > WIDEST:
            bounds = TIGHT_BOUNDS
        weights = _weights(gaps, usual, bounds)
        unit = max(width / sum(weights), least / bounds[0]) if weights else 0.0
        unit = min(unit, 2.2 * least)
        self.times = list(times)
        self.positions = [left]
        for weight in weights:
            self.positions.append(self.positions[-1] + weight * unit)
        #: the numbers of the gaps that are drawn shorter than they are
        self.broken = [index for index, gap in enumerate(gaps) if gap / usual > bounds[1]]

    @property
    def right(self) -> float:
        return self.positions[-1]

    def at(self, time: int) -> float:
        """The position of a time that is one of the times, or is between two of them."""
        if time <= self.times[0]:
            return self.positions[0]
        for k, (earlier, later) in enumerate(pairwise(self.times)):
            if time <= later:
                share = (time - earlier) / (later - earlier) if later > earlier else 1.0
                return self.positions[k] + share * (self.positions[k + 1] - self.positions[k])
        return self.right


def _weights(gaps: Sequence[int], usual: float, bounds: tuple[float, float]) -> list[float]:
    """The lengths of gaps as multiples of the usual one, within bounds."""
    return [min(max(gap / usual, bounds[0]), bounds[1]) for gap in gaps]


def packed(spans: Iterable[tuple[float, float]], gap: float = 5.0) -> list[int]:
    """For each span (left, right) the first row in which it overlaps no earlier span."""
    ends: list[float] = []
    rows = []
    for left, right in spans:
        row = next((row for row, end in enumerate(ends) if end + gap <= left), len(ends))
        if row == len(ends):
            ends.append(right)
        ends[row] = right
        rows.append(row)
    return rows


def width_of(text: str) -> float:
    return len(text) * LETTER
