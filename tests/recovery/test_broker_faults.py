"""The broker and the way to it fail under a service whose windows fire as time passes (fault_rows.py).

Records get the broker's time as they are appended (`LogAppendTime`). So what must come out is what `replay` gives for
the records with the times that they have in the topic, however late the broker answered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.recovery.harness.process_table import frozen
from tests.recovery.harness.proxy import Proxy, proxied_broker
from tests.recovery.harness.service import Service
from tests.recovery.harness.shared_service import Shared
from tests.recovery.harness.steady_source import appended, feeding, send_one
from tests.recovery.harness.waiting import last_seconds

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FILE = """
trigger_interval: 0.1
streams:
  in: {schema: {k: string, v: int64}}
  seconds: {marks: none}
  sums: {marks: none}
operators:
  - name: seconds
    aggregate: in
    window: tumbling, time(1.0), partitioned
    partition_by: [k]
    output: {seconds: {k: k, n: Count(), all: Collect(v)}}
  - name: sums
    aggregate: in
    window: sliding, count(20), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {sums: {k: k, s: Sum(v)}}
"""
OUTPUTS = ("seconds", "sums")
#: the broker did not answer for longer than the service waits
UNAVAILABLE = 3
#: seconds that an outage lasts at least: many windows
SHORT = 8.0
#: seconds of an outage that the service bridges in any case: clients repeat for a minute
BRIDGED = 45.0


class Network:
    """A broker behind a proxy, and what was sent to it past the proxy."""

    def __init__(self, proxy: Proxy, broker: EmbeddedBroker) -> None:
        self.proxy, self.broker = proxy, broker

    @property
    def direct(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap}

    @property
    def through(self) -> dict[str, str]:
        return {"bootstrap.servers": self.proxy.address}


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with proxied_broker() as (proxy, broker):
        yield Network(proxy, broker)


def shared_service(services, network: Network, text: str = FILE, **settings) -> Shared:
    def make() -> Service:
        service = services(text, kafka=network.direct, through=network.through, http=True, **settings)
        service.create("in", partitions=1, **{"message.timestamp.type": "LogAppendTime"})
        service.create(*OUTPUTS)
        return service

    return Shared(make)


@pytest.fixture(scope="module")
def shared(services, network) -> Shared:
    return shared_service(services, network)


@pytest.fixture(scope="module")
def shared_impatient(services, network) -> Shared:
    return shared_service(services, network, environment={"SLUICE_RETRY_SECONDS": "15"})


@pytest.fixture
def service(shared, network) -> Iterator[Service]:
    yield from running(shared, network)


@pytest.fixture
def impatient(shared, shared_impatient, network) -> Iterator[Service]:
    """A service that asks for 15 s and not for a minute before it ends."""
    shared.end()
    yield from running(shared_impatient, network)
    shared_impatient.end()


def running(shared: Shared, network: Network) -> Iterator[Service]:
    """It runs, and windows fired."""
    network.proxy.resume()
    network.proxy.accept()
    one = shared.service()
    with feeding(one) as source:
        source.await_sent(20)
        await_firing(one)
    yield one
    network.proxy.resume()
    network.proxy.accept()


def await_firing(service: Service, codes: Sequence[int] = ()) -> None:
    """Windows fired that had not."""
    before = service.count("seconds")
    service.wait_until(lambda: service.count("seconds") > before + 5, "windows fire", codes=codes)


def await_outputs(service: Service, codes: Sequence[int] = ()) -> None:
    """What `replay` gives for the records of the topic, with their times there."""
    service.await_outputs(codes, expected=service.expected(appended(service)))


def outage(network: Network, meanwhile: Callable[[], None] = lambda: None) -> Sequence[int]:
    """The broker is killed and comes back. The exit codes that are right: none, unless its start took very long."""
    began = time.monotonic()
    network.broker.kill()
    meanwhile()
    last_seconds(SHORT)
    network.broker.restart()
    return [] if time.monotonic() - began < BRIDGED else [UNAVAILABLE]


# ---- the broker ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_e11_the_broker_dies_and_comes_back_while_windows_fire(service, network):
    with feeding(service) as source:
        codes = outage(network)
        source.await_sent(50)
        await_firing(service, codes)
    await_outputs(service, codes)


@pytest.mark.slow
def test_e11_the_broker_dies_and_comes_back_while_a_batch_is_in_hand(service, network):
    with feeding(service) as source:
        service.at("produced")
        service.await_moment("produced")
        codes = outage(network, lambda: service.go_on("produced"))
        source.await_sent(50)
    await_outputs(service, codes)


@pytest.mark.slow
def test_p20_the_broker_dies_and_comes_back_while_buckets_write(services, shared, network):
    """Their writers and the driver's write again."""
    shared.end()
    parted = shared_service(services, network, text=f"{FILE}writers: buckets\n")
    for service in running(parted, network):
        with feeding(service) as source:
            service.at("produced")
            service.await_moment("produced")
            codes = outage(network, partial(service.go_on, "produced"))
            source.await_sent(50)
        await_outputs(service, codes)
    parted.end()


@pytest.mark.slow
def test_e11_the_broker_is_frozen_while_windows_fire(service, network):
    with feeding(service) as source:
        with frozen(network.broker.pid):
            last_seconds(SHORT)
        source.await_sent(50)
        await_firing(service)
    await_outputs(service)


@pytest.mark.slow
def test_e11_windows_fire_while_nothing_comes_after_a_restart_and_a_freeze(service, network):
    """The idle clock has to move for each: the last record waits for the end of its window."""
    network.broker.terminate()
    network.broker.restart()
    send_one(service)
    await_outputs(service)
    with frozen(network.broker.pid):
        last_seconds(15)
    send_one(service)
    await_outputs(service)


