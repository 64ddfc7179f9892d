"""`make bench-idle`: what the service costs while nothing comes, with and without windows that may fall due."""

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
from benchmarks.page import write
from benchmarks.processes import cpu_seconds, tree
from benchmarks.running import Service, service
from sluice.kafka.embedded_broker import EmbeddedBroker

KEYS = 1000
TOPIC = "records"
HEAD = "| window | cores | batches/s | memory MB, growth | checkpoint files, growth |\n| --- | --- | --- | --- | --- |"
WINDOWS = ("tumbling, count(10)", "tumbling, time(10.0)", "sliding, time(10.0), time(1.0)")


@dataclass(frozen=True, slots=True)
class Look:
    """How things stand: seconds of processor time, batches that were planned, bytes, files."""

    at: float
    cpu: float
    batches: int
    memory: int
    files: int

    @classmethod
    def at_once(cls, running: Service, checkpoint: Path) -> Look:
        pids = tree(running.process.pid)
        planned = max((int(entry.name) for entry in (checkpoint / "offsets").glob("[0-9]*")), default=0)
        files = sum(len(files) for _, _, files in os.walk(checkpoint))
        return cls(time.monotonic(), sum(map(_cpu, pids)), planned, running.memory(), files)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-idle ARGS=", description=__doc__)
    parser.add_argument("--only", default="", help="measure the windows that have this")
    parser.add_argument("--warm-up", type=float, default=120, help="seconds that do not count (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds that do (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    said = [f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}:", "", HEAD]
    print(*said, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as scratch, EmbeddedBroker(heap="1g") as broker:
        make_topic(broker.bootstrap, TOPIC)
        fill(broker.bootstrap, TOPIC, 10 * KEYS, KEYS)
        for number, window in enumerate(w for w in WINDOWS if options.only in w):
            folder = Path(scratch) / str(number)
            with service(_pipeline(f"idle-{number}", window), broker.bootstrap, folder) as running:
                time.sleep(options.warm_up)
                before = Look.at_once(running, folder / "checkpoint")
                time.sleep(options.seconds)
                running.check()
                said.append(_row(window, before, Look.at_once(running, folder / "checkpoint")))
                print(said[-1], flush=True)
    if options.write:
        write("idle", said)


def _row(window: str, before: Look, after: Look) -> str:
    seconds = after.at - before.at
    cores, batches = (after.cpu - before.cpu) / seconds, (after.batches - before.batches) / seconds
    memory, more = after.memory / 1e6, (after.memory - before.memory) / 1e6
    files, more_files = after.files, after.files - before.files
    return f"| {window} | {cores:.2f} | {batches:.2f} | {memory:.0f}, {more:+.0f} | {files}, {more_files:+d} |"


def _pipeline(name: str, window: str) -> str:
    operator = {
        "name": "idle", "aggregate": "records", "window": f"{window}, partitioned", "partition_by": ["k"],
        "output": {"results": {"k": "Last(k)", "n": "Count()"}},
    }  # fmt: skip
    schema = {"k": "string", "v": "float64"}
    streams = {"records": {"topic": TOPIC, "schema": schema}, "results": {"topic": f"{name}-results"}}
    more = {"trigger_interval": 1.0, "clock_origin": time.time() // 10 * 10}
    return yaml.safe_dump({"pipeline": name, "streams": streams, "operators": [operator], **more})


def _cpu(pid: int) -> float:
    """Seconds of processor time, with those of children that have ended; 0 if the process has ended."""
    try:
        return cpu_seconds(pid, ended_children=True)
    except OSError:
        return 0.0


if __name__ == "__main__":
    main()
