"""The results of all cells: tables, a file, and the comparison with an earlier file."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson

from benchmarks.peers.measure import Latency, Throughput

#: Sluice's ratio to this system is what `compare` looks at
REFERENCE = "Kafka Streams 4.1"
SUBJECT = "Sluice"
#: a ratio may be this much worse than the accepted one: runs of one system differ by as much
TOLERANCE = 0.10


@dataclass(frozen=True, slots=True)
class Cell:
    """All runs of one system on one row."""

    row: str
    system: str
    runs: Sequence[Throughput | Latency]

    @property
    def problem(self) -> str:
        return next((run.problem for run in self.runs if run.problem), "")

    def median(self, figure: str) -> float:
        return statistics.median(getattr(run, figure) for run in self.runs)

    def __str__(self) -> str:
        """A line of progress."""
        if self.problem:
            return f"{self.row}: {self.system}: FAILED: {self.problem}"
        names = (name for name in asdict(self.runs[0]) if name != "problem")
        figures = ", ".join(f"{name} {self.median(name):,.1f}" for name in names)
        return f"{self.row}: {self.system}: {figures}"


@dataclass(slots=True)
class Results:
    machine: str
    cells: list[Cell] = field(default_factory=list)

    def add(self, cell: Cell) -> None:
        self.cells.append(cell)

    def tables(self) -> str:
        """Markdown. A cell whose outputs were wrong in any run has no number."""
        throughput = [cell for cell in self.cells if isinstance(cell.runs[0], Throughput)]
        latency = [cell for cell in self.cells if isinstance(cell.runs[0], Latency)]
        head = f"{self.machine}, on {datetime.now(UTC):%Y-%m-%d}."
        parts = [head]
        if throughput:
            parts += [
                "Thousand records a second, steady (overall), median of the runs and range of the steady rate:",
                _table(throughput, _rates),
                "Processor seconds for a million records; peak memory, MB; seconds from the start to the first record:",
                _table(throughput, _costs),
            ]
        if latency:
            parts += ["Latency in milliseconds, p50 / p99:", _table(latency, _latencies)]
        return "\n\n".join(parts)

    def save(self, file: Path) -> None:
        file.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def load(cls, file: Path) -> Results:
        data = orjson.loads(file.read_bytes())
        cells = [Cell(c["row"], c["system"], [_run(run) for run in c["runs"]]) for c in data["cells"]]
        return cls(data["machine"], cells)


def compare(now: Results, accepted: Results) -> int:
    """Prints Sluice's ratio to Kafka Streams in each row now and then. Returns 1 if one got worse by TOLERANCE."""
    before, worse = dict(_ratios(accepted)), False
    for row, ratio in _ratios(now):
        known = before.get(row)
        fell = known is not None and ratio < known * (1 - TOLERANCE)
        worse |= fell
        print(f"{row}: {ratio:.2f}, accepted {'-' if known is None else f'{known:.2f}'}{', WORSE' if fell else ''}")
    return int(worse)


def _ratios(results: Results) -> Iterable[tuple[str, float]]:
    """For each row how many times Sluice is better than Kafka Streams: in steady throughput, or in median latency."""
    cells = {(cell.row, cell.system): cell for cell in results.cells if not cell.problem}
    for (row, system), cell in cells.items():
        other = cells.get((row, REFERENCE))
        if system == SUBJECT and other is not None:
            if isinstance(cell.runs[0], Latency):
                yield row, other.median("p50") / cell.median("p50")
            else:
                yield row, cell.median("steady") / other.median("steady")


def _run(run: dict[str, float | str]) -> Throughput | Latency:
    return Latency(**run) if "p50" in run else Throughput(**run)  # type: ignore[arg-type]


def _table(cells: Sequence[Cell], show: Callable[[Cell], str]) -> str:
    rows, systems = list(dict.fromkeys(c.row for c in cells)), list(dict.fromkeys(c.system for c in cells))
    shown = {(c.row, c.system): show(c) if not c.problem else "failed" for c in cells}
    lines = ["| | " + " | ".join(systems) + " |", "| --- |" + " --- |" * len(systems)]
    lines += [f"| {row} | " + " | ".join(shown.get((row, system), "-") for system in systems) + " |" for row in rows]
    return "\n".join(lines)


def _rates(cell: Cell) -> str:
    steady = [run.steady / 1000 for run in cell.runs if isinstance(run, Throughput)]
    spread = f", {min(steady):.0f} to {max(steady):.0f}" if len(steady) > 1 else ""
    return f"**{statistics.median(steady):.0f}** ({cell.median('rate') / 1000:.0f}){spread}"


def _costs(cell: Cell) -> str:
    return f"{cell.median('cpu'):.1f}; {cell.median('peak') / 1e6:,.0f}; {cell.median('start'):.1f}"


def _latencies(cell: Cell) -> str:
    return f"{cell.median('p50'):.0f} / {cell.median('p99'):.0f}"
