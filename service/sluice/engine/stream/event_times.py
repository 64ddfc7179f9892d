"""The event times of tuples as whole numbers, and which of them are too far in the future."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.json_columns import nanoseconds
from sluice.engine.stream.clock import all_later
from sluice.model.spec import EventTime
from sluice.model.types import TimeForm, Type
from sluice.time_units import MAX_TIME, UNSET

#: a float64 of seconds fits int64 nanoseconds if its magnitude is below this
MAX_SECONDS = 9_223_372_036.0
#: below this many seconds, float64 distinguishes nanoseconds
EXACT_BELOW = 4_000_000.0


def units(column: pa.Array, type_: Type) -> tuple[np.ndarray, np.ndarray | None]:
    """The event times in units of the attribute (nanoseconds for float64), and which of them are no times (None: all
    are). Null is none (NU27).
    """
    if column.null_count:
        times, bad = units(pc.fill_null(column, pa.scalar(0, column.type)), type_)
        null = column.is_null().to_numpy(zero_copy_only=False)
        return times, null if bad is None else null | bad
    if type_.time is TimeForm.SECONDS:
        return exact_nanoseconds(column.to_numpy(zero_copy_only=False))
    return column.view(pa.int64()).to_numpy(zero_copy_only=False), None


def ahead_of(
    tuples: pa.RecordBatch, event_time: EventTime, type_: Type, now: np.ndarray, most: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The event times of tuples in nanoseconds, UNSET for a value that is no time; and which are more than `most`
    ahead of the times `now` (None: none is).
    """
    column = tuples.column(event_time.attribute)
    times, bad = units(column, type_)
    if event_time.tick > 1:
        latest = MAX_TIME // event_time.tick
        times = np.clip(times, -latest, latest) * event_time.tick
    if bad is not None:
        times[bad] = UNSET
    if most is None:
        return times, np.zeros(len(times), np.bool_)
    ahead = times > all_later(now, most)
    if bad is not None:  # a float64 above the range of times is ahead of every clock; one below it, or NaN, is not
        ahead |= bad & (column.to_numpy(zero_copy_only=False) > 0)
    return times, ahead


def exact_nanoseconds(seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """For each number of seconds the nearest nanosecond of the shortest decimal that names it; and which numbers are
    NaN or out of range (None: none is).
    """
    bad = ~(np.abs(seconds) < MAX_SECONDS)
    sound = np.where(bad, 0.0, seconds) if bad.any() else seconds
    times = np.rint(sound * 1e9).astype(np.int64)
    large = np.flatnonzero(np.abs(sound) >= EXACT_BELOW)
    if len(large):
        micro = np.rint(sound[large] * 1e6)
        times[large] = micro.astype(np.int64) * 1000
        for place in large[micro / 1e6 != sound[large]].tolist():  # more than six decimals
            times[place] = nanoseconds(float(sound[place]))
    return times, bad if bad.any() else None
