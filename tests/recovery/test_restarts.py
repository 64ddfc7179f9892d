"""A service with time windows, whose clock also moves while no record comes, while three brokers restart in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recovery.harness.embedded_cluster import EmbeddedCluster
from tests.recovery.harness.service import Service
from tests.recovery.harness.steady_source import appended, send_one

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FILE = """
streams:
  in: {schema: {k: string, v: int64}}
  seconds: {marks: none}
operators:
  - name: seconds
    aggregate: in
    window: tumbling, time(1.0), partitioned
    partition_by: [k]
    output: {seconds: {k: k, all: Collect(v)}}
buckets: 1
"""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as one:
        yield one


def test_e11_windows_fire_during_a_rolling_restart_of_three_brokers(cluster, services):
    service = services(FILE, kafka={"bootstrap.servers": cluster.bootstrap})
    service.create("in", partitions=1, **{"message.timestamp.type": "LogAppendTime"})
    service.create("seconds")
    service.start()
    send_and_await(service)
    for broker in cluster.brokers:
        cluster.restart(broker)
        send_and_await(service)
    service.end()


def send_and_await(service: Service) -> None:
    """The window of the tuple fires although no record comes after it, and no earlier window fires again."""
    send_one(service)
    service.await_outputs(expected=service.expected(appended(service)))
