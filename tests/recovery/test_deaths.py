"""Processes of a running service are killed: the service goes on, or nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.recovery.running import PATIENCE, Running, running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

KEYS, STEP = 5, 50
#: seconds that the processes of a killed service may live on
LINGER = 10.0


class Counting:
    """A service that counts the records of each key; its topics are named after `name`."""

    def __init__(self, broker, folder, name):
        self._name, self.sent = name, 0
        self._kafka = {"bootstrap.servers": broker}
        admin = AdminClient(self._kafka)
        admin.create_topics([NewTopic(f"{name}.in", 1)])[f"{name}.in"].result()
        self.service = Running(folder, {
            "pipeline": name, "kafka": self._kafka, "buckets": 2, "max_records_per_batch": 20,
            "streams": {
                "in": {"topic": f"{name}.in", "schema": {"k": "string", "v": "int64"}},
                "out": {"topic": f"{name}.out", "partitions": 1, "marks": "none"},
            },
            "operators": [{
                "name": "counts", "aggregate": "in", "window": "sliding, count(1000000), count(1), partitioned",
                "partition_by": ["k"], "aggregate_incomplete_windows": True,
                "output": {"out": {"k": "k", "v": "Last(v)", "n": "Count()"}},
            }],
        })  # fmt: skip
        self._found = []
        self._consumer = None

    def send(self):
        """Some more records."""
        producer = Producer(self._kafka)
        for number in range(self.sent, self.sent + STEP):
            value = {"k": f"key {number % KEYS}", "v": number}
            producer.produce(f"{self._name}.in", json.dumps(value), value["k"])
        assert producer.flush(30) == 0
        self.sent += STEP

    def await_outputs(self):
        """One for each record that was sent."""
        if self._consumer is None:
            own = {"group.id": "tests", "isolation.level": "read_committed", "enable.auto.commit": False}
            self._consumer = Consumer(self._kafka | own)
            self._consumer.assign([TopicPartition(f"{self._name}.out", 0, 0)])
        deadline = time.monotonic() + PATIENCE
        while len(self._found) < self.sent:
            assert time.monotonic() < deadline, self.service.log()
            assert self.service.process.exit_code is None, self.service.log()
            self._found += [json.loads(one.value()) for one in self._consumer.consume(1000, 0.2) if not one.error()]

    def check(self):
        """Each output is there once, and what it must be."""
        expected = [{"k": f"key {n % KEYS}", "v": n, "n": n // KEYS + 1} for n in range(self.sent)]
        self._found += [json.loads(one.value()) for one in self._consumer.consume(1000, 2) if not one.error()]
        assert sorted(self._found, key=lambda one: one["v"]) == expected


def kill(pids):
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_service_outlives_its_workers_and_its_pool(broker, tmp_path):
    counting = Counting(broker, tmp_path, "deaths")
    service = counting.service
    counting.send()
    service.start()
    try:
        counting.await_outputs()
        for victims in (
            service.workers,
            service.keepers,
            lambda: service.pools()[-1:],
            service.pools,
            service.daemons,
            lambda: [*service.workers(), *service.pools()],
        ):
            kill(victims())
            counting.send()
            counting.await_outputs()
            counting.send()
            time.sleep(0.3)  # in the midst of a batch
            kill(victims())
            counting.await_outputs()
        service.end()
    finally:
        service.kill()
    counting.check()


def test_nothing_is_left_of_a_service_that_was_killed(broker, tmp_path):
    counting = Counting(broker, tmp_path, "orphans")
    service = counting.service
    counting.send()
    service.start()
    try:
        counting.await_outputs()
        counting.send()
        # The shell that holds the service for this test stays until the test lets it go.
        left = {pid: command for pid, command in service.descendants().items() if "exec 3<&0" not in command}
        assert service.keepers()
        os.kill(service.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + LINGER
        while alive := [left[pid] for pid in left if running(pid)]:
            assert time.monotonic() < deadline, alive
            time.sleep(0.05)
    finally:
        service.kill()
