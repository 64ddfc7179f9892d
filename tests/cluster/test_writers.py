"""The executors write: each topic partition has what local mode writes to it, in its order, once, whatever dies."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from sluice.processes import descendants
from tests.cluster.bucket_writers import RECORDS, Parted, pausing, read
from tests.cluster.cluster import Standalone, executors, parent

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: Spark gives up an executor that it has not heard of for some seconds, in place of two minutes
SOON_LOST = {"network.timeout": "20s", "network.timeoutInterval": "2s", "executor.heartbeatInterval": "2s"}


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


def test_p10_a_machine_that_stands_still_and_goes_on_writes_nothing_twice(stack, broker, tmp_path, local):
    """A worker, its executor and its state servers stand still while they write. Another one gets their buckets and
    writes for them. Then they go on.
    """
    standalone = Standalone(stack, tmp_path, pausing(tmp_path / "moments"))
    standalone.add_worker()
    standalone.add_worker()
    cluster = Parted(stack, broker, tmp_path, "writers-zombie", standalone.url, properties=SOON_LOST)
    cluster.stop_at("produced")
    java = next(pid for pid in executors(os.getpid()).values() if cluster.paused("produced") in descendants(pid))
    frozen = [parent(java), java, *descendants(java)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    cluster.go_on("produced")
    cluster.service.wait_for(lambda: read(cluster.service) == cluster.sent)
    for pid in reversed(frozen):
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
