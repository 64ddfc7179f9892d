from __future__ import annotations

import pytest

from sluice.kafka.batch_report import Entry, Report
from sluice.page.history import MAX_BATCHES, RATE_S, History

BEGAN = 1_764_000_000.0


def rate(every: float, count: int) -> float:
    """The records read per second that are shown after `count` batches of 5 records, one in `every` seconds."""
    times = iter([BEGAN])
    history = History(lambda: next(times, BEGAN + every * count))
    for number in range(count):
        at = round(1000 * (BEGAN + every * (number + 1)))
        history.batch_written(Entry("p", "q", number, at, 0, Report(read={"in": {"tuple": 5}})))
    return history.rates().read["in"]["tuple"]


@pytest.mark.parametrize("every", [0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("count", [10, MAX_BATCHES, 5 * MAX_BATCHES])
def test_the_rate_is_that_of_the_last_minute_or_of_what_is_kept(every, count):
    """A service of small batches writes more of them in a minute than are kept."""
    assert rate(every, count) == pytest.approx(5 / every, rel=max(0.02, 1.1 * every / RATE_S))


def test_the_first_second_counts_as_a_whole_one():
    assert rate(0.05, 10) == 10 * 5


def test_nothing_was_read_in_the_last_minute():
    history = History(iter([BEGAN, BEGAN + 1000]).__next__)
    history.batch_written(Entry("p", "q", 1, round(1000 * BEGAN), 0, Report(read={"in": {"tuple": 5}})))
    assert history.rates().read == {}
