"""`make bench-batch`: where the time of a batch goes while records come at a fixed rate, by phases and steps, and its
processor time, by processes, threads and steps, which is the same on a busy machine.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from benchmarks.machine import machine
from benchmarks.metric_samples import Reading
from benchmarks.peers.measure import COUNTED, Program, latency
from benchmarks.peers.records import Load
from benchmarks.peers.systems.sluice_service import Sluice
from benchmarks.peers.workload import WORKLOADS
from benchmarks.processor_account import SERVICE, Seconds, processor_seconds
from benchmarks.results_page import write
from benchmarks.service_metrics import scraped
from sluice.files import project_file
from sluice.kafka.embedded_broker import EmbeddedBroker, free_ports
from sluice.svg.svg_canvas import SERIES, Canvas

RATES = (1_000, 10_000)
WORKLOAD, KEYS = WORKLOADS["slide"], 100
PICTURE = "batch-account.svg"
#: value of the histogram's label -> name in the table, in the order of a batch
SPARK = {
    "latestOffset": "Spark: ask for the end offsets",
    "walCommit": "Spark: write the offsets",
    "getBatch": "Spark: divide the records",
    "queryPlanning": "Spark: plan",
    "addBatch": "Spark: call the service, and wait for it",
    "commitOffsets": "Spark: write the commit",
}
STEPS = {
    "read": "read: receive, decode, divide among buckets",
    "compute": "compute: windows in the state servers",
    "produce": "produce: merge, hand over to the client",
    "commit": "commit: end the transaction",
}
PARTS: Sequence[tuple[str, Mapping[str, str], str]] = [
    *(("sluice_batch_phase_seconds", {"phase": name}, title) for name, title in SPARK.items()),
    ("sluice_batch_duration_seconds", {}, "**whole batch of Spark**"),
    *(("sluice_batch_step_seconds", {"step": name}, title) for name, title in STEPS.items()),
]
#: processor seconds of a batch below which the table has no row for the threads of a kind
LEAST = 0.0002
#: pixels of the picture: the names, a column, a row, the space between two rates
NAMES, COLUMN, ROW, SPACE = 290, 34, 30, 24


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` has (upper bound in seconds, number of values up to it), by bound."""

    total: float
    count: float
    counts: Sequence[tuple[float, float]]

    def since(self, earlier: Histogram) -> Histogram:
        before = dict(earlier.counts)
        counts = [(bound, count - before.get(bound, 0.0)) for bound, count in self.counts]
        return Histogram(self.total - earlier.total, self.count - earlier.count, counts)

    @property
    def mean(self) -> float:
        """Seconds."""
        return self.total / self.count if self.count else 0.0

    def bound_of(self, share: float) -> float:
        """The smallest bound that this share of the values does not exceed, seconds."""
        return next((bound for bound, count in self.counts if count >= share * self.count), float("inf"))

    def shares(self) -> list[float]:
        """The share of the values between each bound and the one before it."""
        counts = [0.0, *(count for _, count in self.counts)]
        return [(b - a) / max(1.0, self.count) for a, b in itertools.pairwise(counts)]


@dataclass(frozen=True, slots=True)
class Account:
    """What a run at a rate gave: a histogram for each of PARTS, processor seconds of a batch by process and thread, and
    by step, seconds between two batches, and the latency in ms.
    """

    rate: int
    parts: Sequence[Histogram]
    processors: Seconds
    steps: Mapping[str, float]
    apart: float
    p50: float
    p99: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-batch ARGS=", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="seconds of a run (%(default)s)")
    parser.add_argument("--rates", type=int, nargs="*", default=RATES, help="records a second (%(default)s)")
    parser.add_argument("--latency", default="low", help="the pipeline file's `latency` (%(default)s: all batches)")
    parser.add_argument("--write", action="store_true", help="put table and picture into docs")
    options = parser.parse_args()
    with EmbeddedBroker(heap="1g") as broker:
        accounts = [
            _account(broker.bootstrap, Load(rate, options.seconds, KEYS), options.latency) for rate in options.rates
        ]
    lines = [
        f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}: {WORKLOAD.title}, {KEYS} keys.", "", *_table(accounts), "",
        "Processor time of a batch:", "", *_processor_table(accounts), "",
        f"![How long each part of a batch takes]({PICTURE})",
    ]  # fmt: skip
    print(*lines, sep="\n")
    if options.write:
        write("batch", lines)
        project_file(f"docs/{PICTURE}").write_text(_picture(accounts))


def _account(bootstrap: str, load: Load, latency_setting: str) -> Account:
    port = free_ports(1)[0]
    looks: list[Look] = []
    system = Sluice(latency=latency_setting, http=port)
    found = latency(system, WORKLOAD, bootstrap, load, partial(_look_twice, port, load.seconds, looks))
    if found.problem:
        raise SystemExit(found.problem)
    before, after = looks
    parts = [now.since(then) for now, then in zip(after.parts, before.parts, strict=True)]
    batches = next(part.count for (name, *_), part in zip(PARTS, parts, strict=True) if "duration" in name)
    processors = {key: (used - before.processors.get(key, 0.0)) / batches for key, used in after.processors.items()}
    steps = {step: (used - before.steps[step]) / batches for step, used in after.steps.items()}
    return Account(load.rate, parts, processors, steps, (after.at - before.at) / batches, found.p50, found.p99)