@pytest.mark.slow
def test_e11_the_broker_is_frozen_while_a_batch_is_in_hand(service, network):
    with feeding(service) as source:
        service.at("committing")
        service.await_moment("committing")
        with frozen(network.broker.pid):
            service.go_on("committing")
            last_seconds(SHORT)
        source.await_sent(50)
    await_outputs(service)


# ---- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_e11_connections_are_cut_again_and_again(service, network):
    chance = random.Random(7)
    with feeding(service) as source:
        for number in range(8):
            (network.proxy.cut if number % 2 else network.proxy.reset)()
            source.await_sent(20)
        for _ in range(15):
            chance.choice([network.proxy.cut, network.proxy.reset])()
            last_seconds(chance.uniform(0.1, 1.5))
        await_firing(service)
    await_outputs(service)


@pytest.mark.slow
def test_e11_connections_are_refused_for_a_while(service, network):
    with feeding(service) as source:
        network.proxy.refuse()
        network.proxy.reset()
        last_seconds(SHORT)
        network.proxy.accept()
        source.await_sent(50)
        await_firing(service)
    await_outputs(service)


@pytest.mark.slow
def test_e11_the_network_is_slow(service, network):
    network.proxy.delay(requests=0.1, answers=0.1)
    with feeding(service) as source:
        source.await_sent(100)
        await_firing(service)
    network.proxy.resume()
    await_outputs(service)


@pytest.mark.slow
def test_e11_no_byte_passes_for_a_while(service, network):
    """Connections stay open, so no client gets an error."""
    with feeding(service) as source:
        network.proxy.hold_requests()
        network.proxy.hold_answers()
        last_seconds(SHORT)
        network.proxy.resume()
        source.await_sent(50)
        await_firing(service)
    await_outputs(service)


@pytest.mark.slow
def test_e11_answers_are_lost_for_a_while(service, network):
    """Requests reach the broker. The connections then break, and the answers with them."""
    with feeding(service) as source:
        network.proxy.hold_answers()
        last_seconds(10)
        network.proxy.reset()
        network.proxy.resume()
        source.await_sent(50)
        await_firing(service)
        assert service.page("/healthz") == (200, "ok\n")
    await_outputs(service)


@pytest.mark.slow
def test_e11_a_batch_that_hangs_is_unhealthy_and_sigterm_ends_the_service(service, network):
    service.end()
    service.start(SLUICE_BATCH_SECONDS="5")
    with feeding(service):
        await_firing(service)
        service.wait_until(lambda: service.page("/healthz")[0] == 200, "the service is healthy")
        network.proxy.hold_answers()
        service.wait_until(lambda: service.page("/healthz")[0] == 503, "the service is unhealthy")
        assert "a batch has been running for" in service.page("/readyz")[1]
        service.end(12)
    network.proxy.reset()
    network.proxy.resume()
    service.start()
    await_outputs(service)


@pytest.mark.slow
def test_e12_the_answer_to_a_commit_is_lost(service, network):
    """The broker has committed the batch, and the connection breaks before the service gets the answer."""
    with feeding(service) as source:
        commit_sent(service, network.proxy.hold_answers)
        network.proxy.reset()
        network.proxy.resume()
        source.await_sent(50)
    await_outputs(service, codes=[UNAVAILABLE])


@pytest.mark.slow
def test_e12_the_request_for_a_commit_is_lost(service, network):
    with feeding(service) as source:
        service.at("committing")
        service.await_moment("committing")
        network.proxy.hold_requests()
        service.go_on("committing")
        last_seconds(1)
        network.proxy.reset()
        network.proxy.resume()
        source.await_sent(50)
    await_outputs(service, codes=[UNAVAILABLE])


@pytest.mark.slow
def test_e04_killed_when_the_broker_has_the_commit(service, network):
    with feeding(service):
        commit_sent(service, network.proxy.hold_answers)
        position = service.kill()
        assert position.planned == position.next_batch - 1 > position.committed
    network.proxy.reset()
    network.proxy.resume()
    skipped = service.skipped()
    service.start()
    await_outputs(service)
    assert service.skipped() == skipped + 1


@pytest.mark.slow
def test_e04_killed_before_the_broker_has_the_commit(service, network):
    with feeding(service):
        service.at("committing")
        service.await_moment("committing")
        network.proxy.hold_requests()
        service.go_on("committing")
        last_seconds(1)
        position = service.kill()
        assert position.planned == position.next_batch > position.committed
    network.proxy.reset()
    network.proxy.resume()
    service.start()
    await_outputs(service)


def commit_sent(service: Service, hold: Callable[[], None]) -> None:
    """The request for a commit is with the broker, and no answer comes back."""
    service.at("committing")
    service.await_moment("committing")
    before = service.position().next_batch
    hold()
    service.go_on("committing")
    service.wait_until(lambda: service.position().next_batch == before + 1, "the broker has the commit")


# ---- for longer than the service waits -------------------------------------------------------------------------------


@pytest.mark.slow
def test_e11_the_broker_is_gone_for_longer_than_the_service_waits(impatient, network):
    with feeding(impatient):
        impatient.at("produced")
        impatient.await_moment("produced")
        network.broker.kill()
        impatient.go_on("produced")
        try:
            assert impatient.await_end() == UNAVAILABLE, impatient.log()
        finally:
            network.broker.restart()
    impatient.start()
    await_outputs(impatient)


@pytest.mark.slow
def test_e13_a_call_of_the_client_library_does_not_return(impatient):
    with feeding(impatient):
        impatient.at("commit-call")
        impatient.await_moment("commit-call")
        assert impatient.await_end() == UNAVAILABLE, impatient.log()
    impatient.forget_moments()
    impatient.start()
    await_outputs(impatient)
