"""`make bench-tables`: how long a service takes to load a table, and how much memory that needs.

A compacted topic has one record of each key. The service starts without a checkpoint: its first batch loads the table
and reads nothing else. Then records of the left side are sent, each of which meets a row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import BATCH, PARTITIONS, START, make_topic, produce, quick_producer
from benchmarks.machine import machine
from benchmarks.running import batches, outputs, service, watched
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import processors

NAME = "enrich"
HEAD = (
    "| rows | start to loaded s | of which load s | peak memory MB | memory after MB | state MB | joined records/s |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
PIPELINE = """
pipeline: enrich
buckets: {buckets}
streams:
  customers:
    topic: customers
    schema: {{id: string, name: string, city: string}}
    key: {{attributes: [id]}}
    table: true
  orders: {{topic: orders, schema: {{customer: string, n: int64}}}}
  enriched: {{topic: enriched, partitions: {partitions}}}
operators:
  - name: enrich
    join: {{left: orders, right: customers}}
    equality_left: [customer]
    equality_right: [id]
    output:
      enriched: {{customer: customer, n: n, name: name, city: city}}
"""


class Figures(NamedTuple):
    """Seconds to the commit of the first batch, from the start of the process and from the end of Spark's start; bytes;
    records per second.
    """

    whole: float
    load: float
    peak: int
    after: int
    state: int
    rate: float


def measured(bootstrap: str, folder: Path, options: argparse.Namespace) -> Figures:
    pipeline = PIPELINE.format(buckets=options.buckets, partitions=PARTITIONS)
    began = time.time()
    with service(pipeline, bootstrap, folder) as running:
        with watched(running):
            running.await_start()
            ready = time.time()
            loaded = batches(running, bootstrap, NAME, options.rows)[-1]
        after = running.memory()
        send(bootstrap, "orders", options.records, options.rows)
        joined = batches(running, bootstrap, NAME, options.rows + options.records)[1:]
    count, total = outputs(bootstrap, "enriched")
    if (loaded.batch, count, total) != (0, options.records, options.records):
        raise SystemExit(
            f"batch {loaded.batch} loaded the table, and {count:,} of {options.records:,} records came out"
        )
    seconds = (joined[-1].at - joined[0].began) / 1000
    return Figures(
        loaded.at / 1000 - began,
        loaded.at / 1000 - ready,
        running.peak,
        after,
        loaded.report.state["held"],
        options.records / seconds,
    )


def send(bootstrap: str, topic: str, records: int, rows: int) -> None:
    """Left records, with keys in turn."""
    producer = quick_producer(bootstrap)
    for i in range(records):
        key = b"customer-%d" % (i * 7919 % rows)
        produce(producer, topic, b'{"customer":"%s","n":1}' % key, key, START + i)
        if i % BATCH == 0:
            producer.poll(0)
    producer.flush()


def fill_table(bootstrap: str, rows: int) -> None:
    """A compacted topic with one record of each key."""
    make_topic(bootstrap, "customers", **{"cleanup.policy": "compact"})
    producer = quick_producer(bootstrap)
    for i in range(rows):
        value = b'{"name":"name of customer %d","city":"city %d"}' % (i, i % 1000)
        produce(producer, "customers", value, b"customer-%d" % i, START)
        if i % BATCH == 0:
            producer.poll(0)
    producer.flush()


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, EmbeddedBroker(heap="1g") as broker:
        print(f"{machine()}\n\n{HEAD}", flush=True)
        fill_table(broker.bootstrap, options.rows)
        make_topic(broker.bootstrap, "orders")
        one = measured(broker.bootstrap, Path(scratch) / "service", options)
        sizes = " | ".join(f"{size / 1e6:,.0f}" for size in (one.peak, one.after, one.state))
        print(f"| {options.rows:,} | {one.whole:.1f} | {one.load:.1f} | {sizes} | {one.rate:,.0f} |", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-tables", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=1_000_000, help="of the left side")
    parser.add_argument("--buckets", type=int, default=processors())
    parser.add_argument("--scratch", help="folder for the files of the service")
    return parser.parse_args()


if __name__ == "__main__":
    main()
