"""After which commits a producer is thrown away."""

from __future__ import annotations

from confluent_kafka import KafkaError

from sluice.kafka.sessions import SLOW_COMMIT, doubt

LOST = KafkaError(KafkaError._TRANSPORT, "connection reset by peer")


def test_a_quick_commit_without_trouble_keeps_its_producer():
    assert doubt(1, SLOW_COMMIT, []) == ""


def test_a_commit_that_was_slow_repeated_or_disturbed_does_not():
    assert doubt(2, 0.1, []) == "the commit needed 2 attempts"
    assert doubt(1, SLOW_COMMIT + 0.1, []) == "the commit took 3.1 seconds"
    assert doubt(1, 0.1, [LOST]) == "the client reported: connection reset by peer"
