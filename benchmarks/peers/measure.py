"""One run of one system: its throughput over a filled topic, or its latency at a fixed rate."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from benchmarks.load import PARTITIONS, make_topic
from benchmarks.peers.records import Load, committed_reader, delete_topics, end_offsets, fill, trickle
from benchmarks.peers.system import System, Task
from benchmarks.peers.workload import Totals, Workload
from benchmarks.processes import Usage
from benchmarks.running import committed_consumer
from sluice.processes import ChildProcess

#: seconds in which the output must not grow before the run is over, and after which a run that stopped too early fails
SETTLED, STALLED = 3.0, 40.0
#: seconds that a run may take at most
LIMIT = 300.0
#: seconds that a system gets before the records of a latency run begin, and the part of these records that counts
WARM_UP, COUNTED = 20.0, 0.6


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a run over a filled topic gave.

    rate       input records a second from the first record to the last output
    steady     the same over the last 80 % of the outputs, without the start of the system
    start      seconds from the start of the program to its first record
    peak       bytes of memory of all its processes
    cpu        processor seconds for a million input records
    problem    why the outputs are not what they must be; empty if they are right
    """

    rate: float
    steady: float
    start: float
    peak: int
    cpu: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from just before a record is sent until a committed reader has its output.

    cores   processors that the system used while records came
    """

    p50: float
    p99: float
    problem: str = ""
    cores: float = 0.0


@dataclass(slots=True)
class Program:
    """A system at work. `first` is the time of its first record, seconds since 1970, None until then."""

    task: Task
    log: Path
    process: ChildProcess
    usage: Usage
    began: float
    first: float | None = None

    def look(self, system: System) -> None:
        if self.first is None and system.first_record(self.text()):
            self.first = time.time()

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def running(system: System, workload: Workload, bootstrap: str, inputs: list[str], *, live: bool) -> Iterator[Program]:
    """Runs the system until the block ends, and removes its files and topics."""
    run = f"bench-{workload.name}-{time.time_ns()}"
    output = f"{run}-output"
    # An output is dated by the broker when it appends the record: the clocks of the systems differ.
    make_topic(bootstrap, output, **{"message.timestamp.type": "LogAppendTime"})
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        task = Task(workload.name, bootstrap, run, inputs, output, folder, live)
        log = folder / "log"
        environment = {**task.environment, "TMPDIR": name}
        began = time.time()
        process = ChildProcess(system.command(task), folder=folder, log=log, environment=environment)
        program = Program(task, log, process, Usage(process.pid), began)
        try:
            yield program
        finally:
            program.usage.stop()
            process.terminate(15)
            delete_topics(bootstrap, run)


def throughput(system: System, workload: Workload, bootstrap: str, records: int, keys: int) -> Throughput:
    loaded = records + workload.tail(keys)
    inputs = [f"peers-{keys}-{loaded}-{number}" for number in range(workload.inputs)]
    for topic in inputs:
        fill(bootstrap, topic, loaded, keys)
    expected = [workload.expected(records, keys)]
    if workload.flushed:
        expected.append(workload.flushed(records, keys))
    held_back = system.held_back.get(workload.name, 0)
    with running(system, workload, bootstrap, inputs, live=False) as program:
        problem = _await_outputs(system, program, bootstrap, expected[0].outputs - held_back)
        peak, cpu = program.usage.peak, program.usage.cpu
        totals, times = _read_back(bootstrap, program.task.output)
        text = program.text()
    if 0 < loaded - totals.outputs <= held_back:  # outputs in order of time, so those of the first records
        expected.append(workload.expected(totals.outputs, keys))
    if not problem and not any(map(totals.satisfies, expected)):
        problem = f"expected {expected[0]}, got {totals}"
    if problem or program.first is None or not times:
        return Throughput(0, 0, 0, peak, 0, f"{problem or 'no outputs'}\n{text[-1500:]}")
    times.sort()
    count, begin, end = loaded * len(inputs), times[len(times) // 5], times[-1]
    return Throughput(
        rate=count / (end - program.first),
        steady=0.8 * count / (end - begin) if end > begin else 0.0,
        start=program.first - program.began,
        peak=peak,
        cpu=cpu / count * 1e6,
    )


def _await_outputs(system: System, program: Program, bootstrap: str, outputs: int) -> str:
    """Waits until all outputs are there. Returns what went wrong."""
    # It fetches nothing: the broker answers a question for offsets only after a fetch that waits for records.
    consumer = committed_consumer(bootstrap)
    end, grown = 0, time.monotonic()
    deadline = grown + LIMIT
    try:
        while time.monotonic() < deadline:
            program.look(system)
            time.sleep(0.1)
            now = end_offsets(consumer, program.task.output)
            if now != end:
                end, grown = now, time.monotonic()
            quiet = time.monotonic() - grown
            if program.process.exit_code is not None:  # 0: at the end of the input
                return f"the program ended with {program.process.exit_code}" if program.process.exit_code else ""
            if end >= outputs and quiet > SETTLED and _committed(bootstrap, program.task.output) >= outputs:
                return ""
            if end and quiet > STALLED:
                return f"no further output for {STALLED:.0f} s after {end} of {outputs}"
        return f"{end} of {outputs} outputs after {LIMIT:.0f} s"
    finally:
        consumer.close()


def _committed(bootstrap: str, topic: str) -> int:
    return _read_back(bootstrap, topic)[0].outputs


def _read_back(bootstrap: str, topic: str) -> tuple[Totals, list[float]]:
    """The totals of all committed outputs, and the times in seconds at which the broker appended them."""
    consumer, open_ = committed_reader(bootstrap, topic), set(range(PARTITIONS))
    n, s, m, times, sums = 0, 0.0, 0.0, [], False
    while open_:
        for message in consumer.consume(20_000, 5):
            if message.error():
                open_.discard(message.partition())
            elif message.value():
                times.append(message.timestamp()[1] / 1000)
                result = orjson.loads(message.value())
                if "s" in result:
                    sums = True
                    n, s, m = n + result["n"], s + result["s"], m + result["m"]
    consumer.close()
    return Totals(len(times), (n, s, m) if sums else None), times


def latency(
    system: System, workload: Workload, bootstrap: str, load: Load, beside: Callable[[Program], object] = lambda _: None
) -> Latency:
    """The latency of the last records of `load`. `beside` is called in a thread when the first record is sent.

    A system gets WARM_UP seconds before it, on a busy machine from the time on at which it is ready.
    """
    source = f"peers-live-{time.time_ns()}"
    make_topic(bootstrap, source, load.partitions)
    try:
        with running(system, workload, bootstrap, [source], live=True) as program, _busy(load.busy):
            _await_ready(system, program)
            time.sleep(WARM_UP)
            work = [partial(trickle, bootstrap, source, load), partial(beside, program)]
            threads = [threading.Thread(target=one) for one in work]
            began, used = time.monotonic(), program.usage.cpu
            for thread in threads:
                thread.start()
            seen = _arrivals(program, bootstrap, load.records, load.seconds + STALLED)
            for thread in threads:
                thread.join()
            cores = (program.usage.cpu - used) / (time.monotonic() - began)
            text = program.text()
    finally:
        delete_topics(bootstrap, source)
    if len(seen) < load.records:
        return Latency(0, 0, f"{len(seen)} of {load.records} outputs\n{text[-1500:]}")
    last = max(sent for sent, _ in seen)
    counted = [delay * 1000 for sent, delay in seen if sent > last - load.seconds * COUNTED]
    return Latency(statistics.median(counted), statistics.quantiles(counted, n=100)[98], cores=cores)


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Keeps so many processors busy until the block ends."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _await_ready(system: System, program: Program) -> None:
    deadline = time.monotonic() + LIMIT
    while not system.ready(program.text()) and time.monotonic() < deadline and program.process.exit_code is None:
        time.sleep(0.2)


def _arrivals(program: Program, bootstrap: str, expected: int, seconds: float) -> list[tuple[float, float]]:
    """The time at which each record was sent, and the seconds until its output arrived."""
    consumer, seen = committed_reader(bootstrap, program.task.output, wait_ms=10), []
    deadline = time.monotonic() + seconds
    while len(seen) < expected and time.monotonic() < deadline and program.process.exit_code is None:
        for message in consumer.consume(1000, 0.005):
            if not message.error() and message.value():
                sent = orjson.loads(message.value())["w"]
                seen.append((sent, time.time() - sent))
    consumer.close()
    return seen