@dataclass(frozen=True, slots=True)
class Look:
    """The figures of a service so far, at a time in seconds."""

    at: float
    parts: Sequence[Histogram]
    processors: Seconds
    steps: Mapping[str, float]

    @classmethod
    def at_once(cls, port: int, pid: int) -> Look:
        reading = scraped(port)
        steps = {step: reading.value("sluice_batch_step_cpu_seconds_total", step=step) or 0.0 for step in STEPS}
        parts = [_histogram(reading, name, labels) for name, labels, _ in PARTS]
        return cls(reading.at, parts, processor_seconds(pid), steps)


def _look_twice(port: int, seconds: float, looks: list[Look], program: Program) -> None:
    """Reads the figures at the begin and at the end of the part that counts."""
    time.sleep(seconds * (1 - COUNTED))
    looks.append(Look.at_once(port, program.process.pid))
    time.sleep(seconds * COUNTED * 0.95)
    looks.append(Look.at_once(port, program.process.pid))


def _histogram(reading: Reading, name: str, labels: Mapping[str, str]) -> Histogram:
    counts = [(float(own["le"]), count) for own, count in reading.values(f"{name}_bucket", **labels)]
    total, count = (reading.value(f"{name}_{what}", **labels) or 0.0 for what in ("sum", "count"))
    return Histogram(total, count, sorted(counts))


def _table(accounts: Sequence[Account]) -> list[str]:
    heads = [f"{account.rate:,} records/s, mean ms (p99 at most)" for account in accounts]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for number, (_, _, title) in enumerate(PARTS):
        cells = [_cell(account.parts[number]) for account in accounts]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    apart = [f"{account.apart * 1000:.1f}" for account in accounts]
    delays = [f"{account.p50:.0f} / {account.p99:.0f}" for account in accounts]
    lines.append("| from one batch to the next | " + " | ".join(apart) + " |")
    lines.append("| latency of a record, p50 / p99 | " + " | ".join(delays) + " |")
    return lines


def _processor_table(accounts: Sequence[Account]) -> list[str]:
    """Milliseconds of processor time of a batch, by process, thread and step."""
    heads = [f"{account.rate:,} records/s, ms" for account in accounts]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    keys = sorted({key for account in accounts for key in account.processors})
    for process in sorted({process for process, _ in keys}):
        lines.append(_row(f"**{process}**", [_used(account, process) for account in accounts]))
        for key in keys:
            used = [account.processors.get(key, 0.0) for account in accounts]
            if key[0] == process and max(used) >= LEAST:
                lines.append(_row(": ".join(key), used))
    lines += [_row(f"{SERVICE}: {title}", [one.steps[step] for one in accounts]) for step, title in STEPS.items()]
    lines.append(_row("**together**", [sum(account.processors.values()) for account in accounts]))
    cores = [sum(account.processors.values()) / account.apart for account in accounts]
    lines.append("| processors in use | " + " | ".join(f"{one:.2f}" for one in cores) + " |")
    return lines


def _used(account: Account, process: str) -> float:
    return sum(used for (name, _), used in account.processors.items() if name == process)


def _row(title: str, seconds: Sequence[float]) -> str:
    return f"| {title} | " + " | ".join(f"{one * 1000:.1f}" for one in seconds) + " |"


def _cell(part: Histogram) -> str:
    return f"{part.mean * 1000:.1f} ({part.bound_of(0.99) * 1000:g})" if part.count else "-"


def _picture(accounts: Sequence[Account]) -> str:
    """For each part a row of bars: the share of its durations between two bounds, at each rate."""
    shown = [(number, title.strip("*")) for number, (name, _, title) in enumerate(PARTS) if "duration" not in name]
    bounds = [bound for bound, _ in accounts[0].parts[shown[0][0]].counts if bound <= 1]
    wide, canvas = COLUMN * len(bounds), Canvas("How long each part of a batch takes")
    for index, account in enumerate(accounts):
        left = NAMES + (wide + SPACE) * index
        canvas.text(left, 18, f"{account.rate:,} records/s: up to so many milliseconds")
        for n, bound in enumerate(bounds):
            canvas.text(left + COLUMN * n, 38, f"{bound * 1000:g}", most=COLUMN - 2)
        for row, (number, _) in enumerate(shown):
            foot = ROW * (row + 2) + ROW - 4
            canvas.line(left, foot, left + wide, foot, kind="line")
            for n, share in enumerate(account.parts[number].shares()[: len(bounds)]):
                tall = share * (ROW - 6)
                canvas.box(left + COLUMN * n, foot - tall, COLUMN - 4, max(tall, 0.5), f"c{index}", radius=0)
    for row, (_, title) in enumerate(shown):
        canvas.text(8, ROW * (row + 2) + ROW - 8, title, most=NAMES - 12)
    width, height = NAMES + (wide + SPACE) * len(accounts), ROW * (len(shown) + 2)
    return canvas.document(width, height, "\n".join(f".c{number}{{fill:var(--c{number})}}" for number in range(SERIES)))


if __name__ == "__main__":
    main()
