"""The records of `make chaos`: numbered tuples to several topic partitions, as long as the campaign lasts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from confluent_kafka import Producer

from sluice.kafka.client import client_properties
from tests.chaos.flows import Flow, Sent
from tests.recovery.harness.output_reader import topic_partition
from tests.recovery.harness.waiting import wait_until

#: topic partitions of each topic
TOPIC_PARTITIONS = 3
#: a record that comes in no topic partition within this time is a fault of the campaign, not of the service
DELIVERY_MS = 300_000


class Load:
    """Sends records of all flows at a rate, from a thread. `sent` has them in the order in which they were sent."""

    def __init__(self, kafka: Mapping[str, str], prefix: str, flows: Sequence[Flow], seed: int, rate: float) -> None:
        """`rate`: records a second, of all flows together, on average."""
        own = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": DELIVERY_MS}
        self._producer = Producer(client_properties(kafka, "producer") | own)
        self._prefix, self._flows, self._rate = prefix, flows, rate
        self._random = random.Random(seed)
        self.sent: dict[Flow, list[Sent]] = {flow: [] for flow in flows}
        self.failed: list[str] = []
        #: the streams whose topics have one topic partition more by now
        self.grown: set[str] = set()
        #: seconds from the time at which a record without event time is sent to its timestamp
        self.clock = 0.0
        #: the input of the operator that comes and goes, empty if none fits; and how often it came or went
        self.extra, self.changes = next((flow.inputs[0] for flow in flows if flow.numbered), ""), 0
        self._timed = {name for flow in flows for name, stream in flow.streams.items() if "event_time" in stream}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def send_before(self) -> None:
        """The records that are there before the service starts."""
        for flow in self._flows:
            for record in flow.before():
                self._send(flow, record)
        self._flush()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """No further records, but for the last ones, which end all windows. Returns when the brokers have all."""
        self._over.set()
        self._thread.join()
        for flow in self._flows:
            for record in flow.last(time.time()):
                for number in range(TOPIC_PARTITIONS + (record.stream in self.grown)):
                    self._produce(record, number)
        self._flush()
        assert not self.failed, self.failed[:3]

    @property
    def count(self) -> int:
        return sum(map(len, self.sent.values()))

    def _run(self) -> None:
        """Bursts and pauses: the service has small batches, large ones, and none."""
        while not self._over.is_set():
            burst = self._random.choice([1, 1, 5, 20, 100])
            for _ in range(burst):
                flow = self._random.choice(self._flows)
                self._send(flow, flow.record(time.time()))
            self._producer.poll(0)
            self._over.wait(self._random.expovariate(1) * burst / self._rate)

    def _send(self, flow: Flow, record: Sent) -> None:
        self.sent[flow].append(record)
        self._produce(record, topic_partition(record.key, TOPIC_PARTITIONS))

    def _produce(self, record: Sent, number: int) -> None:
        while True:
            with suppress(BufferError):
                topic = f"{self._prefix}.{record.stream}"
                at = 0 if record.stream in self._timed else int((time.time() + self.clock) * 1000)
                self._producer.produce(topic, record.data, record.key or None, number, self._delivered, timestamp=at)
                return
            self._producer.poll(0.5)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))

    def _flush(self) -> None:
        wait_until(lambda: self._producer.flush(1) == 0, "the brokers have all records", DELIVERY_MS / 1000)
