"""Exactly once, and a service that lives, while the network between the service and its broker fails."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import descendants
from tests.recovery.kafka_service import Outputs, Running, Source
from tests.recovery.proxy import Proxy, proxied_broker
from tests.unit.test_processes import running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
streams:
  in: {topic: in, schema: {key: string, number: int64}}
  out: {topic: out}
operators:
  - {name: copy, map: in, output: [out]}
buckets: 1
"""


@pytest.fixture
def network() -> Iterator[tuple[Proxy, EmbeddedBroker]]:
    with proxied_broker() as both:
        yield both


@pytest.fixture
def proxy(network: tuple[Proxy, EmbeddedBroker]) -> Proxy:
    return network[0]


@pytest.fixture
def direct(network: tuple[Proxy, EmbeddedBroker]) -> str:
    return network[1].bootstrap


@pytest.fixture
def service(tmp_path: Path, proxy: Proxy, direct: str) -> Iterator[Running]:
    one = Running(tmp_path, {"bootstrap.servers": proxy.address}, direct, PIPELINE)
    yield one
    one.kill()


@pytest.fixture
def outputs(service: Running, direct: str) -> Iterator[Outputs]:  # noqa: ARG001 - the service has made the topics
    one = Outputs(direct)
    yield one
    one.close()


@pytest.fixture
def source(service: Running, direct: str) -> Source:  # noqa: ARG001 - the service has made the topics
    """Records come all the time, so that a batch is in hand at any time."""
    one = Source(direct)
    one.start()
    return one


def finish(service: Running, source: Source, outputs: Outputs) -> None:
    """Each record has come out once."""
    count = source.stop()
    service.await_true(lambda: len(outputs.read()) >= count)
    service.end()
    outputs.read()
    assert outputs.counted("number") == dict.fromkeys(range(count), 1)


def test_answers_that_are_lost_for_ten_seconds_do_not_stop_the_service(service, proxy, source, outputs):
    service.start()
    service.await_true(lambda: len(outputs.read()) > 0)
    proxy.hold_answers()
    time.sleep(10)
    before = len(outputs.read())
    proxy.reset()
    proxy.resume()
    service.await_true(lambda: len(outputs.read()) > before + 20)
    assert service.page("/healthz") == (200, "ok\n")
    finish(service, source, outputs)


def test_connections_that_are_cut_again_and_again_do_not_stop_the_service(service, proxy, source, outputs):
    service.start()
    service.await_true(lambda: len(outputs.read()) > 0)
    chance = random.Random(7)
    for _ in range(15):
        chance.choice([proxy.cut, proxy.reset])()
        time.sleep(chance.uniform(0.1, 1.5))
    finish(service, source, outputs)


def test_a_batch_that_hangs_is_unhealthy_and_sigterm_ends_the_service(service, proxy, source, outputs):
    service.start({"SLUICE_BATCH_SECONDS": "5"})
    service.await_true(lambda: len(outputs.read()) > 0)
    service.await_true(lambda: service.page("/healthz")[0] == 200)
    proxy.hold_answers()
    service.await_true(lambda: service.page("/healthz")[0] == 503)
    assert "a batch has been running for" in service.page("/readyz")[1]
    started = descendants(service.pid)
    began = time.monotonic()
    service.end()
    assert time.monotonic() - began < 12
    assert started
    deadline = time.monotonic() + 10
    while any(map(running, started)):
        assert time.monotonic() < deadline, "a process that the service started is left"
        time.sleep(0.1)
    source.stop()
