"""The timestamps of the records that an output topic gets: the operator clock, or an attribute (`record_timestamp`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.stream.clock import all_later
from sluice.model.spec import Stream
from sluice.model.types import TimeForm
from sluice.time_units import MILLISECOND

#: in an array of timestamps: the attribute has no time that a record can have
UNUSABLE = -1
#: the earliest timestamp: librdkafka replaces 0 by the present time, and Kafka has no negative ones
EARLIEST = 1


def of_clock(at: np.ndarray) -> np.ndarray:
    """Timestamps in milliseconds from times of the operator clock in nanoseconds.

    They are rounded up. An expiry happens 1 ns after the tuple's limit (S5); rounding down would date the output before
    its cause.
    """
    return np.maximum(-(-at // MILLISECOND), EARLIEST)  # type: ignore[no-any-return]


def of_attribute(stream: Stream, tuples: pa.RecordBatch) -> np.ndarray:
    """The timestamps in milliseconds that the attribute `record_timestamp` gives these tuples; UNUSABLE where it is
    before EARLIEST.

    A timestamp is rounded down to milliseconds. An int64 has milliseconds, or the resolution of the event time if it is
    that attribute.
    """
    values = tuples.column(stream.record_timestamp).cast(pa.int64()).to_numpy()
    stamps = values // (MILLISECOND // _unit(stream))
    return np.where(stamps < EARLIEST, UNUSABLE, stamps)


def _unit(stream: Stream) -> int:
    """Nanoseconds of one unit of the attribute."""
    if dict(stream.schema)[str(stream.record_timestamp)].time is not TimeForm.COUNT:
        return 1
    is_event_time = stream.event_time is not None and stream.event_time.attribute == stream.record_timestamp
    return stream.event_time.tick if stream.event_time is not None and is_event_time else MILLISECOND


def not_later(stamps: np.ndarray, at: np.ndarray, max_future: int) -> np.ndarray:
    """The same timestamps, UNUSABLE where one is more than `max_future` ahead of its operator clock `at` (both in
    nanoseconds).
    """
    return np.where(stamps > all_later(at, max_future) // MILLISECOND, UNUSABLE, stamps)
