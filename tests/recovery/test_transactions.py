"""A writer behind a proxy: lost answers, slow commits, and which producer writes the next batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import NewTopic

from sluice.kafka import ledger
from sluice.kafka.batch_producers import TimeLimits
from sluice.kafka.batch_report import Report
from sluice.kafka.batch_writer import TransactionalWriter
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.kafka_errors import HungError
from sluice.kafka.topics import LEDGER_CONFIG, create
from tests.recovery.harness.proxy import Proxy, proxied_broker
from tests.unit.kafka.broker_tools import visible
from tests.unit.kafka.test_batch_writer import settings, texts, values

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def network() -> Iterator[tuple[Proxy, EmbeddedBroker]]:
    with proxied_broker() as (proxy, broker):
        create({"bootstrap.servers": broker.bootstrap}, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
        yield proxy, broker


@pytest.fixture
def topic(network: tuple[Proxy, EmbeddedBroker], request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    create({"bootstrap.servers": network[1].bootstrap}, NewTopic(name, 1))
    return name


class Written(threading.Thread):
    """Writes one batch in a thread of its own."""

    def __init__(self, writer: TransactionalWriter, topic: str, batch: int) -> None:
        super().__init__(daemon=True)
        self._writer, self._topic, self._batch = writer, topic, batch
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._writer.write(self._batch, [values(self._topic, str(self._batch))], Report())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def wait(self, seconds: float) -> None:
        self.join(seconds)
        assert not self.is_alive(), f"batch {self._batch} was not written within {seconds} seconds"
        if self.error:
            raise self.error


def producer_of(writer: TransactionalWriter) -> object:
    """The producer for the next batch, None where that gets a new one."""
    return writer._producer and writer._producer.client  # noqa: SLF001


def visible_now(broker: EmbeddedBroker, topic: str) -> list[Message]:
    """What committed readers see while a transaction may be open."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tests", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append(message)
    consumer.close()
    return found


def test_a_batch_whose_answers_are_lost_for_ten_seconds_is_written_once(network, topic):
    proxy, broker = network
    writer = TransactionalWriter(settings({"bootstrap.servers": proxy.address}, topic))
    assert writer.write(0, [values(topic, "0")], Report())
    proxy.hold_answers()
    written = Written(writer, topic, 1)
    time.sleep(10)
    proxy.reset()
    proxy.resume()
    written.wait(50)
    assert writer.write(2, [values(topic, "2")], Report())
    assert texts(visible({"bootstrap.servers": broker.bootstrap}, topic)) == ["0", "1", "2"]


def test_a_call_that_never_returns_has_an_end_and_the_batch_can_be_written_again(network, topic):
    """With a re-bootstrap librdkafka waits for a coordinator that it has removed, beyond the call's time-out."""
    proxy, broker = network
    kafka = {"bootstrap.servers": proxy.address, "metadata.recovery.strategy": "rebootstrap"}
    writer = TransactionalWriter(settings(kafka, topic, times=TimeLimits(step=15, offsets=15, slack=5)))
    assert writer.write(0, [values(topic, "0")], Report())
    proxy.hold_answers()
    written = Written(writer, topic, 1)
    time.sleep(10)
    proxy.reset()
    proxy.resume()
    with pytest.raises(HungError, match="cannot send offsets: the Kafka client did not return within 20 seconds"):
        written.wait(60)
    assert writer.write(1, [values(topic, "1")], Report())
    assert texts(visible({"bootstrap.servers": broker.bootstrap}, topic)) == ["0", "1"]


def test_a_quick_commit_keeps_its_producer(network, topic):
    proxy, _ = network
    writer = TransactionalWriter(settings({"bootstrap.servers": proxy.address}, topic))
    assert writer.write(0, [values(topic, "0")], Report())
    first = producer_of(writer)
    assert writer.write(1, [values(topic, "1")], Report())
    assert producer_of(writer) is first is not None


def test_after_a_slow_commit_the_next_batch_gets_a_new_producer(network, topic, caplog):
    proxy, broker = network
    kafka = {"bootstrap.servers": proxy.address}
    writer = TransactionalWriter(settings(kafka, topic, times=TimeLimits(slow_commit=0.5)))
    assert writer.write(0, [values(topic, "0")], Report())
    proxy.delay(answers=0.8)
    assert writer.write(1, [values(topic, "1")], Report())
    proxy.resume()
    assert producer_of(writer) is None
    assert "batch 1 is written; the next one gets a new producer: the commit took" in caplog.text
    assert writer.write(2, [values(topic, "2")], Report())
    assert texts(visible({"bootstrap.servers": broker.bootstrap}, topic)) == ["0", "1", "2"]


def test_after_a_lost_connection_the_next_batch_gets_a_new_producer(network, topic, caplog):
    proxy, broker = network
    writer = TransactionalWriter(settings({"bootstrap.servers": proxy.address}, topic))
    assert writer.write(0, [values(topic, "0")], Report())

    def disturbed():
        yield values(topic, "1")
        producer_of(writer).flush(10)
        proxy.reset()
        time.sleep(0.5)  # until the client has seen it

    assert writer.write(1, disturbed(), Report())
    assert producer_of(writer) is None
    assert "the next one gets a new producer: the client reported: " in caplog.text
    assert writer.write(2, [values(topic, "2")], Report())
    assert texts(visible({"bootstrap.servers": broker.bootstrap}, topic)) == ["0", "1", "2"]


def test_a_late_commit_of_a_producer_that_was_thrown_away_is_refused(network, topic):
    """Its epoch is an old one, so it cannot end a transaction of its successor."""
    proxy, broker = network
    kafka = {"bootstrap.servers": proxy.address}
    writer = TransactionalWriter(settings(kafka, topic, times=TimeLimits(slow_commit=0.0)))
    kept = []

    def keeping():
        kept.append(producer_of(writer))
        yield values(topic, "0")

    assert writer.write(0, keeping(), Report())

    def late():
        yield values(topic, "1")
        producer_of(writer).flush(10)
        kept[0].begin_transaction()
        kept[0].produce(topic, b"late")
        with pytest.raises(KafkaException, match=r"_FENCED|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            kept[0].commit_transaction(20)
        assert texts(visible_now(broker, topic)) == ["0"]

    assert writer.write(1, late(), Report())
    assert texts(visible({"bootstrap.servers": broker.bootstrap}, topic)) == ["0", "1"]
