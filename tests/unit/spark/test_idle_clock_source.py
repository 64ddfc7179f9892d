from __future__ import annotations

import json
import threading

import pytest

from sluice.kafka.kafka_errors import UnavailableError
from sluice.spark.idle_clock import beside

pytestmark = pytest.mark.spark


class Clock:
    """Its time, or the error that it raises, is `now`."""

    def __init__(self, now: int):
        self.now = now

    def released(self, last: int) -> int:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    def standstill(self) -> float:
        return 1.5


@pytest.fixture
def batches(spark, tmp_path):
    """Runs a query without records, one after the other at these times of its idle clock. Returns number, number of
    records and time of each batch that Spark has planned.
    """
    (tmp_path / "in").mkdir()
    checkpoint = tmp_path / "checkpoint"

    def run(times, last):
        clock, found, callers, waits = Clock(last), [], set(), set()
        records = spark.readStream.schema("n int").json(str(tmp_path / "in"))

        def note(rows, batch):
            entry = (checkpoint / "offsets" / str(batch)).read_text()
            found.append((batch, rows.count(), json.loads(entry.splitlines()[-1])["pulse"]))

        query = (
            beside(records, clock, last, spark, lambda: callers.add(threading.get_ident()), wait=waits.add)
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        try:
            for clock.now in times:
                query.processAllAvailable()
        finally:
            query.stop()
        assert len(callers) == 1, "Spark's thread of the query"
        assert waits == {1.5}, "it waits only while there is no new time"
        return found

    return run


def test_each_new_time_is_a_batch_without_records(batches):
    assert batches([0, 5, 5, 9], last=0) == [(0, 0, 0), (1, 0, 5), (2, 0, 9)]


def test_the_time_stands_still_while_kafka_does_not_answer(batches):
    assert batches([0, UnavailableError("no broker"), 5], last=0) == [(0, 0, 0), (1, 0, 5)]


def test_a_query_that_starts_again_goes_on_from_the_time_of_its_last_batch(batches):
    batches([0, 5], last=0)
    assert batches([5, 7], last=5) == [(2, 0, 7)]
