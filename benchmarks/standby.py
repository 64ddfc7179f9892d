"""`make bench-standby`: the time from SIGKILL of a leader to the next output of its standby, twenty times.

Two instances with --standby run one pipeline, each with a checkpoint folder of its own, while records come all the
time. All processes of the leader are killed at once, and the next output that a committed reader receives ends the
measurement. The killed instance is started again and becomes the standby of the next round. At the end each record must
have come out once. The phases come from the log of the instance that took over and from its first batch:

    lead      from SIGKILL until Kafka has granted the lead
    start     until topics, checkpoint and ledger are checked, the checkpoint is restored, and the query is started
    batch     until the first output is visible
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.load import PARTITIONS, make_topic
from benchmarks.machine import machine
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import ChildProcess, descendants, processors

NAME = "standby"
INPUT, OUTPUT = f"{NAME}-records", f"{NAME}-results"
KEYS = 100
PATIENCE_S = 600.0
#: seconds after SIGKILL in which outputs of the killed leader may still arrive; no take-over is as fast
LATE_S = 1.0
WAITING, LEADING, RUNNING = "standby: waiting for the lead", "leading", "running"
HEAD = "| round | lead s | start s | batch s | together s |\n| --- | --- | --- | --- | --- |"


class TakeOver(NamedTuple):
    """Seconds of the phases of one take-over."""

    lead: float
    start: float
    batch: float

    @property
    def together(self) -> float:
        return self.lead + self.start + self.batch


class Instance:
    """`sluice run --standby` with a folder of its own."""

    def __init__(self, text: str, bootstrap: str, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._log = folder, folder / "service.log"
        self._bootstrap, self._file = bootstrap, folder / "pipeline.yaml"
        self._file.write_text(text)
        self._process: ChildProcess | None = None
        self._begin = 0

    def start(self) -> None:
        self._begin = self._log.stat().st_size if self._log.exists() else 0
        command = [
            *(sys.executable, "-m", "sluice", "run", str(self._file), "--standby", "--no-http", "--log-format", "json"),
            *("--kafka", f"bootstrap.servers={self._bootstrap}", "--checkpoint", str(self._folder / "checkpoint")),
        ]
        environment = {"TMPDIR": str(self._folder)}
        self._process = ChildProcess(command, folder=self._folder, log=self._log, environment=environment)

    def await_log(self, message: str) -> float:
        """When the instance logged this message first since its start, in seconds since 1970."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if (found := next((at for at, text in self._lines() if text == message), None)) is not None:
                return found
            if self._process is None or self._process.exit_code is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"no line {message!r}:\n{self._log.read_text()[-4000:]}")

    def _lines(self) -> Iterator[tuple[float, str]]:
        with self._log.open("rb") as file:
            file.seek(self._begin)
            for line in file:
                if line.startswith(b"{") and line.endswith(b"\n"):
                    fields = json.loads(line)
                    if "at" in fields:
                        yield datetime.fromisoformat(fields["at"]).timestamp(), fields["message"]

    def kill(self) -> None:
        """SIGKILL to all processes of the instance, as when its machine is lost."""
        if self._process is not None:
            for pid in [self._process.pid, *descendants(self._process.pid)]:
                os.kill(pid, signal.SIGKILL)
            self._process.kill()

    def end(self) -> None:
        if self._process is not None and self._process.exit_code is None:
            self._process.terminate(15)


