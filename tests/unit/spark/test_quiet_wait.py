from unittest.mock import Mock

import pytest

from sluice.spark.quiet_wait import MAX_S, QuietWait, WaitSource

STARTS = {("trades", 0): 7}


class Query:
    """A query whose last batch ended at second 100, and its wait for a record."""

    def __init__(self, *, rings=False):
        self.now, self.rings, self.waits, self.rested = 100.0, rings, [], 0
        self.last, self.read = 100.0, {**STARTS}
        self.quiet = QuietWait(self, lambda: {**self.read}, lambda: self.last, self.let_rest, lambda: self.now)

    def let_rest(self):
        self.rested += 1

    def wait(self, starts, seconds):
        assert starts == self.read
        self.waits.append(seconds)
        return self.rings

    def rest(self):
        """The wait for a record requests nothing."""

    def asked(self, at, standstill=60.0):
        self.now = at
        self.quiet.wait(standstill)


def test_soon_after_a_batch_spark_asks_all_the_time():
    query = Query()
    query.asked(at=101.9)
    assert (query.waits, query.rested) == ([], 0)


@pytest.mark.parametrize(
    ("at", "standstill", "seconds"),
    [(102.0, 60.0, 0.5), (110.0, 60.0, 2.5), (500.0, 60.0, MAX_S), (500.0, 0.25, 0.25)],
    ids=["a quarter of the quiet time", "so it becomes longer", "up to a bound", "not beyond a time that is due"],
)
def test_a_quiet_query_waits_for_a_record(at, standstill, seconds):
    query = Query()
    query.asked(at, standstill)
    assert (query.waits, query.rested) == ([seconds], 1)


@pytest.mark.parametrize("standstill", [0.0, -1.0])
def test_while_a_time_may_be_released_it_does_not_wait(standstill):
    query = Query()
    query.asked(500.0, standstill)
    assert query.waits == []


def test_after_a_record_has_come_spark_asks_all_the_time_again():
    query = Query(rings=True)
    query.asked(500.0)
    query.asked(501.0)
    query.asked(502.0)
    assert query.waits == [MAX_S, 0.5]


def test_after_a_batch_with_records_spark_asks_all_the_time_again():
    query = Query()
    query.asked(500.0)
    query.last, query.read = 501.0, {("trades", 0): 8}
    query.asked(502.0)
    query.asked(503.0)
    assert query.waits == [MAX_S, 0.5]


def test_a_batch_of_the_clock_alone_does_not_end_the_quiet():
    query = Query()
    query.asked(500.0)
    query.last = 501.0
    query.asked(501.1)
    assert (query.waits, query.rested) == ([MAX_S, MAX_S], 1)


def test_a_query_without_the_idle_clock_waits_in_a_source_that_never_has_an_offset():
    query, nothing, calls = Query(), object(), []
    source = WaitSource(Mock(), nothing, lambda: calls.append("called"), query.quiet)
    query.now = 500.0
    assert source.getOffset() is nothing
    assert (query.waits, calls) == ([MAX_S], ["called"])
