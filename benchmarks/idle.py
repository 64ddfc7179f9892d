"""`make bench-idle`: what the service costs while nothing comes, with and without windows that may fall due, and with a
folder of pipelines.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from benchmarks.load import fill, make_topic
from benchmarks.machine import machine
from benchmarks.processes import cpu_seconds
from benchmarks.processor_account import JAVA, processor_seconds
from benchmarks.results_page import write
from benchmarks.running import PATIENCE, Service, service_of
from sluice.kafka.embedded_broker import EmbeddedBroker

KEYS = 1000
TOPIC = "records"
HEAD = """| pipelines | window | % of a processor | Java, % | broker, % | memory MB, growth | checkpoint files, growth |
| --- | --- | --- | --- | --- | --- | --- |"""
WINDOWS = ("tumbling, count(10)", "tumbling, time(10.0)", "sliding, time(10.0), time(1.0)")
#: seconds that the start of a pipeline may take
START_S = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """How things stand: seconds of processor time of the service, of its Java and of the broker, bytes, files."""

    at: float
    cpu: float
    java: float
    broker: float
    memory: int
    files: int

    @classmethod
    def at_once(cls, running: Service, broker: int, checkpoints: Path) -> Look:
        used = processor_seconds(running.process.pid)
        java = sum(seconds for (process, _), seconds in used.items() if process == JAVA)
        files = sum(len(files) for _, _, files in os.walk(checkpoints))
        return cls(time.monotonic(), sum(used.values()), java, cpu_seconds(broker), running.memory(), files)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-idle ARGS=", description=__doc__)
    parser.add_argument("--only", default="", help="measure the rows that have this")
    parser.add_argument("--pipelines", type=int, default=100, help="files of the folder (%(default)s)")
    parser.add_argument("--warm-up", type=float, default=120, help="seconds that do not count (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds that do (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    said = [f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}:", "", HEAD]
    print(*said, sep="\n", flush=True)
    rows = [*((1, window) for window in WINDOWS), *((options.pipelines, window) for window in WINDOWS[:2])]
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        make_topic(broker.bootstrap, TOPIC)
        fill(broker.bootstrap, TOPIC, 10 * KEYS, KEYS)
        for number, (count, window) in enumerate(rows):
            if options.only in f"{count} {window}":
                said.append(_row(count, window, broker, Path(scratch, str(number)), options))
                print(said[-1], flush=True)
    if options.write:
        write("idle", said)


def _row(count: int, window: str, broker: EmbeddedBroker, folder: Path, options: argparse.Namespace) -> str:
    files, checkpoints = folder / "files", folder / "checkpoints"
    files.mkdir(parents=True)
    for number in range(count):
        name = f"{folder.name}-{number}"
        (files / f"{name}.yaml").write_text(_pipeline(name, window, checkpoints / name))
    with service_of(files, broker.bootstrap, folder) as running:
        _await_batches(running, count)
        time.sleep(options.warm_up)
        before = Look.at_once(running, broker.pid, checkpoints)
        time.sleep(options.seconds)
        running.check()
        after = Look.at_once(running, broker.pid, checkpoints)
    seconds = after.at - before.at
    shares = [
        f"{(now - then) / seconds * 100:.1f}"
        for now, then in ((after.cpu, before.cpu), (after.java, before.java), (after.broker, before.broker))
    ]
    memory, more = after.memory / 1e6, (after.memory - before.memory) / 1e6
    cells = [*shares, f"{memory:,.0f}, {more:+.0f}", f"{after.files}, {after.files - before.files:+d}"]
    return f"| {count} | {window} | {' | '.join(cells)} |"


def _await_batches(running: Service, pipelines: int) -> None:
    """Until each pipeline has ended a batch. Raises TimeoutError if that takes too long."""
    deadline = time.monotonic() + PATIENCE + START_S * pipelines
    while running.log.read_text().count('message="first batch"') < pipelines:
        running.check()
        if time.monotonic() > deadline:
            raise TimeoutError(running.log.read_text()[-3000:])
        time.sleep(0.5)


def _pipeline(name: str, window: str, checkpoint: Path) -> str:
    operator = {
        "name": "idle", "aggregate": "records", "window": f"{window}, partitioned", "partition_by": ["k"],
        "output": {"results": {"k": "Last(k)", "n": "Count()"}},
    }  # fmt: skip
    schema = {"k": "string", "v": "float64"}
    streams = {"records": {"topic": TOPIC, "schema": schema}, "results": {"topic": f"{name}-results"}}
    more = {"checkpoint": str(checkpoint), "clock_origin": time.time() // 10 * 10}
    return yaml.safe_dump({"pipeline": name, "streams": streams, "operators": [operator], **more})


if __name__ == "__main__":
    main()
