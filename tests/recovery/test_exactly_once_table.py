"""Each row of "What can fail, and when" in docs/exactly-once.md that needs no fault of the broker (fault_rows.py)."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel

from tests.recovery.harness.process_table import frozen
from tests.recovery.harness.service import Service
from tests.recovery.harness.shared_service import Shared, created
from tests.recovery.harness.sums_and_runs import FILE, OUTPUTS, tuples
from tests.recovery.harness.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: exit codes: the JVM was killed, checkpoint and ledger do not fit, another instance runs or has taken over, a batch
#: failed
JAVA_ENDED, REFUSED, TAKEN, FAILED = 3, 4, 5, 6


@pytest.fixture(scope="module")
def shared(services) -> Shared:
    """Its readers read each batch of more than a few records."""
    return Shared(lambda: created(services(f"{FILE}direct_records: 20\n")))


@pytest.fixture
def service(shared) -> Service:
    """It runs and rests, and 300 tuples went through it."""
    return shared.at_rest()


def restarted(service: Service) -> None:
    """All that was sent comes out once."""
    service.start()
    service.await_outputs()


def paused(service: Service, moment: str) -> None:
    """A batch is in hand, and the service stands still at this moment."""
    service.at(moment)
    service.send("in", tuples(1000))
    service.await_moment(moment)


# ---- the service is killed -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_e01_killed_before_a_batch_is_planned(service):
    before = service.position()
    (jvm,) = service.pids("jvm")
    with frozen(jvm):  # it sees none of these
        service.send("in", tuples(1000))
        after = service.kill()
    assert after == before
    restarted(service)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["read", "feeding"])
def test_e02_killed_while_records_are_read_or_buckets_compute(service, moment):
    visible = service.count(*OUTPUTS)
    paused(service, moment)
    position = service.kill()
    assert position.planned == position.next_batch == position.committed + 1
    assert service.count(*OUTPUTS) == visible
    restarted(service)


def test_e03_killed_while_records_are_produced(service):
    visible = service.count(*OUTPUTS)
    paused(service, "produced")
    position = service.kill()
    assert position.planned == position.next_batch == position.committed + 1
    assert service.count(*OUTPUTS) == visible
    assert service.count(*OUTPUTS, isolation=IsolationLevel.READ_UNCOMMITTED) > visible, "the transaction is open"
    restarted(service)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["committing", "committed"])
def test_e04_killed_while_the_commit_is_on_its_way(service, moment):
    """The process goes on while it is killed: the broker may have got the commit or not."""
    service.at(moment, "signal")
    service.send("in", tuples(1000))
    service.await_moment(moment)
    position = service.kill()
    assert position.next_batch - position.committed in (1, 2)
    restarted(service)


def test_e05_killed_after_kafkas_commit_before_sparks(service):
    skipped = service.skipped()
    paused(service, "written")
    position = service.kill()
    assert position.planned == position.next_batch - 1 == position.committed + 1
    restarted(service)
    service.await_rest()
    assert service.skipped() == skipped + 1


@pytest.mark.slow
def test_e06_killed_after_both(service):
    skipped = service.skipped()
    position = service.kill()
    assert position.planned == position.committed == position.next_batch - 1
    service.send("in", tuples(300))
    restarted(service)
    assert service.skipped() == skipped


# ---- one of its processes is killed ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_e08_a_task_fails_and_is_repeated_while_the_work_for_it_goes_on(services):
    """Its worker dies while the state server works for it. No process receives the result of that work."""
    service = services(f"{FILE}direct_records: 0\n", arguments=["--master", "local[2,4]"])
    service.create("in")
    service.start()
    service.send("in", tuples(300))
    service.await_rest()
    paused(service, "feeding")
    service.signal("worker")
    service.go_on("feeding")
    service.await_outputs()
    service.end()


@pytest.mark.slow
def test_e08_a_worker_dies_where_spark_repeats_no_task(services):
    service = services(f"{FILE}direct_records: 0\n")
    service.create("in")
    service.start()
    paused(service, "feeding")
    service.signal("worker")
    service.go_on("feeding")
    service.await_outputs(codes=[FAILED])
    service.end()


def test_e10_a_reader_dies_at_work(service):
    paused(service, "read")
    service.signal("reader")
    service.await_outputs()


def test_e09_a_state_process_dies_at_work(service):
    paused(service, "feeding")
    service.signal("state")
    service.await_outputs()


@pytest.mark.slow
def test_e09_state_processes_die_at_rest(service):
    service.signal("state")
    service.send("in", tuples(300))
    service.await_outputs()


@pytest.mark.slow
def test_e09_the_pool_of_state_processes_dies(service):
    """In a batch, and at rest."""
    paused(service, "feeding")
    service.signal("pool")
    service.go_on("feeding")
    service.await_outputs(codes=[FAILED])
    service.await_rest()
    service.signal("pool")
    service.send("in", tuples(300))
    service.await_outputs(codes=[FAILED])


@pytest.mark.slow
def test_e07_the_driver_dies_alone(service):
    """All processes of the service end with it, so the next start has no other beside it."""
    paused(service, "produced")
    (driver,) = service.pids("driver")
    os.kill(driver, signal.SIGKILL)
    service.await_no_process()
    service.forget_moments()
    restarted(service)


@pytest.mark.slow
def test_e07_the_jvm_dies_alone(service):
    """The service ends by itself with a documented exit code."""
    paused(service, "feeding")
    service.signal("jvm")
    assert service.await_end() == JAVA_ENDED
    service.forget_moments()
    restarted(service)


# ---- a second instance -----------------------------------------------------------------------------------------------


def test_e15_a_second_instance_on_the_same_folder_is_refused(service, services):
    """The first one goes on."""
    second = services(FILE, name=service.name, checkpoint=service.checkpoint)
    second.start()
    assert second.await_end() == TAKEN
    service.send("in", tuples(1000))
    service.await_outputs()


@pytest.mark.slow
def test_e16_a_second_instance_on_a_copy_ends_the_first(services, tmp_path):
    """What both read comes out once. The first one's folder then is the older copy, and is restored at its start."""
    first = services(FILE)
    first.create("in")
    first.start()
    first.send("in", tuples(300))
    first.await_rest()
    copy = Path(shutil.copytree(first.checkpoint, tmp_path / "copy"))
    second = services(FILE, name=first.name, checkpoint=copy)
    second.adopt(first)
    second.start()
    second.wait_until(lambda: "message=running" in second.log(), "the second instance has asked the ledger and runs")

    def one_more_batch() -> bool:
        second.send("in", tuples(20))
        return not first.running

    wait_until(one_more_batch, "the first instance writes a batch after the second one's first batch", log=first.log)
    assert first.await_end() == TAKEN
    second.await_outputs(codes=[FAILED])
    second.await_rest()
    second.end()
    first.start()
    first.send("in", tuples(300))
    first.await_outputs()
    first.end()
