"""The followers of a ledger share a client; what they do at errors that are not Kafka's."""

from __future__ import annotations

import logging
import queue

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.kafka import ledger_follower
from sluice.kafka.batch_report import Entry, Report
from sluice.kafka.ledger_follower import Follower
from tests.unit.test_processes import await_true

NOWHERE = {"bootstrap.servers": "nowhere:1"}


class Message:
    def __init__(self, offset, value, query=b"q"):
        self._offset, self._value, self._query = offset, value, query

    def error(self):
        return None

    def key(self):
        return self._query

    def value(self):
        return self._value

    def offset(self):
        return self._offset


class Consumer:
    """A consumer of the ledger topic, as far as the follower uses it. An error among the messages is raised."""

    def __init__(self, messages):
        self.messages, self.assigned = messages, []

    def assign(self, places):
        self.assigned += [place.offset for place in places]

    def poll(self, seconds):
        try:
            message = self.messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(message, Exception):
            raise message
        return message

    def close(self):
        pass


def entry(batch):
    return Entry("q", "id", batch, 1, 0, Report()).to_json()


@pytest.fixture
def ledger(monkeypatch):
    """The messages of the topic, and the consumers that were made to read them."""
    messages, consumers = queue.Queue(), []

    def consumer(_):
        consumers.append(Consumer(messages))
        return consumers[-1]

    monkeypatch.setattr(ledger_follower, "send_request", lambda *_: 40)
    monkeypatch.setattr(ledger_follower, "Consumer", consumer)
    monkeypatch.setattr(ledger_follower, "PAUSE", 0.0)
    return messages, consumers


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_queries_share_a_client_and_each_gets_its_own_entries(ledger):
    messages, consumers = ledger
    ours, others = queue.Queue(), queue.Queue()
    with Follower(NOWHERE, "q", ours.put), Follower(NOWHERE, "other", others.put):
        messages.put(Message(40, entry(6)))
        messages.put(Message(41, entry(1), b"other"))
        messages.put(Message(42, entry(7)))
        assert [ours.get(timeout=30).batch for _ in range(2)] == [6, 7]
        assert others.get(timeout=30).batch == 1
        assert (ours.empty(), others.empty()) == (True, True)
    assert len(consumers) == 1


def test_a_later_query_reads_from_its_own_start_and_the_others_see_no_entry_twice(ledger):
    messages, consumers = ledger
    ours, others = queue.Queue(), queue.Queue()
    with Follower(NOWHERE, "q", ours.put):
        messages.put(Message(40, entry(6)))
        assert ours.get(timeout=30).batch == 6
        with Follower(NOWHERE, "other", others.put):
            await_true(lambda: consumers[0].assigned == [40, 40])
            for message in (Message(40, entry(6)), Message(41, entry(1), b"other"), Message(42, entry(7))):
                messages.put(message)
            assert (ours.get(timeout=30).batch, others.get(timeout=30).batch) == (7, 1)
    assert len(consumers) == 1


def test_a_query_that_has_stopped_gets_no_entry_and_the_next_one_has_a_new_client(ledger):
    messages, consumers = ledger
    stopped, later = queue.Queue(), queue.Queue()
    with Follower(NOWHERE, "q", stopped.put):
        pass
    with Follower(NOWHERE, "q", later.put):
        messages.put(Message(40, entry(6)))
        assert later.get(timeout=30).batch == 6
    assert stopped.empty()
    assert len(consumers) == 2


def test_an_entry_that_cannot_be_read_is_logged_once_per_cause_and_left_out(ledger, caplog):
    messages, consumers = ledger
    values = [b"no JSON", b"no JSON", b"{}", entry(7)]
    for offset, value in enumerate(values, 40):
        messages.put(Message(offset, value))
    entries = queue.Queue()
    with Follower(NOWHERE, "q", entries.put):
        assert entries.get(timeout=30).batch == 7
    assert len(consumers) == 1
    assert len(warnings(caplog)) == 2
    assert "offset 40 (JSONDecodeError" in warnings(caplog)[0]
    assert "offset 42 (KeyError" in warnings(caplog)[1]


def test_an_error_of_what_takes_the_entries_does_not_end_the_follower(ledger, caplog):
    messages, consumers = ledger
    entries = queue.Queue()

    def take(one):
        if one.batch < 9:
            raise ValueError(f"batch {one.batch} cannot be counted")
        entries.put(one)

    for batch in range(6, 10):
        messages.put(Message(34 + batch, entry(batch)))
    with Follower(NOWHERE, "q", take):
        assert entries.get(timeout=30).batch == 9
    assert len(consumers) == 1
    assert len(warnings(caplog)) == 1


def test_after_any_error_of_the_client_a_new_one_goes_on_where_it_was(ledger, caplog):
    messages, consumers = ledger
    for message in (Message(40, entry(6)), RuntimeError("lost"), RuntimeError("lost"), Message(41, entry(7))):
        messages.put(message)
    entries = queue.Queue()
    with Follower(NOWHERE, "q", entries.put):
        assert [entries.get(timeout=30).batch for _ in range(2)] == [6, 7]
    assert [one.assigned for one in consumers] == [[40], [41], [41]]
    assert len(warnings(caplog)) == 1


def test_a_client_that_cannot_be_closed_does_not_end_the_follower(ledger, caplog, monkeypatch):
    """Closing one needs a thread, and no thread can be started when memory is short."""
    messages, consumers = ledger
    errors = [RuntimeError("can't start new thread")]

    def discard(clients):
        clients.clear()
        if errors:
            raise errors.pop()

    monkeypatch.setattr(ledger_follower, "discard", discard)
    for message in (KafkaException(KafkaError(KafkaError._FATAL)), Message(40, entry(6))):  # noqa: SLF001
        messages.put(message)
    entries = queue.Queue()
    with Follower(NOWHERE, "q", entries.put):
        assert entries.get(timeout=30).batch == 6
    assert [one.assigned for one in consumers] == [[40], [40]]
    assert "can't start new thread" in warnings(caplog)[1]
