"""The executors write: each topic partition has what local mode writes to it, in its order, once, whatever dies."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from tests.cluster.bucket_writers import RECORDS, Parted
from tests.cluster.cluster import executors, state_servers

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("executors_", [1, 2])
def test_each_topic_partition_has_what_local_mode_writes(stack, broker, tmp_path, local, executors_):
    master = f"local-cluster[{executors_},1,1024]"
    cluster = Parted(stack, broker, tmp_path, f"writers-{executors_}", master)
    cluster.send(RECORDS)
    cluster.start()
    cluster.check(local)
    assert min(cluster.parts()) > 1, "the buckets have written"
    log = cluster.service.log.read_text()
    assert "the driver writes seconds" in log
    assert "the driver writes average" not in log
    cluster.service.end()


@pytest.mark.parametrize("moment", ["part", "produced", "part-written"])
def test_p09_an_executor_is_killed_at_each_moment_of_its_writer(stack, broker, tmp_path, local, moment):
    cluster = Parted(stack, broker, tmp_path, f"writers-{moment}", "local-cluster[2,1,1024]")
    cluster.stop_at(moment)
    os.kill(next(iter(executors(os.getpid()).values())), signal.SIGKILL)
    cluster.go_on(moment)
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()


def test_p10_an_executor_that_stands_still_and_goes_on_writes_nothing_twice(stack, broker, tmp_path, local):
    """Its state servers and its Java stand still while they write; others write for them; then they go on."""
    cluster = Parted(stack, broker, tmp_path, "writers-zombie", "local-cluster[2,1,1024]")
    cluster.stop_at("produced")
    java = next(pid for pid in executors(os.getpid()).values() if state_servers(pid))
    frozen = [java, *state_servers(java)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    cluster.go_on("produced")
    time.sleep(15)
    for pid in frozen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()


@pytest.mark.parametrize("moment", ["part-written", "closing", "closed"])
def test_the_driver_is_killed(stack, broker, tmp_path, local, moment):
    cluster = Parted(stack, broker, tmp_path, f"writers-driver-{moment}", "local-cluster[2,1,1024]")
    cluster.stop_at(moment)
    cluster.service.process.kill()
    cluster.go_on(moment)
    cluster.start()
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()
