"""`make bench-costs`: what a record costs in each process while records wait, and which process has how much memory."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.batch_account import STEPS
from benchmarks.machine import machine
from benchmarks.metric_samples import Reading
from benchmarks.peers.measure import LIMIT, Program, running
from benchmarks.peers.records import fill
from benchmarks.peers.systems.sluice_service import Sluice
from benchmarks.peers.workload import WORKLOADS, Workload
from benchmarks.processes import cpu_seconds, memory, tree
from benchmarks.processor_account import OTHERS, SERVICE, process_of
from benchmarks.results_page import write
from benchmarks.service_metrics import scraped
from sluice.kafka.embedded_broker import EmbeddedBroker, free_ports

NAMES, KEYS = ("pass", "tumble", "slide"), 100
#: the parts of the records after which the measurement begins and ends
BEGIN, END = 0.4, 0.9
BROKER = "broker"
COLUMNS = ("Java", "readers", "state servers", SERVICE, OTHERS)


@dataclass(frozen=True, slots=True)
class Look:
    """The figures of a service at a time in seconds: tuples read, processor seconds by process, and seconds by step of
    a batch.
    """

    at: float
    read: float
    cpu: Mapping[str, float]
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Costs:
    """`memory`: the bytes of each process at `after`; a page that several share counts once (PSS)."""

    title: str
    before: Look
    after: Look
    memory: Mapping[str, float]

    @property
    def records(self) -> float:
        return self.after.read - self.before.read

    def row(self) -> str:
        """Records a second, and microseconds for a record: of processor time by process, and of time by step."""
        cpu = [self._each(self.before.cpu, self.after.cpu, name) for name in (BROKER, *COLUMNS)]
        steps = [self._each(self.before.steps, self.after.steps, name) for name in STEPS]
        cells = [f"{self.records / (self.after.at - self.before.at):,.0f}", *(f"{one:.2f}" for one in (*cpu, *steps))]
        return f"| {self.title} | {' | '.join(cells)} |"

    def _each(self, before: Mapping[str, float], after: Mapping[str, float], name: str) -> float:
        return (after.get(name, 0) - before.get(name, 0)) / self.records * 1e6

    def memory_row(self) -> str:
        cells = [self.memory.get(name, 0) / 1e6 for name in COLUMNS]
        return f"| {self.title} | {' | '.join(f'{one:,.0f}' for one in [*cells, sum(cells)])} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-costs ARGS=", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="records of a run (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    options = parser.parse_args()
    with EmbeddedBroker(heap="1g") as broker:
        fill(broker.bootstrap, topic := "records", options.records, KEYS)
        found = [_costs(WORKLOADS[name], broker, topic, options.records) for name in NAMES]
    lines = [f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}: {KEYS} keys.", "", *_tables(found)]
    print(*lines, sep="\n")
    if options.write:
        write("costs", lines)


def _costs(workload: Workload, broker: EmbeddedBroker, topic: str, records: int) -> Costs:
    port = free_ports(1)[0]
    with running(Sluice(http=port), workload, broker.bootstrap, [topic], live=False) as program:
        before, after = (_look_after(share * records, program, broker.pid, port) for share in (BEGIN, END))
        return Costs(workload.title, before, after, _by_process(program, broker.pid, memory))


def _look_after(records: float, program: Program, broker: int, port: int) -> Look:
    """The figures when so many records have been read. Raises SystemExit if that takes too long."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and program.process.exit_code is None:
        with suppress(OSError):  # the page is not open yet
            reading = scraped(port)
            if _read(reading) >= records:
                cpu = _by_process(program, broker, cpu_seconds)
                steps = {step: reading.value("sluice_batch_step_seconds_sum", step=step) or 0.0 for step in STEPS}
                return Look(reading.at, _read(reading), cpu, steps)
        time.sleep(0.05)
    raise SystemExit(f"{records:,.0f} records were not read\n{program.text()[-3000:]}")


def _read(reading: Reading) -> float:
    return reading.value("sluice_records_read_total", kind="tuple") or 0.0


def _by_process(program: Program, broker: int, figure: Callable[[int], float]) -> dict[str, float]:
    """The sums of a figure of the processes, by what the tables call them."""
    root, found = program.process.pid, defaultdict[str, float](float)
    for pid in (broker, *tree(root)):
        with suppress(OSError):  # the process has ended
            found[BROKER if pid == broker else process_of(pid, root)] += figure(pid)
    return found


def _tables(found: Sequence[Costs]) -> list[str]:
    columns = ["records/s", *(f"{name}, µs" for name in (BROKER, *COLUMNS)), *(f"*{step}*, µs" for step in STEPS)]
    held = [f"{name}, MB" for name in (*COLUMNS, "together")]
    return [
        _head(columns), *(one.row() for one in found), "",
        _head(held), *(one.memory_row() for one in found),
    ]  # fmt: skip


def _head(columns: Sequence[str]) -> str:
    return f"| | {' | '.join(columns)} |\n| --- |" + " --- |" * len(columns)


if __name__ == "__main__":
    main()
