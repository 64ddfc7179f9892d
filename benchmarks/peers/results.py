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
    runs: list[Throughput | Latency]

    @property
    def problem(self) -> str:
        return next((run.problem for run in self.runs if run.problem), "")

    def median(self, figure: str) -> float:
        return statistics.median(getattr(run, figure) for run in self.runs)

    def __str__(self) -> str:
        """A line of progress: the last run."""
        figures = asdict(self.runs[-1])
        problem = figures.pop("problem")
        found = f"FAILED: {problem}" if problem else ", ".join(f"{name} {n:,.1f}" for name, n in figures.items())
        return f"run {len(self.runs)}, {self.row}: {self.system}: {found}"


@dataclass(slots=True)
class Results:
    """`days` are the dates on which runs were made, in ISO 8601."""

    machine: str
    cells: list[Cell] = field(default_factory=list)
    days: list[str] = field(default_factory=list)

    def of(self, row: str, system: str) -> Cell:
        """The cell, which is added if it is missing."""
        found = next((cell for cell in self.cells if (cell.row, cell.system) == (row, system)), None)
        if found is None:
            self.cells.append(found := Cell(row, system, []))
        return found

    def add(self, cell: Cell, run: Throughput | Latency) -> None:
        cell.runs.append(run)
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        if today not in self.days:
            self.days.append(today)

    def sections(self) -> dict[str, str]:
        """Markdown of what was measured, by section of the page. A cell whose outputs were wrong in any run has no
        number.
        """
        throughput = [cell for cell in self.cells if isinstance(cell.runs[0], Throughput)]
        latency = [cell for cell in self.cells if isinstance(cell.runs[0], Latency)]
        head, sections = f"{self.machine}, on {' and '.join(self.days)}.", {}
        if throughput:
            sections["peers"] = "\n\n".join([
                head,
                "Thousand records a second, steady (overall), median of the runs and range of the steady rate:",
                _table(throughput, _rates),
                "Processor seconds for a million records; peak memory, MB; seconds from the start to the first record:",
                _table(throughput, _costs),
            ])  # fmt: skip
        if latency:
            words = "Latency in milliseconds, p50 / p99; processors in use:"
            sections["latency"] = f"{head}\n\n{words}\n\n{_table(latency, _latencies)}"
        return sections

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def load(cls, file: Path) -> Results:
        data = orjson.loads(file.read_bytes())
        cells = [Cell(c["row"], c["system"], [_run(run) for run in c["runs"]]) for c in data["cells"]]
        return cls(data["machine"], cells, data["days"])


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
    cores = cell.median("cores")  # 0 in runs of an earlier version
    return f"{cell.median('p50'):.0f} / {cell.median('p99'):.0f}" + (f"; {cores:.2f}" if cores else "")
