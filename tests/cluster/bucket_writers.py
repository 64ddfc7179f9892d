"""A pipeline whose outputs the buckets write on a cluster, and what a committed reader sees of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Message

from sluice.files import PACKAGE
from sluice.kafka import ledger
from tests.cluster.cluster import Service, prices
from tests.unit.kafka.broker_tools import visible

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


#: stream and number of the topic partition -> its records
Outputs = dict[tuple[str, int], list[tuple[object, ...]]]


def seen(broker: str, name: str) -> Outputs:
    """What a committed reader sees: key, value, headers and timestamp of each record, by stream and topic partition."""
    kafka = {"bootstrap.servers": broker}
    return {
        (stream, place): [_record(message) for message in visible(kafka, f"{name}.{stream}", place)]
        for stream in (*OWN, *DRIVERS)
        for place in range(PLACES)
    }


def _record(message: Message) -> tuple[object, ...]:
    return message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()


def local_outputs(stack: ExitStack, broker: str, folder: Path) -> Outputs:
    """What local mode writes for the same records, with one writer."""
    one = Service(stack, broker, folder, "parted-local", PIPELINE)
    one.send(prices(0, RECORDS))
    one.start("local[2]")
    one.wait_for(lambda: read(one) == RECORDS)
    one.end()
    return seen(broker, one.name)


def read(service: Service) -> int:
    entry = ledger.last_entry({"bootstrap.servers": service._broker}, service.name)  # noqa: SLF001
    return 0 if entry is None or entry.planned is None else sum(entry.planned.offsets.values())


def pausing(moments: Path) -> dict[str, str]:
    """The variables of a process that pauses at moments, for which a test asks in this folder."""
    path = os.pathsep.join([str(PAUSING), str(PACKAGE.parent)])
    return {"PYTHONPATH": path, "SLUICE_TEST_MOMENTS": str(moments)}


class Parted:
    """The pipeline on a cluster, whose processes a test stops at moments (tests/recovery/pausing)."""

    def __init__(
        self,
        stack: ExitStack,
        broker: str,
        folder: Path,
        name: str,
        master: str,
        *,
        buckets: int = BUCKETS,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`properties`: further properties of Spark."""
        self.moments, self.broker, self._properties = folder / "moments", broker, properties
        self.moments.mkdir()
        pipeline = PIPELINE.replace(f"buckets: {BUCKETS}\n", f"buckets: {buckets}\n")
        self.service = Service(stack, broker, folder, name, pipeline)
        self.master, self.sent = master, 0

    def start(self) -> None:
        self.service.start(self.master, self._properties, pausing(self.moments))

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
        self.service.wait_for(lambda: read(self.service) == 1000)
        self.at(moment)
        self.send(1000)
        self.service.wait_for((self.moments / f"{moment}.reached").exists)

    def paused(self, moment: str) -> int:
        """The number of the process that pauses."""
        self.service.wait_for((number := self.moments / f"{moment}.pid").exists)
        return int(number.read_text())

    def go_on(self, moment: str) -> None:
        """Ends the pause."""
        (self.moments / f"{moment}.reached").unlink()

    def check(self, local: Outputs) -> None:
        """All records were read, and each topic partition has the same records as in local mode, in the same order."""
        self.service.wait_for(lambda: read(self.service) == RECORDS)
        found = seen(self.broker, self.service.name)
        assert {place: len(records) for place, records in found.items()} == {p: len(r) for p, r in local.items()}
        assert found == local

    def parts(self) -> list[int]:
        kafka = {"bootstrap.servers": self.broker}
        found = (ledger.part_position(kafka, ledger.part_of(self.service.name, b)) for b in (0, 1))
        return [0 if one is None else one.next_batch for one in found]
