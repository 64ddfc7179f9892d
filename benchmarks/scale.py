"""`make bench-scale`: what each part of a record's way costs on a Spark cluster, and a model of larger clusters.

The service runs on `local-cluster` with one executor and with two, of one core each. The processor time of every
process is read from the system, which other programs on the machine disturb little. benchmarks/scale_model.py computes
from these costs what more executors do. The rates of the two runs are put beside it, and those of `make bench`, which
runs in local mode.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from benchmarks.load import PARTITIONS, fill, make_topic, value_of
from benchmarks.machine import machine
from benchmarks.plot import Line, svg
from benchmarks.processes import cpu_seconds, tree
from benchmarks.processor_account import compiler_seconds
from benchmarks.results_page import write
from benchmarks.running import Service, batches, outputs, service, tuples_read
from benchmarks.scale_model import PER_CORE, Cluster, Costs, limit, most, rate
from benchmarks.workloads import WORKLOADS, Workload
from sluice.batch.packed_rows import RECORDS, Packed, ordinal
from sluice.batch.partition_router import route_records
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.files import project_file
from sluice.kafka.batch_report import Entry
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import descendants, processors
from sluice.state.bucket import Bucket
from sluice.state.bucket_outputs import outgoing

CHOSEN = ("pass-through, 100 keys", "tumbling, time(10), 100 keys", "sliding, count(100), count(1), 100 keys")
EXECUTORS = (1, 4, 16, 64)
#: a share of outputs per record read that is too small to measure the cost of an output
FEW_OUTPUTS = 0.1
#: records of a batch that measures what a batch costs without records; and how many such batches go by before the
#: measurement, in which Java compiles its code, and are measured
FEW, WARM, MEASURED = 100, 100, 60
#: into how many batches a large one is divided to measure what it costs beside its records
PARTS = 5
#: records of a batch of `encode_share`
CHUNK = 20_000
PAGE, PLOT = "docs/scale.md", "docs/scale.svg"

#: the columns of the table of costs
UNITS = (
    "outputs per record", "executors' Java", "read, decode", "engine, log", "encode, write; per output",
    "driver's Java, per output", "driver's Python, per output", "broker", "Java's compilers in this run",
    "a batch beside its records, ms",
)  # fmt: skip
#: the kinds of processes, by a part of the command line
DRIVER_JAVA, EXECUTOR_JAVA, WORKERS, SERVERS, WRITER, REST = (
    "driver's Java",
    "executors' Java",
    "Python workers",
    "state servers",
    "driver's Python",
    "others",
)
#: the threads of all Java processes that compile, which end when all code is compiled; not in the kinds above
COMPILER = "Java's compilers"


@dataclass(frozen=True, slots=True)
class Run:
    """A run after its warm-up. `cpu` has seconds by kind of process, `broker` those of the broker."""

    records: int
    written: int
    batches: int
    seconds: float
    cpu: Mapping[str, float]
    broker: float

    @property
    def share(self) -> float:
        """The share of the machine's processor time that the run got."""
        return (sum(self.cpu.values()) + self.broker) / (processors() * self.seconds)

    def of_a_batch(self, larger: Run) -> Mapping[str, float]:
        """Seconds that each batch costs beside its records, by kind of process: what two runs with batches of different
        sizes give, this one and another one with `larger` batches.
        """
        per_record = {
            kind: (self.batches * larger.cpu[kind] - larger.batches * seconds)
            / (self.batches * larger.records - larger.batches * self.records)
            for kind, seconds in self.cpu.items()
        }
        return {kind: max(0.0, (self.cpu[kind] - per_record[kind] * self.records) / self.batches) for kind in self.cpu}

    def beside(self, fixed: Mapping[str, float]) -> Run:
        """The same run without these seconds of each batch, by kind of process."""
        rest = {kind: max(0.0, seconds - self.batches * fixed.get(kind, 0.0)) for kind, seconds in self.cpu.items()}
        return replace(self, cpu=rest)

    def micro(self, kind: str) -> float:
        """Microseconds of this kind of processes per record read."""
        return self.cpu[kind] / self.records * 1e6

    def per_output(self, kind: str) -> float:
        """Microseconds per record written; 0 if these are so few that the costs of a batch would hide theirs."""
        return self.cpu[kind] / self.written * 1e6 if self.written > self.records * FEW_OUTPUTS else 0.0


