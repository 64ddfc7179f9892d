"""After which commits a producer is thrown away."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.kafka import batch_producers, ledger
from sluice.kafka.batch_producers import ExactlyOnce, TimeLimits, late_copy_reason

LOST = KafkaError(KafkaError._TRANSPORT, "connection reset by peer")


def test_a_quick_commit_without_trouble_keeps_its_producer():
    assert late_copy_reason(1, 3.0, [], slow=3.0) == ""


def test_a_commit_that_was_slow_repeated_or_disturbed_does_not():
    assert late_copy_reason(2, 0.1, [], slow=3.0) == "the commit needed 2 attempts"
    assert late_copy_reason(1, 3.1, [], slow=3.0) == "the commit took 3.1 seconds"
    assert late_copy_reason(1, 0.1, [LOST], slow=3.0) == "the client reported: connection reset by peer"


def test_a_producer_that_cannot_start_transactions_is_dropped_in_a_thread_of_its_own(monkeypatch):
    """Dropping it may block while a broker does not answer."""
    dropped_in = []

    class Producer:
        def __init__(self, _):
            pass

        @staticmethod
        def init_transactions(_):
            raise KafkaException(LOST)

        def __del__(self):
            dropped_in.append(threading.current_thread().name)

    monkeypatch.setattr(batch_producers, "Producer", Producer)
    monkeypatch.setattr(ledger, "group_member", lambda *_: Mock())
    with pytest.raises(KafkaException):
        ExactlyOnce({"bootstrap.servers": "localhost:1"}, "q", [], TimeLimits())
    assert dropped_in == ["sluice-discard"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, 15_000), ({"transaction.timeout.ms": "9000"}, 9000), ({"socket.timeout.ms": "800"}, 800)],
)
def test_no_request_waits_longer_than_a_transaction_may_take(monkeypatch, given, expected):
    properties = []
    monkeypatch.setattr(batch_producers, "Producer", lambda some: properties.append(some) or Mock())
    monkeypatch.setattr(ledger, "group_member", lambda *_: Mock())
    ExactlyOnce({"bootstrap.servers": "localhost:1"} | given, "q", [], TimeLimits())
    assert properties[0]["socket.timeout.ms"] == expected


def made(monkeypatch, client):
    monkeypatch.setattr(batch_producers, "Producer", lambda _: client)
    monkeypatch.setattr(ledger, "group_member", lambda *_: Mock())
    return ExactlyOnce({"bootstrap.servers": "localhost:1"}, "q", [], TimeLimits())


def test_a_transaction_that_has_failed_names_the_reason_at_the_next_request(monkeypatch):
    """The client library says of the first call only that its state is wrong, and of the next one why."""
    gone, state = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone"), KafkaError(KafkaError._STATE)
    client = Mock()
    client.send_offsets_to_transaction.side_effect = [KafkaException(state), KafkaException(gone)]
    producer = made(monkeypatch, client)
    producer.begin(Mock())
    with pytest.raises(KafkaException) as raised:
        producer.finish()
    assert producer.reason(raised.value.args[0]) is gone
    client.commit_transaction.assert_not_called()


def test_the_offset_is_sent_beside_the_records(monkeypatch):
    """Its two requests to the brokers would else prolong each batch."""
    sent, client = threading.Event(), Mock()
    client.send_offsets_to_transaction.side_effect = lambda *_: sent.wait(10)
    producer = made(monkeypatch, client)
    producer.begin(Mock())
    client.commit_transaction.assert_not_called()
    sent.set()
    producer.finish()
    client.commit_transaction.assert_called_once()
