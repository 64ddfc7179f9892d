"""The times of sessions over the operator clock, and gaps that are expressions of the tuple."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.stream.event_times import exact_nanoseconds
from sluice.engine.windows.event_time.event_ticks import Sized
from sluice.model.unparse import seconds
from sluice.model.windows.session_window import MAX_GAP


class ClockTimes:
    """Times of the operator clock in nanoseconds, with the methods of `Ticks` (for event times) that sessions need."""

    #: the name in messages; every tuple has this time
    attribute = "the clock"

    def sizes(self, window: Sized) -> tuple[int, ...]:
        return window.sizes

    def of_watermarks(self, watermarks: np.ndarray) -> np.ndarray:
        """The watermarks themselves: without event time they have no effect."""
        return watermarks

    def to_units(self, ticks: np.ndarray) -> np.ndarray:
        """The ticks themselves. They are nanoseconds."""
        return ticks

    def seconds(self, ticks: int) -> str:
        """The ticks as seconds, for messages."""
        return seconds(ticks)


def gaps(of: pa.Array, tick: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The gaps in ticks of `tick` ns, rounded down, and which of them are not valid (G4); None: all are valid."""
    found, bad = exact_nanoseconds(of.to_numpy(zero_copy_only=False))
    wrong = (found <= 0) | (found > MAX_GAP)
    if bad is not None:
        wrong |= bad
    return found // tick, wrong if wrong.any() else None