def main() -> None:
    options = _options()
    if options.plot:
        project_file(PLOT).write_text(plot(results_of_page()))
        return
    chosen = [workload for workload in WORKLOADS if workload.title in CHOSEN and options.only in workload.title]
    print(machine(), flush=True)
    results = []
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        for keys in sorted({workload.keys for workload in chosen}):
            make_topic(broker.bootstrap, f"records-{keys}")
            fill(broker.bootstrap, f"records-{keys}", options.warm_up + options.records, keys)
        bench = Bench(broker.bootstrap, Path(scratch), options)
        fixed = bench.of_a_batch(chosen[0])
        print(f"a batch without records: {fixed.batch:.0f} ms; a task of the driver: {fixed.task:.2f} ms", flush=True)
        print(*(f"{kind}: {seconds * 1000:.1f} ms" for kind, seconds in fixed.cpu.items()), sep="\n", flush=True)
        for workload in chosen:
            results.append(bench.measured(workload, fixed))
            print("\n".join(_lines([results[-1]])), flush=True)
    if options.write:
        write("scale", [f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}.", "", *_lines(results)], PAGE)
        project_file(PLOT).write_text(plot(results))


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a batch of few records costs: the milliseconds of the driver for a task, and the seconds of each kind of
    processes.
    """

    task: float
    cpu: Mapping[str, float]

    @property
    def batch(self) -> float:
        """Milliseconds of all processes, without Java's compilers."""
        return together(self.cpu)


def together(cpu: Mapping[str, float]) -> float:
    """Milliseconds of all processes, without Java's compilers."""
    return (sum(cpu.values()) - cpu[COMPILER]) * 1000


@dataclass(frozen=True, slots=True)
class Result:
    title: str
    costs: Costs
    #: executors -> records per second on this machine, and the share of its processor time that the run got
    seen: dict[int, tuple[float, float]]
    #: milliseconds of a batch of few records, all processes
    few: float


class Bench:
    def __init__(self, bootstrap: str, scratch: Path, options: argparse.Namespace) -> None:
        self._bootstrap, self._scratch, self._options = bootstrap, scratch, options
        self._runs = 0

    def of_a_batch(self, workload: Workload) -> Fixed:
        """The costs of a batch of few records, after WARM of them. The processes work one after the other."""
        few, many = (self._run(workload, 2, buckets, FEW, WARM * FEW, MEASURED * FEW) for buckets in (2, 16))
        task = max(0.0, (many.cpu[DRIVER_JAVA] / many.batches - few.cpu[DRIVER_JAVA] / few.batches) / 14 * 1000)
        each = {kind: seconds / few.batches for kind, seconds in few.cpu.items()}
        return Fixed(task, each)

    def measured(self, workload: Workload, fixed: Fixed) -> Result:
        share, options, executors = encode_share(workload), self._options, self._options.executors
        runs = {
            number: self._run(workload, number, 2, PER_CORE * number, options.warm_up, options.records)
            for number in executors
        }
        size = PER_CORE * executors[-1] // PARTS
        parts = self._run(workload, executors[-1], 2, size, options.warm_up, options.records)
        of_a_batch = parts.of_a_batch(runs[executors[-1]])
        costs, seen = [], {}
        for number, whole in runs.items():
            seen[number], run = (whole.records / whole.seconds, whole.share), whole.beside(of_a_batch)
            costs.append(
                Costs(
                    outputs=run.written / run.records, source=run.micro(EXECUTOR_JAVA), decode=run.micro(WORKERS),
                    engine=run.micro(SERVERS) * (1 - share), encode=run.per_output(SERVERS) * share,
                    returned=run.per_output(DRIVER_JAVA), write=run.per_output(WRITER),
                    broker=run.broker / run.records * 1e6, compilers=whole.micro(COMPILER),
                    batch=together(of_a_batch), task=fixed.task,
                )
            )  # fmt: skip
        return Result(workload.title, Costs.mean(costs), seen, fixed.batch)

    def _run(self, workload: Workload, executors: int, buckets: int, most: int, warm_up: int, records: int) -> Run:  # noqa: PLR0917
        self._runs += 1
        name = f"scale-{self._runs}"
        folder, target = self._scratch / name, f"{name}-results"
        sized = replace(workload, settings={"max_records_per_batch": most, "buckets": buckets, "latency": "low"})
        text = sized.pipeline(name, f"records-{workload.keys}", target)
        master = f"local-cluster[{executors},1,1024]"
        with service(text, self._bootstrap, folder, ["--master", master]) as running:
            warm = batches(running, self._bootstrap, name, warm_up)
            before, begin = _cpu(running), _broker_cpu()
            entries = batches(running, self._bootstrap, name, warm_up + records)
            after, end = _cpu(running), _broker_cpu()
        counted = entries[len(warm) - 1 :]
        if most != FEW:
            count, total = outputs(self._bootstrap, target)
            if not workload.right(warm_up + records, workload.keys, count, total):
                raise SystemExit(f"{workload.title}: {count:,} outputs over {total:,} records are wrong")
        return Run(
            records=sum(map(tuples_read, counted[1:])), written=sum(map(_written, counted[1:])),
            batches=len(counted) - 1, seconds=(counted[-1].at - counted[0].at) / 1000,
            cpu={kind: after[kind] - before[kind] for kind in before}, broker=end - begin,
        )  # fmt: skip


def _written(entry: Entry) -> int:
    return sum(sum(kinds.values()) for kinds in entry.report.written.values())


# ---- processor time --------------------------------------------------------------------------------------------------


def _cpu(running: Service) -> dict[str, float]:
    """Seconds of processor time of the service's processes, by kind."""
    seconds = dict.fromkeys((DRIVER_JAVA, EXECUTOR_JAVA, WORKERS, SERVERS, WRITER, REST, COMPILER), 0.0)
    for pid in tree(running.process.pid):
        with suppress(OSError, IndexError):
            compiler = compiler_seconds(pid)
            seconds[_kind(pid)] += cpu_seconds(pid, ended_children=True) - compiler
            seconds[COMPILER] += compiler
    return seconds


def _kind(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    if name == "sluice-bucket":
        return SERVERS
    if "--executor-id" in words:
        return EXECUTOR_JAVA
    if "SparkSubmit" in words:
        return DRIVER_JAVA
    if "sluice.spark.workers.daemon" in words:
        return WORKERS
    return WRITER if "sluice run" in words.replace("\0", " ") else REST


def _broker_cpu() -> float:
    """Seconds of processor time of the embedded broker, a child of this process."""
    own = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if b"kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_bytes():
                own.append(cpu_seconds(pid, ended_children=True))
    return sum(own)


def encode_share(workload: Workload, records: int = 200_000) -> float:
    """Which share of the time of a state server is encoding, the rest being the engine and the log."""
    overrides = {"kafka": {"bootstrap.servers": "nowhere"}}
    pipeline = load_text(workload.pipeline("alone", "in", "out"), "alone", environment=None, overrides=overrides)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(pipeline, "q", "s", folder, 1, {"records": 1, "results": PARTITIONS, "dead": 1})
        bucket, spent = Bucket(plan, 0), Counter[str]()
        for version, first in enumerate(range(0, records, CHUNK)):
            rows = _routed(plan, range(first, first + CHUNK), workload.keys)
            begin = time.process_time_ns()
            fed = bucket.feed(version, rows)
            between = time.process_time_ns()
            assert fed is not None  # noqa: S101 - there are rows
            list(outgoing(plan, fed.made, fed.batch, 0))
            spent["engine"] += between - begin
            spent["encode"] += time.process_time_ns() - between
    return spent["encode"] / spent.total()


def _routed(plan: Plan, numbers: range, keys: int) -> list[Packed]:
    """The packed rows of these records for the only bucket."""
    batches = route_records(plan, 2**62, [_arrow(numbers, keys)])
    rows = [row for batch in batches for row in zip(*map(pa.Array.to_pylist, batch.columns[1:]), strict=True)]
    return [(kind, packed) for kind, packed in rows if kind == RECORDS]


def _arrow(numbers: range, keys: int) -> pa.RecordBatch:
    """Records as Spark's source gives them to a task."""
    made = [value_of(number, b"k%d" % (number % keys)) for number in numbers]
    return pa.RecordBatch.from_pydict({
        "key": pa.array([None] * len(made), pa.binary()), "value": pa.array([value for value, _ in made], pa.binary()),
        "headers": pa.array([None] * len(made), pa.string()),
        "ordinal": pa.array([ordinal(0, 0)] * len(made), pa.int64()),
        "offset": pa.array(list(numbers), pa.int64()),
        "timestamp": pa.array([at * 1000 for _, at in made], pa.timestamp("us", "UTC")),
    })  # fmt: skip


# ---- the page --------------------------------------------------------------------------------------------------------


def _lines(results: list[Result]) -> Iterator[str]:
    yield from _table("workload", *UNITS)
    for result in results:
        of = result.costs
        times = (of.source, of.decode, of.engine, of.encode, of.returned, of.write, of.broker, of.compilers)
        cells = (*(f"{each:.2f}" for each in times), f"{of.batch:.0f}")
        yield _row(result.title, f"{of.outputs:.3f}", *cells)
    yield ""
    few, task = results[0].few, results[0].costs.task
    yield f"A batch of {FEW} records takes {few:.0f} ms, and the driver {task:.2f} ms per task."
    yield ""
    numbers = [f"{number} executor{'s' * (number > 1)}" for number in EXECUTORS]
    yield from _table("workload", *numbers, "with any number", "first limit")
    for result in results:
        rates = [rate(result.costs, Cluster(number)) for number in EXECUTORS]
        yield _row(result.title, *(f"{each:,.0f}" for each in [*rates, most(result.costs)]), _first_limit(result.costs))
    yield ""
    yield from _table("workload", "executors", "records/s", "share of the processors", "model of this machine")
    for result in results:
        for number, (seen, share) in result.seen.items():
            yield _row(result.title, str(number), f"{seen:,.0f}", f"{share:.2f}", f"{_here(result.costs, number):,.0f}")
    yield ""
    yield from _table("workload", "`make bench`, records/s", "model of this machine", "measured / model")
    for result in results:
        seen, model = bench_rate(result.title), _here(result.costs, processors())
        yield _row(result.title, f"{seen:,.0f}", f"{model:,.0f}", f"{seen / model:.2f}")


def _here(costs: Costs, executors: int) -> float:
    """The model of this machine, whose cores the executors share with the driver and the broker."""
    return rate(costs, Cluster(executors, shared=processors()))


def bench_rate(title: str) -> float:
    """Records per second of a workload in local mode, as docs/benchmarks.md has it."""
    rows = [line.split("|") for line in project_file("docs/benchmarks.md").read_text().splitlines()]
    return next(float(row[2].replace(",", "")) for row in rows if len(row) > 2 and row[1].strip() == title)  # noqa: PLR2004


def _table(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _first_limit(costs: Costs) -> str:
    """The number of executors from which on something else than the executors takes most of a batch's time."""
    for number in range(1, 1025):
        found = limit(costs, Cluster(number))
        if found != "executors":
            return f"{found}, from {number} executors on"
    return "none up to 1024 executors"


def results_of_page() -> list[Result]:
    """The costs that the page has, without the rates that were seen."""
    page = project_file(PAGE).read_text()
    words = re.search(r"takes (\d+) ms, and the driver ([\d.]+) ms per task", page)
    if words is None:
        message = f"{PAGE} has no costs of a batch and a task"
        raise ValueError(message)
    head, rows = _row("workload", *UNITS), page.splitlines()
    found = []
    for line in rows[rows.index(head) + 2 :]:
        if not line.startswith("|"):
            break
        title, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found.append(Result(title, Costs(*map(float, cells), task=float(words[2])), {}, float(words[1])))
    return found


def plot(results: list[Result]) -> str:
    """The plot of the model, with the rates of `make bench` as measured points."""
    numbers = [2 ** (power / 4) for power in range(25)]
    lines = [
        Line(
            result.title,
            [(number, rate(result.costs, Cluster(number))) for number in numbers],
            [(processors(), bench_rate(result.title))],
        )
        for result in results
    ]
    return svg("Records per second by number of executors", ("executors of one core", "records/s"), lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="of a run (%(default)s)")
    parser.add_argument(
        "--warm-up",
        type=int,
        default=20_000_000,
        help="records before them, in which Java compiles most of its code (%(default)s)",
    )
    parser.add_argument(
        "--executors", type=int, nargs="+", default=[1, 2], help="run on so many executors (%(default)s)"
    )
    parser.add_argument("--only", default="", help="run the workloads whose title has this")
    parser.add_argument("--write", action="store_true", help=f"put the results into {PAGE}, and the plot into {PLOT}")
    parser.add_argument("--plot", action="store_true", help=f"only draw {PLOT} again, from the costs in {PAGE}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
