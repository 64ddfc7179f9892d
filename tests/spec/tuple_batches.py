"""Batches that hold nothing but tuples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.engine.stream.items import TUPLE, Items


def items(tuples: pa.RecordBatch, first: int = 0, at: int | None = None) -> Items:
    """The events from number `first` on, all `at` one time, or each at the nanosecond of its number."""
    count = tuples.num_rows
    number, none = np.arange(first, first + count), np.zeros(count, np.int32)
    times = number if at is None else np.full(count, at)
    return Items(number, times, np.full(count, TUPLE, np.int8), none, none - 1, pa.array([], pa.binary()), tuples)
