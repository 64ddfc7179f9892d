"""`make bench`: throughput, latency and memory of the whole way, Kafka to Kafka, exactly once, on this machine."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.load import fill, make_topic, trickle
from benchmarks.machine import machine
from benchmarks.results_page import write
from benchmarks.running import latencies, service
from benchmarks.throughput import throughput
from benchmarks.workloads import WORKLOADS, Workload
from sluice.kafka.embedded_broker import EmbeddedBroker

#: seconds that count of a latency run
SECONDS = 30
HEAD = "| workload | records/s | p50 ms | p99 ms | peak memory MB |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True, slots=True)
class Figures:
    title: str
    rate: float
    p50: float
    p99: float
    memory: int

    def __str__(self) -> str:
        p50, p99 = (f"{one:.0f}" if one else "not measured" for one in (self.p50, self.p99))
        return f"| {self.title} | {self.rate:,.0f} | {p50} | {p99} | {self.memory / 1e6:,.0f} |"


def main() -> None:
    options = _options()
    chosen = [w for w in WORKLOADS if options.only in w.title]
    table = [HEAD]
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        print(f"{machine()}\n\n{HEAD}", flush=True)
        for keys in sorted({w.keys for w in chosen}):
            topic = f"records-{keys}"
            make_topic(broker.bootstrap, topic)
            fill(broker.bootstrap, topic, options.warm_up + options.records, keys)
        for number, workload in enumerate(chosen):
            figures = _measure(workload, broker.bootstrap, Path(scratch), f"bench-{number}", options)
            table.append(str(figures))
            print(figures, flush=True)
    if options.write:
        _write(table, options)


def _measure(workload: Workload, bootstrap: str, scratch: Path, name: str, options: argparse.Namespace) -> Figures:
    rate, memory = throughput(
        workload,
        bootstrap,
        scratch / f"{name}-rate",
        f"records-{workload.keys}",
        warm_up=options.warm_up,
        records=options.records,
    )
    p50 = p99 = 0.0
    if options.latency:
        p50, p99 = _latency(workload, bootstrap, scratch / f"{name}-latency", f"{name}-latency", options)
    return Figures(workload.title, rate, p50, p99, memory)


def _latency(
    workload: Workload, bootstrap: str, folder: Path, name: str, options: argparse.Namespace
) -> tuple[float, float]:
    """Milliseconds from sending a record to reading what it made, committed: median and 99th percentile."""
    source, target = f"{name}-records", f"{name}-results"
    make_topic(bootstrap, source)
    with service(workload.pipeline(name, source, target), bootstrap, folder) as running:
        running.await_start()
        keys, length = min(workload.keys, 100), options.settle + SECONDS
        sender = threading.Thread(target=trickle, args=(bootstrap, source, options.rate, length, keys))
        sender.start()
        # A window of time tells once in ten seconds: what it has from the last record of each key.
        expected = options.rate * length if "time" not in workload.name else keys * (length // 10 - 1)
        seen = latencies(running, bootstrap, target, expected)
        sender.join()
    last = max(sent for sent, _ in seen)
    counted = [seconds * 1000 for sent, seconds in seen if sent > last - SECONDS]
    return statistics.median(counted), statistics.quantiles(counted, n=100)[98]


def _write(table: list[str], options: argparse.Namespace) -> None:
    when = f"{options.records:,} records after a warm-up of {options.warm_up:,}, on {datetime.now(UTC):%Y-%m-%d}:"
    write("results", [f"{machine()}.", when, "", *table])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--warm-up", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="run the workloads whose title has this")
    parser.add_argument(
        "--settle", type=int, default=60,
        help="seconds of a latency run that do not count: processes start, Java compiles (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--rate", type=int, default=1000, help="records a second of a latency run (%(default)s)")
    parser.add_argument("--no-latency", dest="latency", action="store_false")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
