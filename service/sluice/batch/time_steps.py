"""The tuples of a topic partition whose event time other buckets need (rule ET2).

With `lag` the watermark of a topic partition is a running maximum over its tuples; with `idle_after` it depends on when
they came; and the stream time of a slidingTime window is a running maximum, too. So a bucket gets, in place of each
tuple of another bucket that moves one of these, the time of the tuple at its place in the order: a STEP.

More tuples than necessary may be chosen, because the engine decides which of them move anything. `max_future` depends
on the operator clock, which is not known here: a tuple that may be too far ahead is chosen, and hides no other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.engine.stream.event_times import ahead_of
from sluice.engine.stream.items import TUPLE
from sluice.model.spec import UNLIMITED, Stream
from sluice.model.spreading import SharedTime
from sluice.time_units import MAX_TIME, UNSET


class Steps(NamedTuple):
    """By tuple: whether other buckets get its time, and this time in nanoseconds since 1970. UNSET is no time, and
    MAX_TIME a time that is ahead of every clock.
    """

    chosen: np.ndarray
    times: np.ndarray


def steps_of(
    stream: Stream, shared: SharedTime | None, kinds: np.ndarray, stamps: np.ndarray, tuples: pa.RecordBatch
) -> Steps | None:
    """The steps (ET2) among consecutive rows of a topic partition; None if the buckets need none.

    kinds    the kind of each row
    stamps   the time of each row, nanoseconds since 1970, which never decreases
    tuples   the attributes of the TUPLE rows
    """
    event_time = stream.event_time
    if shared is None or event_time is None:
        return None
    is_tuple = kinds == TUPLE
    most = None if event_time.max_future in (None, UNLIMITED) else event_time.max_future
    times, ahead = ahead_of(tuples, event_time, dict(stream.row_schema)[event_time.attribute], stamps[is_tuple], most)
    chosen = ahead.copy()
    if shared.advances:
        chosen |= _rising(np.where(ahead, UNSET, times), times)
    if shared.idle_after is not None:
        usable = ~is_tuple
        usable[is_tuple] = ~ahead
        chosen |= _around_silences(stamps, np.flatnonzero(usable), shared.idle_after)[is_tuple]
    return Steps(chosen, np.where(ahead & (times == UNSET), MAX_TIME, times))


def _rising(accepted: np.ndarray, times: np.ndarray) -> np.ndarray:
    """A mask of the times that are above all accepted times before them."""
    if not len(times):
        return np.zeros(0, np.bool_)
    before = np.concatenate([[UNSET], np.maximum.accumulate(accepted)[:-1]])
    above: np.ndarray = times > before
    return above


def _around_silences(stamps: np.ndarray, rows: np.ndarray, idle_after: int) -> np.ndarray:
    """A mask of the rows that show when the topic partition was silent: the first and the last one of `rows` in each
    half of `idle_after`. Two of these that follow each other are closer than `idle_after`, unless no row is between
    them.
    """
    shows = np.zeros(len(stamps), np.bool_)
    if len(rows):
        new = np.diff(stamps[rows] // max(1, idle_after // 2)) != 0
        shows[rows[np.append(True, new)]] = True
        shows[rows[np.append(new, True)]] = True
    return shows
