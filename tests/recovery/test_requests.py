"""What asks Kafka goes on after the broker was restarted, and after it was frozen for longer than clients wait."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.kafka import ledger
from sluice.kafka.batch_report import Report
from sluice.kafka.batch_writer import TransactionalWriter
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.kafka_errors import UnavailableError
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.range_reader import ends
from sluice.kafka.requests import clients
from sluice.kafka.topics import LEDGER_CONFIG, create
from tests.unit.kafka.test_batch_writer import settings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
FROZEN = 15


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        create({"bootstrap.servers": one.bootstrap}, NewTopic("t", 1))
        create({"bootstrap.servers": one.bootstrap}, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
        yield one


def send(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x")
    assert producer.flush(60) == 0


def test_the_ends_of_logs_are_known_after_restarts_and_a_freeze(broker):
    """One AdminClient answers FENCED_LEADER_EPOCH or `_NOENT` from then on."""
    requests, places = clients({"bootstrap.servers": broker.bootstrap}, "admin"), [("t", 0)]
    (before,) = ends(requests, places).values()
    for count in (1, 2):
        broker.terminate()
        broker.restart()
        send(broker)
        assert ends(requests, places) == {("t", 0): before + count}
    broker.freeze()
    time.sleep(FROZEN)
    broker.thaw()
    send(broker)
    assert ends(requests, places) == {("t", 0): before + 3}


def test_a_follower_goes_on_where_it_was(broker):
    kafka, entries = {"bootstrap.servers": broker.bootstrap}, queue.Queue()
    with Follower(kafka, "q", entries.put):
        TransactionalWriter(settings(kafka, "q")).write(0, [], Report())
        assert entries.get(timeout=60).batch == 0
        broker.terminate()
        broker.restart()
        TransactionalWriter(settings(kafka, "q")).write(1, [], Report())
        assert entries.get(timeout=60).batch == 1
        broker.freeze()
        time.sleep(FROZEN)
        broker.thaw()
        TransactionalWriter(settings(kafka, "q")).write(2, [], Report())
        assert entries.get(timeout=60).batch == 2


def test_a_broker_that_stays_away_is_an_error_after_the_time_for_retries(broker):
    requests = clients({"bootstrap.servers": broker.bootstrap}, "admin", retry_s=3)
    ends(requests, [("t", 0)])
    broker.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="cannot list the ends of topic partitions: "):
            ends(requests, [("t", 0)])
        assert time.monotonic() - began < 60
    finally:
        broker.thaw()
