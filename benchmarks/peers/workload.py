"""The workloads that all systems run, and what their outputs must add up to.

Record `i` has the key `k<i mod keys>`, the value `(i * 7919 mod 1000) / 10`, and the event time `START + i` ms.
An output of a window has n (number of records), s (sum of v) and m (maximum of v).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: milliseconds since 1970 of the first record; a multiple of 10 s, so that windows of all systems begin there
START = 1_700_000_000_000
#: milliseconds of event time that a time window or a join covers
SPAN = 10_000
#: records that a count window covers
LAST = 100
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of outputs, and the sums of n, s and m over all outputs. `sums` is None
    where outputs have no n, s, m, or where the sums of them are not checked."""

    outputs: int
    sums: tuple[float, float, float] | None = None

    def satisfies(self, expected: Totals) -> bool:
        """Whether the outputs are the expected ones; sums of float64 may differ by their rounding."""
        if self.outputs != expected.outputs:
            return False
        return expected.sums is None or (self.sums is not None and np.allclose(self.sums, expected.sums, rtol=1e-6))


@dataclass(frozen=True, slots=True)
class Workload:
    """A query that all systems run.

    name      word by which the programs of the systems know it
    title     text of the table
    inputs    number of input topics; all of them hold the same records
    expected  totals of the outputs, from the number of records of a topic and the number of keys
    tail      further records behind the last complete window, so that this window closes; from the number of keys
    flushed   totals of a system that also gives the window of the tail when its input ends; None if there is no tail
    """

    name: str
    title: str
    expected: Callable[[int, int], Totals]
    inputs: int = 1
    tail: Callable[[int], int] = lambda _: 0
    flushed: Callable[[int, int], Totals] | None = None


def values(records: int) -> Values:
    """The attribute v of the first records."""
    return ((np.arange(records, dtype=np.int64) * 7919) % 1000) / 10


def _tail(keys: int) -> int:
    """Each key has a record in the window that stays open, whatever topic partition its records are in."""
    return max(keys, 2000)


def _each_record(records: int, _: int) -> Totals:
    return Totals(records)


def _tumbling_time(records: int, keys: int) -> Totals:
    """Totals of the complete windows. `records` does not include the tail."""
    if records % SPAN or SPAN % keys:
        raise ValueError(f"the records must be a multiple of {SPAN}, and {SPAN} a multiple of the keys")
    windows = values(records).reshape(records // SPAN, SPAN // keys, keys)
    return Totals(len(windows) * keys, (records, float(windows.sum()), float(windows.max(axis=1).sum())))


def _tumbling_flushed(records: int, keys: int) -> Totals:
    complete = _tumbling_time(records, keys)
    open_ = values(records + _tail(keys))[records:].reshape(-1, keys)
    n, s, m = complete.sums or (0, 0, 0)
    return Totals(complete.outputs + keys, (n + open_.size, s + open_.sum(), m + open_.max(axis=0).sum()))


def _tumbling_count(records: int, keys: int) -> Totals:
    outputs, n, s, m = 0, 0, 0.0, 0.0
    for key in range(min(keys, records)):
        of_key = _of_key(records, keys, key)
        windows = of_key[: len(of_key) // LAST * LAST].reshape(-1, LAST)
        outputs, n, s = outputs + len(windows), n + windows.size, s + windows.sum()
        m += windows.max(axis=1).sum() if len(windows) else 0.0
    return Totals(outputs, (n, s, m))


def _sliding(length: Callable[[int], int]) -> Callable[[int, int], Totals]:
    """An output for each record, over the last records of its key. `length`: their number, from the number of keys."""

    def expected(records: int, keys: int) -> Totals:
        n, s, m = 0, 0.0, 0.0
        for key in range(min(keys, records)):
            of_key, covered = _of_key(records, keys, key), length(keys)
            end = np.arange(1, len(of_key) + 1)
            begin = np.maximum(0, end - covered)
            before = np.concatenate(([0.0], np.cumsum(of_key)))
            n, s = n + int((end - begin).sum()), s + float((before[end] - before[begin]).sum())
            m += float(_running_maximum(of_key, covered).sum())
        return Totals(records, (n, s, m))

    return expected


def _join(records: int, keys: int) -> Totals:
    """Pairs of records of one key that are at most SPAN apart; the records of a key are `keys` milliseconds apart."""
    outputs, reach = 0, SPAN // keys
    for key in range(min(keys, records)):
        index = np.arange(len(_of_key(records, keys, key)))
        last = np.minimum(len(index) - 1, index + reach)
        outputs += int((last - np.maximum(0, index - reach) + 1).sum())
    return Totals(outputs)


def _of_key(records: int, keys: int, key: int) -> Values:
    index = np.arange(key, records, keys, dtype=np.int64)
    return ((index * 7919) % 1000) / 10


def _running_maximum(column: Values, covered: int) -> Values:
    """For each row the maximum of it and of the `covered - 1` rows before it."""
    first = np.maximum.accumulate(column[:covered])
    if len(column) <= covered:
        return first
    rest = np.lib.stride_tricks.sliding_window_view(column, covered)[1:].max(axis=1)
    return np.concatenate((first, rest))


WORKLOADS = {
    one.name: one
    for one in (
        Workload("pass", "pass-through", _each_record),
        Workload("tumble", "tumbling 10 s", _tumbling_time, tail=_tail, flushed=_tumbling_flushed),
        Workload("count", f"tumbling count({LAST})", _tumbling_count),
        Workload("slide", f"sliding count({LAST}), an output per record", _sliding(lambda _: LAST)),
        Workload("slidetime", "sliding time 10 s, an output per record", _sliding(lambda keys: SPAN // keys + 1)),
        Workload("join", "join within 10 s", _join, inputs=2),
    )
}
