"""The executors write: each topic partition has what local mode writes to it, in its order, once, whatever dies."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Message

from sluice.kafka import ledger
from tests.cluster.cluster import Service, executors, prices, state_servers
from tests.unit.kafka.tools import visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

BUCKETS, PLACES, RECORDS = 2, 4, 8000
PAUSING = Path(__file__).parents[1] / "recovery" / "pausing"
#: what the buckets write, and what goes through the driver: the empty firings of `seconds` depend on all buckets
OWN, DRIVERS = ("average", "raw"), ("seconds",)
PIPELINE = f"""
streams:
  prices: {{schema: {{symbol: string, price: int64}}}}
  average: {{partitions: {PLACES}}}
  raw: {{partitions: {PLACES}}}
  seconds: {{partitions: {PLACES}}}
operators:
  - name: average
    aggregate: prices
    window: sliding, count(100), count(1), partitioned
    partition_by: [symbol]
    aggregate_incomplete_windows: true
    output: {{average: {{symbol: Last(symbol), price: Average(price), all: Count()}}}}
  - name: raw
    aggregate: prices
    window: tumbling, count(5), partitioned
    partition_by: [symbol]
    output: {{raw: {{symbol: Last(symbol), all: Collect(price)}}}}
  - name: seconds
    aggregate: prices
    window: tumbling, time(1.0), partitioned
    partition_by: [symbol]
    output: {{seconds: {{symbol: Last(symbol), most: Max(price)}}}}
clock: records
buckets: {BUCKETS}
max_records_per_batch: 500
direct_records: 200
"""


def seen(broker: str, name: str) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """What a committed reader sees: key, value, headers and timestamp of each record, by stream and topic partition."""
    kafka = {"bootstrap.servers": broker}
    return {
        (stream, place): [_record(message) for message in visible(kafka, f"{name}.{stream}", place)]
        for stream in (*OWN, *DRIVERS)
        for place in range(PLACES)
    }


def _record(message: Message) -> tuple[object, ...]:
    return message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()


@pytest.fixture(scope="module")
def local(broker, tmp_path_factory):
    """What local mode writes for the same records, with one writer."""
    with ExitStack() as stack:
        one = Service(stack, broker, tmp_path_factory.mktemp("local"), "writers-local", PIPELINE)
        one.send(prices(0, RECORDS))
        one.start("local[2]")
        one.wait_for(lambda: _read(one) == RECORDS)
        one.end()
        yield seen(broker, one.name)


def _read(service: Service) -> int:
    entry = ledger.last_entry({"bootstrap.servers": service._broker}, service.name)  # noqa: SLF001
    return 0 if entry is None or entry.planned is None else sum(entry.planned.offsets.values())


class Cluster:
    """The same pipeline on a cluster, whose processes a test stops at moments (tests/recovery/pausing)."""

    def __init__(self, stack, broker: str, folder: Path, name: str, master: str) -> None:
        self.moments, self.broker = folder / "moments", broker
        self.moments.mkdir()
        self.service = Service(stack, broker, folder, name, PIPELINE)
        self.master, self.sent = master, 0

    def start(self) -> None:
        path = os.pathsep.join([str(PAUSING), os.environ["PYTHONPATH"]])
        self.service.start(self.master, environment={"PYTHONPATH": path, "SLUICE_TEST_MOMENTS": str(self.moments)})

    def send(self, count: int) -> None:
        self.service.send(prices(self.sent, count))
        self.sent += count

    def at(self, moment: str, what: str = "pause") -> None:
        part = self.moments / f".{moment}"
        part.write_text(what)
        part.rename(self.moments / moment)

    def stop_at(self, moment: str) -> None:
        """Starts the service, which reads 1000 records; a process of it pauses at this moment of the next batch."""
        self.send(1000)
        self.start()
        self.service.wait_for(lambda: _read(self.service) == 1000)
        self.at(moment)
        self.send(1000)
        self.service.wait_for((self.moments / f"{moment}.reached").exists)

    def go_on(self, moment: str) -> None:
        """Ends the pause."""
        (self.moments / f"{moment}.reached").unlink()

    def check(self, local: object) -> None:
        """All records were read, and each topic partition has the same records as in local mode, in the same order."""
        self.service.wait_for(lambda: _read(self.service) == RECORDS)
        found = seen(self.broker, self.service.name)
        assert {place: len(records) for place, records in found.items()} == {p: len(r) for p, r in local.items()}
        assert found == local

    def parts(self) -> list[int]:
        kafka = {"bootstrap.servers": self.broker}
        found = (ledger.part_position(kafka, ledger.part_of(self.service.name, b)) for b in (0, 1))
        return [0 if one is None else one.next_batch for one in found]


@pytest.mark.parametrize("executors_", [1, 2])
def test_each_topic_partition_has_what_local_mode_writes(stack, broker, tmp_path, local, executors_):
    master = f"local-cluster[{executors_},1,1024]"
    cluster = Cluster(stack, broker, tmp_path, f"writers-{executors_}", master)
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
    cluster = Cluster(stack, broker, tmp_path, f"writers-{moment}", "local-cluster[2,1,1024]")
    cluster.stop_at(moment)
    os.kill(next(iter(executors(os.getpid()).values())), signal.SIGKILL)
    cluster.go_on(moment)
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()


def test_p10_an_executor_that_stands_still_and_goes_on_writes_nothing_twice(stack, broker, tmp_path, local):
    """Its state servers and its Java stand still while they write; others write for them; then they go on."""
    cluster = Cluster(stack, broker, tmp_path, "writers-zombie", "local-cluster[2,1,1024]")
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
    cluster = Cluster(stack, broker, tmp_path, f"writers-driver-{moment}", "local-cluster[2,1,1024]")
    cluster.stop_at(moment)
    cluster.service.process.kill()
    cluster.go_on(moment)
    cluster.start()
    cluster.send(RECORDS - cluster.sent)
    cluster.check(local)
    cluster.service.end()
