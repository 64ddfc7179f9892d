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


def test_a_transaction_that_fails_while_its_offset_is_sent_names_the_reason(monkeypatch):
    """The client library says of that call only that its state is wrong, and of the next one why."""
    gone = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "Unknown topic or partition")
    client = Mock()
    client.send_offsets_to_transaction.side_effect = [
        KafkaException(KafkaError(KafkaError._STATE)),
        KafkaException(gone),
    ]
    monkeypatch.setattr(batch_producers, "Producer", lambda _: client)
    monkeypatch.setattr(ledger, "group_member", lambda *_: Mock())
    producer = ExactlyOnce({"bootstrap.servers": "localhost:1"}, "q", [], TimeLimits())
    with pytest.raises(KafkaException, match="Unknown topic or partition"):
        producer.finish(Mock())
    client.commit_transaction.assert_not_called()
