"""A service with time windows, whose clock also moves while no record comes, while its brokers restart and freeze."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker, EmbeddedCluster
from tests.recovery.kafka_service import Outputs, Running, Source

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
streams:
  in: {topic: in, schema: {key: string, number: int64}}
  out: {topic: out}
operators:
  - name: seconds
    aggregate: in
    window: tumbling, time(1.0), partitioned
    partition_by: [key]
    output: {out: {key: key, all: Collect(number)}}
buckets: 1
"""


class Fired:
    """The windows that have fired. The clock has to move for each, as the last record waits for its window's end."""

    def __init__(self, service: Running, source: Source, outputs: Outputs) -> None:
        self._service, self._source, self._outputs = service, source, outputs

    def numbers(self) -> list[int]:
        return [number for one in self._outputs.read() for number in one["all"]]

    def send_and_await(self) -> None:
        self._source.send()
        self.wait()

    def wait(self) -> None:
        """All that was sent has come out once, though nothing comes after it."""
        expected = list(range(self._source.stop()))
        self._service.await_true(lambda: len(self.numbers()) >= len(expected))
        assert self.numbers() == expected


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as one:
        yield one


def start(folder: Path, direct: str) -> tuple[Running, Fired]:
    service = Running(folder, {"bootstrap.servers": direct}, direct, PIPELINE)
    service.start()
    return service, Fired(service, Source(direct), Outputs(direct))


def test_windows_fire_after_a_restart_and_a_freeze_of_the_broker(broker, tmp_path):
    service, fired = start(tmp_path, broker.bootstrap)
    try:
        fired.send_and_await()
        broker.terminate()
        broker.restart()
        fired.send_and_await()
        broker.freeze()
        time.sleep(15)
        broker.thaw()
        fired.send_and_await()
        service.end()
    finally:
        service.kill()


def test_windows_fire_during_a_rolling_restart_of_three_brokers(cluster, tmp_path):
    service, fired = start(tmp_path, cluster.bootstrap)
    try:
        fired.send_and_await()
        for broker in cluster.brokers:
            cluster.restart(broker)
            fired.send_and_await()
        service.end()
    finally:
        service.kill()
