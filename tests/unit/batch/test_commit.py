"""When the process beside the driver writes a batch again, and when it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sluice.batch import commit as committing
from sluice.kafka.batch_writer import WriterSettings
from sluice.kafka.kafka_errors import FencedError, HungError, UnavailableError, WriteError
from sluice.kafka.requests import RETRY_TIMEOUT_S

SETTINGS = WriterSettings((), "query", "id")


class Writer:
    """Takes `seconds` for each attempt, which ends with the next of `results`: an error, or None.

    `new` is whether the ledger does not have the batch yet.
    """

    def __init__(self, *results, seconds=1.0, new=True):
        self.results, self.seconds, self.now, self.attempts = list(results), seconds, 0.0, 0
        self.new = new

    def write(self, *_, before):
        self.attempts += 1
        self.now += self.seconds
        error = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if error is not None:
            raise error
        return self.new

    def sleep(self, seconds):
        self.now += seconds


class Gathered:
    report, too_large, size = "report", None, 0

    def records(self):
        return iter(())


@pytest.fixture
def commit(monkeypatch):
    def run(writer):
        monkeypatch.setattr(committing, "writer", lambda _: writer)
        monkeypatch.setattr(committing, "BatchResult", lambda *_, **__: Gathered())
        monkeypatch.setattr(committing, "settings_of", lambda _: SETTINGS)
        monkeypatch.setattr(committing, "time", writer_time(writer))
        monkeypatch.setattr(committing, "planned", lambda *_: SimpleNamespace(time=0))
        monkeypatch.setattr(committing, "in_memory", lambda _, rows: rows)
        monkeypatch.setattr(committing, "remove_files", lambda *_: None)
        return committing.commit(SimpleNamespace(forced=False, checkpoint="", store=None), 7, [])

    return run


def writer_time(writer):
    class Clock:
        monotonic = staticmethod(lambda: writer.now)
        sleep = staticmethod(writer.sleep)

    return Clock


def test_the_report_of_a_batch_is_known_to_who_writes_it(commit):
    assert commit(Writer(None)) == "report"
    assert commit(Writer(None, new=False)) is None


def test_a_batch_that_kafka_did_not_take_is_written_again(commit):
    writer = Writer(UnavailableError("no broker"), UnavailableError("no broker"), None)
    commit(writer)
    assert writer.attempts == 3


def test_after_a_minute_the_batch_fails(commit):
    writer = Writer(UnavailableError("no broker"), seconds=10.0)
    with pytest.raises(UnavailableError):
        commit(writer)
    assert RETRY_TIMEOUT_S < writer.now < RETRY_TIMEOUT_S + 15


@pytest.mark.parametrize("error", [FencedError("another"), WriteError("too large")])
def test_any_other_error_fails_the_batch_at_once(commit, error):
    writer = Writer(error)
    with pytest.raises(type(error)):
        commit(writer)
    assert writer.attempts == 1


def test_after_a_call_that_does_not_return_the_batch_is_written_again_with_a_new_producer(commit):
    writer = Writer(HungError("hung"), None)
    commit(writer)
    assert writer.attempts == 2


def test_a_call_that_does_not_return_within_a_minute_fails_the_batch(commit):
    writer = Writer(HungError("hung"), seconds=RETRY_TIMEOUT_S + 15)
    with pytest.raises(HungError):
        commit(writer)
    assert writer.attempts == 1
