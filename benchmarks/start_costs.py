"""What each measure that shortens a start or a batch saves: runs of the service with and without it, in turn.

    python -m benchmarks.start_costs                     a start, up to the end of a first batch of 1,000 records
    python -m benchmarks.start_costs --batch             a batch at 500 records a second
    python -m benchmarks.start_costs --only "command written down"

Processor time is that of all processes of the service, user and system, with the children that have ended. The median
of the runs is given, and of the time on the clock the shortest, which other programs disturb least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.load import fill, make_topic, trickle
from benchmarks.machine import machine
from benchmarks.processes import cpu_seconds, tree
from benchmarks.running import PATIENCE, Service, service
from benchmarks.without import ARCHIVE, MEASURES
from benchmarks.workloads import sliding
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.spark.java import write_class_archive

TOPIC, RECORDS, KEYS, RATE = "records", 1_000, 100, 500
#: seconds of a batch run that do not count, and seconds that do
WARM_UP_S, COUNTED_S = 4.0, 8.0
BATCH_MEASURES = (
    "early work", "no Java code of plans", "local file system", "no checksums of entries",
    "25 ms between requests for offsets",
)  # fmt: skip
#: measures of batches that are jobs of Spark, which `--jobs` compares
JOB_MEASURES = ("no checksums and compression of shuffles", "one daemon of Python workers")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of processor time, and on the clock."""

    processor: float
    clock: float


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        folder = Path(scratch, "archive")
        os.environ[ARCHIVE] = str(folder)
        write_class_archive.make(folder)
        make_topic(broker.bootstrap, TOPIC)
        fill(broker.bootstrap, TOPIC, RECORDS, KEYS)
        run = partial(_batch if options.batch or options.jobs else _start, Path(scratch), broker.bootstrap, options)
        run("nothing", -1)  # loads the kernels
        costs = _in_turn(["nothing", *_chosen(options)], options.runs, run)
    print(
        f"{machine()}, {options.runs} runs in turn, in {'ms of a batch' if options.batch or options.jobs else 's'}:\n"
    )
    print(*_table(costs, 1000 if options.batch or options.jobs else 1), sep="\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_costs", description=__doc__)
    parser.add_argument("--batch", action="store_true", help="compare batches in place of starts")
    parser.add_argument("--jobs", action="store_true", help="compare batches that are jobs of Spark")
    parser.add_argument("--only", nargs="*", choices=MEASURES, help="these measures")
    parser.add_argument("--runs", type=int, default=5, help="runs with and without each measure (%(default)s)")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Sequence[str]:
    if options.only or options.jobs:
        return options.only or JOB_MEASURES
    if options.batch:
        return BATCH_MEASURES
    return [name for name in MEASURES if name not in {"nothing", *BATCH_MEASURES, *JOB_MEASURES}]


def _in_turn(names: Sequence[str], runs: int, run: Callable[[str, int], Cost]) -> dict[str, list[Cost]]:
    costs = defaultdict[str, list[Cost]](list)
    for number in range(runs):
        for name in names:
            costs[name].append(run(name, number))
            print(f"{number} {name}: {costs[name][-1]}", flush=True)
    return costs


def _start(scratch: Path, bootstrap: str, options: argparse.Namespace, measure: str, number: int) -> Cost:
    """The cost of a start up to the end of its first batch."""
    began = time.monotonic()
    with _service(scratch, bootstrap, options, measure, number) as (running, checkpoint):
        _await_batch(running, checkpoint)
        return Cost(_processor_seconds(running), time.monotonic() - began)


def _batch(scratch: Path, bootstrap: str, options: argparse.Namespace, measure: str, number: int) -> Cost:
    """The processor time of the service for each batch, and the median time from its plan to its commit."""
    with _service(scratch, bootstrap, options, measure, number) as (running, checkpoint):
        _await_batch(running, checkpoint)
        seconds = WARM_UP_S + COUNTED_S + 1
        sender = threading.Thread(target=trickle, args=(bootstrap, TOPIC, RATE, seconds, KEYS), daemon=True)
        sender.start()
        time.sleep(WARM_UP_S)
        before, spans = _processor_seconds(running), dict[int, float]()
        first, end = _newest(checkpoint), time.monotonic() + COUNTED_S
        while time.monotonic() < end:
            time.sleep(0.1)
            spans |= _spans(checkpoint)
        batches, used = _newest(checkpoint) - first, _processor_seconds(running) - before
        sender.join()
        return Cost(used / batches, statistics.median(span for batch, span in spans.items() if batch > first))


@contextmanager
def _service(
    scratch: Path, bootstrap: str, options: argparse.Namespace, measure: str, number: int
) -> Iterator[tuple[Service, Path]]:
    """A new pipeline without the measure, and its checkpoint."""
    name = f"{measure.replace(' ', '-')}-{number}"
    workload = replace(sliding(KEYS), settings={"direct_records": 0} if options.jobs else {})
    pipeline, program = workload.pipeline(name, TOPIC, "results"), ("benchmarks.without", measure)
    with service(pipeline, bootstrap, scratch / name, program=program) as running:
        yield running, scratch / name / "checkpoint"


def _await_batch(running: Service, checkpoint: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (checkpoint / "commits" / "0").exists():
        running.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no batch after {PATIENCE} s")
        time.sleep(0.01)


def _processor_seconds(running: Service) -> float:
    together = 0.0
    for pid in tree(running.process.pid):
        try:
            together += cpu_seconds(pid, ended_children=True)
        except OSError:  # the process has ended, and its parent has its time
            continue
    return together


def _newest(checkpoint: Path) -> int:
    return max(int(entry.name) for entry in (checkpoint / "commits").glob("[0-9]*"))


def _spans(checkpoint: Path) -> dict[int, float]:
    """Seconds from the entry in the log of offsets to that in the log of commits, of the batches that are kept."""
    spans = {}
    for entry in (checkpoint / "commits").glob("[0-9]*"):
        try:
            planned = (checkpoint / "offsets" / entry.name).stat().st_mtime_ns
            spans[int(entry.name)] = (entry.stat().st_mtime_ns - planned) / 1e9
        except FileNotFoundError:  # it is removed just now
            continue
    return spans


def _table(costs: dict[str, list[Cost]], unit: int) -> list[str]:
    rows = ["| without | processor time | saved | on the clock | saved |", "| --- | --- | --- | --- | --- |"]
    processor = {name: statistics.median(one.processor for one in runs) * unit for name, runs in costs.items()}
    clock = {name: min(one.clock for one in runs) * unit for name, runs in costs.items()}
    for name in costs:
        used, passed = processor[name], clock[name]
        saved, sooner = used - processor["nothing"], passed - clock["nothing"]
        rows.append(f"| {name} | {used:.2f} | {saved:+.2f} | {passed:.2f} | {sooner:+.2f} |")
    return rows


if __name__ == "__main__":
    main()
