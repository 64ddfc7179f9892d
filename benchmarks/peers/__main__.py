"""`make bench-peers`: Sluice and other systems on one broker, with one load, on this machine, each output checked."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.load import PARTITIONS
from benchmarks.machine import machine
from benchmarks.peers.measure import Latency, Throughput, latency, throughput
from benchmarks.peers.records import Load
from benchmarks.peers.results import Results, compare
from benchmarks.peers.system import System
from benchmarks.peers.systems.bytewax import Bytewax
from benchmarks.peers.systems.flink import FlinkSql
from benchmarks.peers.systems.kafka_streams import KafkaStreams
from benchmarks.peers.systems.quix import QuixStreams
from benchmarks.peers.systems.sluice_service import Sluice
from benchmarks.peers.workload import SPAN, WORKLOADS
from benchmarks.results_page import write
from sluice.files import project_file
from sluice.kafka.embedded_broker import EmbeddedBroker

#: workload, keys, and the records as a part of `--records`
ROWS = (
    ("pass", 100, 1.0), ("tumble", 100, 1.0), ("tumble", 10_000, 1.0), ("count", 100, 1.0), ("slide", 100, 1.0),
    ("slide", 10_000, 1.0), ("slidetime", 100, 1.0), ("join", 10_000, 0.1),
)  # fmt: skip
#: workload, records a second, the producer's `linger.ms`, topic partitions and busy processes of the latency table
LATENCIES = (
    ("pass", 1_000, 2, PARTITIONS, 0), ("slide", 1_000, 2, PARTITIONS, 0), ("slide", 1_000, 2, 1, 0),
    ("slide", 1_000, 2, 16, 0), ("slide", 10_000, 2, PARTITIONS, 0), ("slide", 10_000, 0, PARTITIONS, 0),
    ("slide", 10_000, 0, 16, 0), ("slide", 100_000, 2, PARTITIONS, 0), ("slide", 100_000, 2, 16, 0),
    ("slide", 1_000, 2, PARTITIONS, 2), ("slide", 10_000, 0, PARTITIONS, 2),
)  # fmt: skip
KEYS_OF_LATENCY = 100
SYSTEMS: Sequence[System] = (Sluice(), KafkaStreams(), FlinkSql(), Bytewax(), QuixStreams())
AT_LEAST_ONCE: Sequence[System] = (Sluice("at_least_once"), KafkaStreams("at_least_once"))
ACCEPTED = Path(__file__).with_name("accepted.json")
#: what an interrupted measurement has found, for --resume
MEASURED = project_file("build/peers/results.json")


def main() -> None:
    options = _options()
    systems = [one for one in _offered(options) if _chosen(one.name, options.systems)]
    if options.dry_run:
        for title, system, _ in _cells(systems, "", options):
            print(f"{title}: {system.name}, {system.guarantee}")
        return
    for system in systems:
        system.install()
    results = Results.load(MEASURED) if options.resume and MEASURED.exists() else Results(machine())
    with EmbeddedBroker(heap="1g") as broker:
        # Whole rounds: after an interruption the tables are complete, with fewer runs.
        for number in range(options.runs):
            for title, system, measured in _cells(systems, broker.bootstrap, options):
                cell = results.of(title, system.name)
                if len(cell.runs) <= number:
                    results.add(cell, measured())
                    results.save(MEASURED)
                    print(cell, flush=True)
    _show(results, into_page=options.write)
    if options.accept:
        results.save(ACCEPTED)
    if options.check:
        raise SystemExit(compare(results, Results.load(ACCEPTED)))


def _show(results: Results, *, into_page: bool) -> None:
    for section, tables in results.sections().items():
        print(f"\n{tables}")
        if into_page:
            write(section, tables.splitlines())


def _offered(options: argparse.Namespace) -> Sequence[System]:
    return [*SYSTEMS, *AT_LEAST_ONCE] if options.at_least_once else SYSTEMS


def _cells(
    systems: Sequence[System], bootstrap: str, options: argparse.Namespace
) -> Iterator[tuple[str, System, Callable[[], Throughput | Latency]]]:
    """Title, system, and the function that makes one run, for all cells of the tables that were asked for."""
    if not options.latency_only:
        for (name, keys, part), system in itertools.product(ROWS, systems):
            workload = WORKLOADS[name]
            title = f"{workload.title}, {keys:,} keys"
            if name not in system.unsupported and _chosen(title, options.workloads):
                records = _whole(options.records * part * system.scale.get(name, 1.0))
                yield title, system, partial(throughput, system, workload, bootstrap, records, keys)
    if not options.throughput_only:
        for (name, rate, *how), system in itertools.product(LATENCIES, systems):
            workload, load = WORKLOADS[name], Load(rate, options.seconds, KEYS_OF_LATENCY, *how)
            title = f"{workload.title}, {_words(load)}"
            if _chosen(title, options.workloads):
                yield title, system, partial(latency, system, workload, bootstrap, load)


def _words(load: Load) -> str:
    requests = "" if load.linger_ms else " in a request each"
    places = "" if load.partitions == PARTITIONS else f", topic partitions: {load.partitions}"
    return f"{load.rate:,} records/s{requests}{places}" + (f", beside {load.busy} busy processes" if load.busy else "")


def _whole(records: float) -> int:
    """A number of records that fills windows of time."""
    return max(SPAN, round(records / SPAN) * SPAN)


def _chosen(title: str, words: Sequence[str]) -> bool:
    return not words or any(word.lower() in title.lower() for word in words)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    add = parser.add_argument
    add("--records", type=int, default=3_000_000, help="input records of a run; slow systems get fewer (%(default)s)")
    add("--runs", type=int, default=3, help="runs of each cell; the tables have the median and the range (%(default)s)")
    add("--seconds", type=float, default=60, help="seconds of a latency run; the last 60 %% count (%(default)s)")
    add("--systems", nargs="*", default=[], help="only systems whose name contains one of these words")
    add("--workloads", nargs="*", default=[], help="only rows whose title contains one of these words")
    add("--at-least-once", action="store_true", help="also Sluice and Kafka Streams with at-least-once delivery")
    add("--throughput-only", action="store_true")
    add("--latency-only", action="store_true")
    add("--resume", action="store_true", help="go on with an interrupted measurement, whose runs are kept")
    add("--dry-run", action="store_true", help="list the cells, and run nothing")
    add("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    add("--accept", action="store_true", help=f"save the results in {ACCEPTED.name}, with which --check compares")
    add("--check", action="store_true", help="end with 1 if Sluice lost ground to Kafka Streams since --accept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
