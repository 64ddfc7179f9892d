"""Which topic partitions an open transaction holds back, with answers and a clock of the test's own."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.topics import create
from sluice.spark.lanes.missing_records import HELD_S, LOOK_S, HeldBack

HELD = "topic in, topic partition 0: an open transaction of a producer hides the records from offset 5 on, 7 offsets"


class World:
    """The ends of a topic partition: for readers of committed records, and of its log."""

    def __init__(self):
        self.now, self.committed, self.end, self.asked = 0.0, 5, 5, 0
        self.held_back = HeldBack([("in", 0)], lambda: self.now)

    def list_offsets(self, wanted, *, isolation_level, **_):
        self.asked += 1
        (place,), answer = wanted, Future()
        offset = self.committed if isolation_level is IsolationLevel.READ_COMMITTED else self.end
        if offset is None:
            answer.set_exception(KafkaException(KafkaError(KafkaError.NETWORK_EXCEPTION)))
        else:
            answer.set_result(SimpleNamespace(offset=offset))
        return {place: answer}

    def passes(self, seconds):
        until = self.now + seconds
        while self.now < until:
            self.now += 1.0
            self.held_back.look(self)


@pytest.fixture
def world(caplog):
    caplog.set_level(logging.INFO, "sluice")
    return World()


def test_a_topic_partition_without_open_transactions_is_not_named(world, caplog):
    world.passes(10 * LOOK_S)
    assert caplog.text == ""
    assert world.asked <= 2 * 10


def test_a_transaction_that_stays_open_is_named_once_and_so_is_its_end(world, caplog):
    world.end = 12
    world.passes(LOOK_S + HELD_S - 2)
    assert caplog.text == ""
    world.passes(5 * LOOK_S)
    assert caplog.text.count(HELD) == 1
    assert "has ended" not in caplog.text
    world.committed = 12
    world.passes(2 * LOOK_S)
    assert caplog.text.count("the transaction that hid the records from offset 5 on has ended") == 1


def test_short_transactions_one_after_the_other_are_not_named(world, caplog):
    for _ in range(20):
        world.committed, world.end = world.end, world.end + 7
        world.passes(LOOK_S)
    assert caplog.text == ""


def test_requests_that_fail_are_repeated(world, caplog):
    world.end = None
    world.passes(5 * LOOK_S)
    world.end = 12
    world.passes(2 * LOOK_S + HELD_S)
    assert HELD in caplog.text


@pytest.mark.kafka
def test_an_open_transaction_at_a_broker_is_named_until_it_is_aborted(broker, caplog):
    caplog.set_level(logging.INFO, "sluice")
    create({"bootstrap.servers": broker}, NewTopic("held-back", 1))
    producer = Producer({"bootstrap.servers": broker, "transactional.id": "held-back"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("held-back", b"1")
    producer.flush()
    admin, clock = AdminClient({"bootstrap.servers": broker}), [0.0]
    held_back = HeldBack([("held-back", 0)], lambda: clock[0])

    def look_until(words):
        deadline = time.monotonic() + 60
        while words not in caplog.text:
            assert time.monotonic() < deadline, caplog.text
            clock[0] += 0.5
            held_back.look(admin)

    look_until(
        "topic held-back, topic partition 0: an open transaction of a producer hides the records from offset 0 on"
    )
    producer.abort_transaction(30)
    look_until("the transaction that hid the records from offset 0 on has ended")
