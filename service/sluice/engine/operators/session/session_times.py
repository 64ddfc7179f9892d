"""The times of sessions over the operator's clock, and gaps that tuples tell."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.windows.event_time.event_ticks import exact_nanoseconds
from sluice.model.spec import Window
from sluice.model.windows.session_window import MOST_GAP


class ClockTimes:
    """Times of the clock as the kernels count them, in nanoseconds: in place of the `Ticks` of an event time."""

    #: for messages; no tuple lacks this time
    attribute = "the clock"

    def sizes(self, window: Window) -> tuple[int, ...]:
        return window.sizes

    def of_watermarks(self, watermarks: np.ndarray) -> np.ndarray:
        """A stream without event time has none that counts."""
        return watermarks

    def to_units(self, ticks: np.ndarray) -> np.ndarray:
        """Nanoseconds of a float64."""
        return ticks

    def seconds(self, ticks: int) -> str:
        """For people."""
        return f"{ticks / 1e9:.9f}".rstrip("0").rstrip(".")


def gaps(seconds: pa.Array, tick: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The gaps in ticks of so many nanoseconds, rounded down, and which of them are none (G4)."""
    found, bad = exact_nanoseconds(seconds.to_numpy(zero_copy_only=False))
    wrong = (found <= 0) | (found > MOST_GAP)
    if bad is not None:
        wrong |= bad
    return found // tick, wrong if wrong.any() else None
