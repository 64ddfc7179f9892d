from __future__ import annotations

from contextlib import suppress

import pytest

from sluice.batch.query_plan import Plan
from sluice.kafka.kafka_errors import HungError, UnavailableError
from sluice.spark import sink
from sluice.spark.sink import TaskOutput, Writer


@pytest.fixture
def writer(monkeypatch):
    """Commits the outputs of two tasks. Returns what was written, and the seconds until the process ends."""

    def run(error):
        ends, rows = [], []

        def commit(_, batch, packed):
            rows.append((batch, packed))
            if error:
                raise error

        monkeypatch.setattr(sink, "commit", commit)
        monkeypatch.setattr(sink, "end_soon", ends.append)
        plan = Plan.__new__(Plan)
        with suppress(UnavailableError):
            Writer(plan).commit([TaskOutput([(0, b"a")]), None, TaskOutput([(1, b"b")])], 7)
        return rows, ends

    return run


def test_the_outputs_of_all_tasks_are_written_together(writer):
    assert writer(None) == ([(7, [(0, b"a"), (1, b"b")])], [])


def test_a_call_that_does_not_return_ends_the_process_and_reports_that_first(writer):
    assert writer(HungError("hung"))[1] == [sink.REPORT]


def test_an_unreachable_broker_does_not_end_the_process(writer):
    assert writer(UnavailableError("no broker"))[1] == []
