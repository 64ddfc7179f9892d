"""Executors own buckets: each has its share of the states, does its share of the work, and keeps its buckets."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster import Service, TaskLog, executors, own_memory, prices, state_servers

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

    def memory(self) -> int:
        """Bytes that the state servers of all executors have and share with no other process."""
        return sum(own_memory(server) for pid in executors(self.root).values() for server in state_servers(pid))

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
    lost = running.service.last_batch()
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
    waits = [batch for batch in range(lost + 1, lost + 2 * SOON) if log.interval(batch) > LOCALITY_WAIT]
    assert len(waits) <= MAX_WAITS, f"a lost executor costs time in each batch: {waits}"


WORKERS = 2
#: milliseconds that a task waits for the executor that it prefers (placement.py), and the number of batches of the
#: 2 * SOON after the loss of an executor that may take longer: that in hand, and those in which Python starts anew
LOCALITY_WAIT, MAX_WAITS = 3000, 3


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


def test_the_executors_of_a_local_cluster_share_the_states_of_one(stack, broker, tmp_path):
    alone, shared = (memory_on(stack, broker, tmp_path, count) for count in (1, 4))
    print(f"state servers of one executor: {alone:,} bytes; of four executors: {shared:,}")  # noqa: T201
    assert shared <= 1.1 * alone


def memory_on(stack: ExitStack, broker: str, folder: Path, count: int) -> int:
    """Bytes of memory of all state servers on so many executors, each of which has its share of the buckets."""
    name = f"on-local-cluster-{count}"
    (folder / name).mkdir()
    running = Running(stack, broker, folder / name, name)
    running.send(1)
    running.service.start(f"local-cluster[{count},1,512]", {"executor.memory": "512m"})
    running.run(3 * SOON)
    assert running.servers() == [BUCKETS // count] * count
    memory = running.memory()
    running.service.check_outputs()
    running.service.end()
    log = running.service.tasks()
    assert log.moved(range(SOON, 3 * SOON)) == 0
    check_balance(log)
    return memory