class Outputs:
    """A committed reader that keeps when each output arrived."""

    def __init__(self, bootstrap: str) -> None:
        own = {"group.id": "bench", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "fetch.wait.max.ms": 10} | own)
        self._consumer.assign([TopicPartition(OUTPUT, number, 0) for number in range(PARTITIONS)])
        #: (seconds since 1970, number of the record that caused the output)
        self.arrived: list[tuple[float, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                self.arrived.append((time.time(), json.loads(message.value())["last"]))

    def after(self, moment: float) -> float:
        """When the first output after this moment arrived."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            newest = self.arrived[-1:]
            if newest and newest[0][0] > moment:
                return next(at for at, _ in self.arrived if at > moment)
            time.sleep(0.01)
        raise TimeoutError("no output")


@contextmanager
def feeding(bootstrap: str, rate: int) -> Iterator[list[int]]:
    """Sends records until the block ends. The list has the number of records so far."""
    sent, over = [0], threading.Event()

    def feed() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True})
        while not over.wait(1 / rate):
            number = sent[0]
            value = json.dumps({"k": f"key {number % KEYS}", "v": number}).encode()
            producer.produce(INPUT, value, f"key {number % KEYS}")
            producer.poll(0)
            sent[0] += 1
        producer.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def pipeline_text(options: argparse.Namespace) -> str:
    window = {"window": "sliding, count(20), count(1), partitioned", "partition_by": ["k"]}
    output = {"results": {"k": "k", "n": "Count()", "s": "Sum(v)", "last": "Last(v)"}}
    return yaml.safe_dump({
        "pipeline": NAME,
        "streams": {
            "records": {"topic": INPUT, "schema": {"k": "string", "v": "int64"}},
            "results": {"topic": OUTPUT, "partitions": PARTITIONS, "marks": "none"},
        },
        "operators": [
            {"name": "sums", "aggregate": "records", **window, "aggregate_incomplete_windows": True, "output": output}
        ],
        "buckets": options.buckets,
        "direct_records": options.direct,
        **({"state": options.state, "snapshot_interval": 10} if options.state else {}),
    })  # fmt: skip


def take_over(leader: Instance, standby: Instance, outputs: Outputs, pause: float) -> TakeOver:
    """Kills the leader. The instances must be ready."""
    time.sleep(pause)
    killed = time.time()
    leader.kill()
    visible = outputs.after(killed + LATE_S)
    granted, running = standby.await_log(LEADING), standby.await_log(RUNNING)
    return TakeOver(granted - killed, running - granted, visible - running)


def measured(bootstrap: str, scratch: Path, options: argparse.Namespace) -> Iterator[TakeOver]:
    for topic in (INPUT, OUTPUT):
        make_topic(bootstrap, topic)
    text = pipeline_text(options)
    leader, standby = (Instance(text, bootstrap, scratch / name) for name in ("a", "b"))
    outputs = Outputs(bootstrap)
    try:
        with feeding(bootstrap, options.rate) as sent:
            leader.start()
            outputs.after(0)
            for number in range(options.rounds):
                standby.start()
                standby.await_log(WAITING)
                yield take_over(leader, standby, outputs, options.pause + number % 5 / 5)
                leader, standby = standby, leader
        await_all(outputs, sent[0])
    finally:
        leader.end()
        standby.end()


def await_all(outputs: Outputs, sent: int) -> None:
    """Until each record has come out. Raises RuntimeError if one came out twice."""
    deadline = time.monotonic() + PATIENCE_S
    while len(outputs.arrived) < sent and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    numbers = sorted(number for _, number in outputs.arrived)
    if numbers != list(range(sent)):
        msg = f"{sent} records in, {len(numbers)} out, {len(set(numbers))} different"
        raise RuntimeError(msg)


def main() -> None:
    options = _options()
    found: list[TakeOver] = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, EmbeddedBroker() as broker:
        print(f"{machine()}\n\n{HEAD}", flush=True)
        for number, one in enumerate(measured(broker.bootstrap, Path(scratch), options), 1):
            found.append(one)
            print(row(str(number), one), flush=True)
    ordered = sorted(found, key=lambda one: one.together)
    middle = TakeOver(*(statistics.median(one[phase] for one in found) for phase in range(3)))
    print(row("median of each phase", middle))
    print(f"\nfrom SIGKILL to the next output: {ordered[0].together:.1f} to {ordered[-1].together:.1f} s. ", end="")
    print("Each record came out once.")


def row(name: str, one: TakeOver) -> str:
    return f"| {name} | {one.lead:.1f} | {one.start:.1f} | {one.batch:.1f} | {one.together:.1f} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-standby", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=50, help="records a second")
    parser.add_argument("--pause", type=float, default=3.0, help="seconds from a ready standby to the next kill")
    parser.add_argument("--buckets", type=int, default=processors())
    parser.add_argument("--direct", type=int, default=2000, help="`direct_records` of the pipeline (%(default)s)")
    parser.add_argument("--state", default="", help="URL of a store, or a folder, for snapshots")
    parser.add_argument("--scratch", help="folder for the files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
