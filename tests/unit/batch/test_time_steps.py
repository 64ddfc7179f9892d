"""Which tuples of a topic partition give their event times to the other buckets (ET2)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.batch.time_steps import Steps, steps_of
from sluice.engine.stream.items import TUPLE, WINDOW
from sluice.model.spec import EventTime, Stream
from sluice.model.spreading import SharedTime
from sluice.model.types import FLOAT64
from sluice.time_units import MAX_TIME, SECOND, UNSET

NAN = float("nan")


def steps(
    times: list[float | None], at: list[int] | None = None, *, max_future: int | None = None, lag: bool = True,
    idle_after: int | None = None,
) -> Steps:  # fmt: skip
    """Of tuples with these times, in seconds; None is a window mark. `at`, `idle_after` and `max_future` in seconds."""
    kinds = np.array([WINDOW if time is None else TUPLE for time in times], np.int8)
    stamps = np.array(at or range(len(times))) * SECOND
    tuples = pa.record_batch({"t": pa.array([time for time in times if time is not None], pa.float64())})
    of = EventTime("t", max_future=None if max_future is None else max_future * SECOND)
    shared = SharedTime(lag, None if idle_after is None else idle_after * SECOND)
    found = steps_of(Stream("s", (("t", FLOAT64),), event_time=of), shared, kinds, stamps, tuples)
    assert found is not None
    return found


def chosen(*args: list[float | None] | list[int], **more: int | bool | None) -> list[int]:
    """The numbers of the tuples whose times all buckets get."""
    return np.flatnonzero(steps(*args, **more).chosen).tolist()  # type: ignore[arg-type,no-any-return]


def test_times_above_all_before_them():
    assert chosen([5, 3, 5, 6, NAN, 6, 9]) == [0, 3, 6]
    assert steps([5, NAN]).times.tolist() == [5 * SECOND, UNSET]


def test_rows_around_silences():
    """Of each half of the time the first row and the last one; a mark is a row, which every bucket has in any case."""
    assert chosen([1, 1, 1, 1, 1], [0, 1, 1, 9, 9], lag=False, idle_after=4) == [0, 2, 3, 4]
    assert chosen([1, 1, None, 1], [0, 1, 1, 1], lag=False, idle_after=4) == [0, 2]
    assert chosen([2, 1, 3, 1], [0, 0, 0, 0], idle_after=4) == [0, 2, 3]


def test_tuples_that_may_be_too_far_ahead_hide_no_others():
    """At most 10 s ahead of their records, unless the operator clock is ahead of these."""
    assert chosen([5, 50, 6, 40, 7], max_future=10) == [0, 1, 2, 3, 4]
    assert chosen([5, 50, 4, 3, 3], max_future=10, idle_after=10, lag=False) == [0, 1, 4]
    assert steps([float("inf")], max_future=10).times.tolist() == [MAX_TIME]
