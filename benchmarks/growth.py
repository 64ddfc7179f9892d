"""`make bench-growth`: how the throughput changes with what grows in production, one plot for each.

The window's length, the keys, the size of a record, the topic partitions, the buckets, the cores; and the time of a
batch while the state of its windows grows. Each point is a run of the whole way, Kafka to Kafka, exactly once, whose
outputs are counted.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from benchmarks.load import PARTITIONS, fill, make_topic
from benchmarks.machine import machine
from benchmarks.plot import Line, Points, svg
from benchmarks.results_page import write
from benchmarks.running import batches, service, tuples_read
from benchmarks.throughput import throughput
from benchmarks.workloads import Workload, sliding, tumbling
from sluice.files import project_file
from sluice.kafka.batch_report import Entry
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import processors

#: keys where the number of keys is not what grows
KEYS = 100
#: bytes of a record without padding
PLAIN = 55
#: bytes of all records of a run with large records
LARGE = 1_500_000_000
#: the windows whose growing state `_held` measures: their length, keys, and the records of a batch
DEEP, WIDE, STEP = 1000, 10_000, 200_000
#: up to here figures have decimals
SMALL = 100


@dataclass(frozen=True, slots=True)
class Load:
    """The records of a run."""

    keys: int = KEYS
    partitions: int = PARTITIONS
    padding: int = 0

    @property
    def topic(self) -> str:
        return f"records-{self.keys}-{self.partitions}-{self.padding}"


@dataclass(frozen=True, slots=True)
class Run:
    """A point of a line: `value` of what grows."""

    value: float
    workload: Workload
    load: Load = Load()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """What grows (`name` of the file, `axis` of the plot), and the runs of each line."""

    name: str
    axis: str
    lines: Mapping[str, Sequence[Run]]


#: the lines of the plots in which the window stays the same, by the number of keys
USUAL: dict[str, Callable[[int], Workload]] = {"tumbling, time(10)": tumbling, "sliding, count(100)": sliding}


def _usual(runs: Callable[[Callable[[int], Workload]], list[Run]]) -> dict[str, list[Run]]:
    return {name: runs(workload) for name, workload in USUAL.items()}


def _plots() -> list[Plot]:
    lengths = {
        "sliding, 100 keys": [Run(n, sliding(KEYS, n)) for n in (10, 100, 1000, 10_000)],
        "sliding, 1 key": [Run(n, sliding(1, n), Load(1)) for n in (10, 1000, 100_000, 1_000_000)],
    }
    keys = _usual(lambda of: [Run(n, of(n), Load(n)) for n in (1, 100, 10_000, 100_000, 1_000_000)])
    sizes = _usual(lambda of: [Run(PLAIN + n, of(KEYS), Load(padding=n)) for n in (0, 450, 2000, 10_000)])
    partitions = _usual(lambda of: [Run(n, of(KEYS), Load(partitions=n)) for n in (1, 2, 8, 64)])
    buckets = _usual(lambda of: [Run(n, replace(of(KEYS), settings={"buckets": n})) for n in (1, 2, 4, 8)])
    spark = _usual(
        lambda of: [Run(n, of(KEYS), options=("--master", f"local[{n}]")) for n in range(1, processors() + 1)]
    )
    return [
        Plot("length", "records of a window", lengths),
        Plot("keys", "keys", keys),
        Plot("size", "bytes of a record", sizes),
        Plot("partitions", "topic partitions of the input", partitions),
        Plot("buckets", "buckets", buckets),
        Plot("cores", "cores of Spark", spark),
    ]


def main() -> None:
    options = _options()
    lines = [f"{machine()}.", f"{options.records:,} records after a warm-up, on {datetime.now(UTC):%Y-%m-%d}:"]
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        measured = Measured(broker.bootstrap, Path(scratch), options.records)
        for plot in _plots():
            if options.only in plot.name:
                found = {name: measured.line(plot, name) for name in plot.lines}
                lines += _shown(plot.name, (plot.axis, "records/s"), found, draw=options.write)
                _keep(lines, options)
        if options.only in "state":
            held = {f"sliding, count({DEEP}), {WIDE:,} keys": measured.held(10 * options.records)}
            lines += _shown(
                "state", ("tuples that all windows hold", "microseconds per record"), held, draw=options.write
            )
            _keep(lines, options)


def _keep(lines: Sequence[str], options: argparse.Namespace) -> None:
    """Writes what has been measured so far, so that it stays if a later run fails."""
    if options.write:
        write("growth", lines)


class Measured:
    """Runs on one broker. Topics that several runs read are filled once."""

    def __init__(self, bootstrap: str, scratch: Path, records: int) -> None:
        self._bootstrap, self._scratch, self._records = bootstrap, scratch, records
        self._filled: set[str] = set()
        self._runs = 0

    def line(self, plot: Plot, name: str) -> Points:
        """Records per second by what grows."""
        return [(run.value, self._rate(plot, name, run)) for run in plot.lines[name]]

    def _rate(self, plot: Plot, name: str, run: Run) -> float:
        records = min(self._records, LARGE // (PLAIN + run.load.padding))
        warm_up = records // 2
        self._fill(run.load, warm_up + records)
        folder = self._folder(plot.name)
        rate, memory = throughput(
            run.workload, self._bootstrap, folder, run.load.topic, warm_up=warm_up, records=records, options=run.options
        )
        print(f"{plot.axis} {run.value:,.0f}, {name}: {rate:,.0f} records/s, {memory / 1e6:,.0f} MB", flush=True)
        return rate

    def held(self, records: int) -> Points:
        """Microseconds per record of a batch, by the tuples that the windows hold after it."""
        load = Load(WIDE)
        topic, folder = f"{load.topic}-deep", self._folder("state")
        make_topic(self._bootstrap, topic)
        fill(self._bootstrap, topic, records, WIDE)
        workload = replace(sliding(WIDE, DEEP), settings={"max_records_per_batch": STEP})
        with service(
            workload.pipeline(folder.name, topic, f"{folder.name}-results"), self._bootstrap, folder
        ) as running:
            entries = batches(running, self._bootstrap, folder.name, records)
        return list(_means(_times(entries)))

    def _fill(self, load: Load, records: int) -> None:
        if load.topic not in self._filled:
            make_topic(self._bootstrap, load.topic, load.partitions)
            fill(self._bootstrap, load.topic, records, load.keys, partitions=load.partitions, padding=load.padding)
            self._filled.add(load.topic)

    def _folder(self, name: str) -> Path:
        self._runs += 1
        return self._scratch / f"growth-{name}-{self._runs}"


def _times(entries: Sequence[Entry]) -> Iterator[tuple[int, float]]:
    """After each batch: the records read so far, and the microseconds per record of this batch."""
    read = 0
    for before, entry in pairwise(entries):
        read += tuples_read(before)
        if count := tuples_read(entry):
            yield read + count, (entry.at - before.at) * 1000 / count


def _means(times: Iterator[tuple[int, float]], group: int = 5) -> Iterator[tuple[float, float]]:
    """The mean of each five batches, without the first five, in which compilers warm up."""
    every = list(times)
    for start in range(group, len(every) - group + 1, group):
        some = every[start : start + group]
        yield some[-1][0], sum(time for _, time in some) / len(some)


def _shown(name: str, axes: tuple[str, str], lines: Mapping[str, Points], *, draw: bool) -> Iterator[str]:
    """The tables of the lines; with `draw` the plot of them, which is written."""
    title = f"{axes[1].capitalize()} by {axes[0]}"
    yield ""
    if draw:
        drawn = [Line(line, points, points) for line, points in lines.items()]
        project_file(f"docs/growth-{name}.svg").write_text(svg(title, axes, drawn))
        yield f"![{title}](growth-{name}.svg)"
        return
    for values, names in _by_values(lines).items():
        yield f"| {axes[1]} by {axes[0]} | {' | '.join(f'{value:,.0f}' for value in values)} |"
        yield f"|{' --- |' * (len(values) + 1)}"
        yield from (f"| {name} | {' | '.join(_figure(each) for _, each in lines[name])} |" for name in names)
        yield ""


def _by_values(lines: Mapping[str, Points]) -> dict[tuple[float, ...], list[str]]:
    """The names of the lines that share the values of their axis: they share a table."""
    tables: dict[tuple[float, ...], list[str]] = {}
    for name, points in lines.items():
        tables.setdefault(tuple(value for value, _ in points), []).append(name)
    return tables


def _figure(each: float) -> str:
    return f"{each:,.0f}" if each > SMALL else f"{each:.2f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of a run (%(default)s)")
    parser.add_argument("--only", default="", help="make the plots whose name has this: length, keys, size, ...")
    parser.add_argument("--write", action="store_true", help="put tables and plots into docs/")
    return parser.parse_args()


if __name__ == "__main__":
    main()
