"""Executors join and leave, and master and broker die, while records wait: the outputs stay those of local mode."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.cluster.bucket_writers import PLACES, RECORDS, Parted, local_outputs, read
from tests.cluster.cluster import executors

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


#: records of a piece, more than the driver reads itself; seconds between two pieces
PIECE, PACE_S = 250, 2.0


def started(
    stack: ExitStack, broker: str, folder: Path, name: str, master: str, *, records: int = RECORDS
) -> Parted:  # fmt: skip
    """The service, for which these records wait, and which has read some of them."""
    cluster = Parted(stack, broker, folder, name, master, buckets=PLACES)
    cluster.send(records)
    cluster.start()
    await_read(cluster, 1000)
    return cluster


def await_read(cluster: Parted, records: int) -> None:
    cluster.service.wait_for(lambda: read(cluster.service) >= records)


def owners(cluster: Parted) -> list[str]:
    """The numbers of the executors that had buckets, by each line of the log about them."""
    log = cluster.service.log.read_text()
    return [" ".join(re.findall(r"(\d+) \(", line)) for line in log.splitlines() if "buckets of" in line]


def under_load(cluster: Parted, happened: Callable[[], bool]) -> None:
    """Waits until this happened, while records come in pieces that take a job of Spark each. However slow the machine
    is, records are left until executors have changed: a piece comes at least two seconds after the one before it.
    """
    last = 0.0

    def feed() -> bool:
        nonlocal last
        if cluster.sent == read(cluster.service) and time.monotonic() - last > PACE_S:
            last = time.monotonic()
            cluster.send(min(PIECE, RECORDS - cluster.sent))
        return happened()

    cluster.service.wait_for(feed)
    assert cluster.sent < RECORDS, "records are left"


def test_an_executor_joins_and_another_one_leaves_under_load(stack, broker, tmp_path, local, standalone):
    cluster = started(stack, broker, tmp_path, "elastic", standalone.url, records=1500)
    both = owners(cluster)[-1]
    standalone.add_worker()
    under_load(cluster, lambda: owners(cluster)[-1] != both)
    before, joined = read(cluster.service), owners(cluster)[-1]
    under_load(cluster, lambda: read(cluster.service) > before)
    standalone.end_worker(0)
    under_load(cluster, lambda: owners(cluster)[-1] != joined)
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()


def test_the_master_of_three_workers_dies_and_comes_back(stack, broker, tmp_path, local, standalone):
    """Without it the executors work on, and the buckets of one that dies go to the others."""
    standalone.add_worker()
    cluster = started(stack, broker, tmp_path, "no-master", standalone.url)
    standalone.kill_master()
    three = executors(os.getpid())
    assert len(three) == 3
    os.kill(next(iter(three.values())), signal.SIGKILL)
    await_read(cluster, read(cluster.service) + 1500)
    standalone.start_master()
    cluster.service.wait_for(lambda: len(executors(os.getpid())) == 3)
    cluster.check(local)
    cluster.service.end()


def test_the_broker_is_restarted_while_executors_write(stack, tmp_path):
    broker = stack.enter_context(EmbeddedBroker())
    (tmp_path / "local").mkdir()
    local = local_outputs(stack, broker.bootstrap, tmp_path / "local")
    (tmp_path / "cluster").mkdir()
    cluster = started(stack, broker.bootstrap, tmp_path / "cluster", "no-broker", "local-cluster[2,1,1024]")
    broker.kill()
    broker.restart()
    cluster.check(local)
    cluster.service.end()
