"""Processes of a running service are killed, again and again: the service goes on, or nothing of it is left."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.recovery.harness.process_table import send_signal
from tests.recovery.harness.service import Service
from tests.recovery.harness.shared_service import Shared, created
from tests.recovery.harness.sums_and_runs import FILE, tuples

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: what is killed, one after the other; the direct lane needs no workers
VICTIMS = (["state"], ["pool"], ["fork server"])
VICTIMS_OF_SPARK = (*VICTIMS, ["daemon"], ["worker"], ["worker", "fork server"])
#: seconds that the processes of a killed service may live on
LINGER = 10.0
SIZE = 50


SMALL_BATCHES = FILE.replace("400", "20")


@pytest.fixture(scope="module")
def shared(services) -> Shared:
    return Shared(lambda: created(services(SMALL_BATCHES)))


@pytest.fixture
def service(shared) -> Service:
    one = shared.service()
    one.send("in", tuples(SIZE))
    one.await_outputs()
    return one


def kill(service: Service, roles: list[str]) -> None:
    pids = [pid for role in roles for pid in service.pids(role)]
    assert pids
    send_signal(pids)


def test_a_service_outlives_its_state_servers_and_its_pool(service):
    check_that_it_outlives(service, VICTIMS)


def test_a_service_whose_batches_are_jobs_of_spark_outlives_its_workers_and_its_pool(services):
    service = created(services(SMALL_BATCHES + "direct_records: 0"))
    service.start()
    service.send("in", tuples(SIZE))
    service.await_outputs()
    check_that_it_outlives(service, VICTIMS_OF_SPARK)
    service.end()


def check_that_it_outlives(service: Service, victims: Sequence[list[str]]) -> None:
    """Each is killed at rest, and in the midst of a batch."""
    started = service.pid
    for roles in victims:
        kill(service, roles)
        service.send("in", tuples(SIZE))
        service.await_outputs()
        service.send("in", tuples(SIZE))
        time.sleep(0.3)
        kill(service, roles)
        service.await_outputs()
    assert service.running
    assert service.pid == started


def test_nothing_is_left_of_a_service_whose_driver_was_killed(service):
    service.send("in", tuples(SIZE))
    assert service.pids("state")
    send_signal([service.pid])
    service.await_no_process(LINGER)
