"""Executors own buckets: each has its share of the states, does its share of the work, and keeps its buckets."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster import Service, TaskLog, executors, prices, state_servers

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

BUCKETS = 4
#: records of a batch, and the number of batches in which nothing happens to the cluster
RECORDS, QUIET = 100, 200
#: batches within which the buckets are balanced again, and a state server without requests ends
SOON = 10
PIPELINE = f"""
streams:
  prices: {{schema: {{symbol: string, price: int64}}}}
  average: {{}}
  minutes: {{}}
operators:
  - name: average
    aggregate: prices
    window: sliding, count(100), count(1), partitioned
    partition_by: [symbol]
    aggregate_incomplete_windows: true
    output: {{average: {{symbol: Last(symbol), price: Average(price), all: Count()}}}}
  - name: minutes
    aggregate: prices
    window: tumbling, time(60.0), partitioned
    partition_by: [symbol]
    output: {{minutes: {{symbol: Last(symbol), least: Min(price), most: Max(price)}}}}
clock: records
buckets: {BUCKETS}
max_records_per_batch: {RECORDS}
"""


class Running:
    """A service whose batches have RECORDS records each."""

    def __init__(self, stack: ExitStack, broker: str, folder: Path, name: str) -> None:
        self.service = Service(stack, broker, folder, name, PIPELINE)
        self.sent = 0
        self.root = os.getpid()

    def run(self, batches: int) -> None:
        """Sends the records of this many batches and waits until as many have run."""
        before = self.service.last_batch()
        self.send(batches)
        self.service.wait_for(lambda: self.service.last_batch() >= before + batches)

    def send(self, batches: int) -> None:
        self.service.send(prices(self.sent, batches * RECORDS))
        self.sent += batches * RECORDS

    def placed(self) -> int:
        """The number of executors that have buckets, by the last line of the service's log about them."""
        lines = [line for line in self.service.log.read_text().splitlines() if "buckets of" in line]
        return lines[-1].count(" has ") if lines else 0

    def servers(self) -> list[int]:
        """The number of state servers of each executor, the largest number first."""
        return sorted((len(state_servers(pid)) for pid in executors(self.root).values()), reverse=True)


def test_two_executors_keep_their_buckets_and_lose_and_get_some(stack, broker, standalone, tmp_path):
    running = Running(stack, broker, tmp_path, "on-two-executors")
    running.send(1)
    running.service.start(standalone.url)
    running.run(SOON)  # until then the executors start Python, which may take longer than a task waits for its executor
    running.run(QUIET)
    assert running.servers() == [2, 2]
    quiet = running.service.last_batch()
    assert sum(entry.report.state["read"] for entry in running.service.entries(after=SOON)) == 0, "read back from logs"

    first, second = executors(running.root).items()
    os.kill(second[1], signal.SIGKILL)
    running.service.wait_for(lambda: running.placed() == 1)
    running.run(2 * SOON)
    running.service.wait_for(lambda: running.placed() == WORKERS)
    running.run(3 * SOON)
    assert running.servers() == [2, 2]
    assert first[0] in executors(running.root)
    assert second[0] not in executors(running.root)

    standalone.add_worker()
    running.service.wait_for(lambda: running.placed() == WORKERS + 1)
    running.run(3 * SOON)
    assert running.servers() == [2, 1, 1]

    running.service.check_outputs()
    running.service.end()
    log = running.service.tasks()
    assert log.moved(range(SOON, quiet)) == 0
    check_balance(log)


WORKERS = 2


def check_balance(log: TaskLog) -> None:
    """SOON batches after an executor came or went, and until the next one comes or goes, the buckets are balanced."""
    times = sorted(time for both in log.executors.values() for time in both if time is not None)
    for begin, end in zip(times, [*times[1:], max(log.began.values())], strict=True):
        present = [name for name, (start, over) in log.executors.items() if start <= begin < (over or begin + 1)]
        # The last batch before the end may have been repeated after it.
        batches = [batch for batch in log.since(begin)[SOON:] if log.began.get(batch + 1, end) < end]
        expected = sorted((len(range(number, BUCKETS, len(present))) for number in range(len(present))), reverse=True)
        wrong = {batch: log.buckets[batch] for batch in batches if log.shares(batch) != expected[:BUCKETS]}
        assert not wrong, f"with executors {present}"


@pytest.mark.parametrize("count", [4])
def test_on_a_local_cluster_each_executor_has_its_share(stack, broker, tmp_path, count):
    running = Running(stack, broker, tmp_path, f"on-local-cluster-{count}")
    running.send(1)
    running.service.start(f"local-cluster[{count},1,512]", {"executor.memory": "512m"})
    running.run(3 * SOON)
    assert running.servers() == [BUCKETS // count] * count
    running.service.check_outputs()
    running.service.end()
    log = running.service.tasks()
    assert log.moved(range(SOON, 3 * SOON)) == 0
    check_balance(log)
