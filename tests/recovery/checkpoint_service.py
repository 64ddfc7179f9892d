"""`sluice run` as a process of its own, on a pipeline that gives one output for each record."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches
from sluice.processes import Tethered
from tests.unit.kafka.tools import visible

NUMBERS = itertools.count()
#: seconds that anything may take
PATIENCE = 600
KEYS, HELD = 20, 30
FILE = f"""
buckets: 1
max_records_per_batch: 100
trigger_interval: 0.05
streams:
  in: {{schema: {{k: string, v: int64}}}}
  out: {{marks: none, partitions: 1}}
operators:
  - name: sums
    aggregate: in
    window: sliding, count({HELD}), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {{out: {{k: k, v: Max(v), n: Count(), s: Sum(v)}}}}
"""


class Running:
    """A service with topics of its own. `start` may be given another checkpoint than its own."""

    def __init__(self, broker: str, folder: Path) -> None:
        self.kafka, self.folder, self.name = {"bootstrap.servers": broker}, folder, f"running-{next(NUMBERS)}"
        self.checkpoint = folder / "checkpoint"
        self.file = folder / "pipeline.yaml"
        file = yaml.safe_load(FILE) | {"pipeline": self.name, "kafka": self.kafka}
        for name, stream in file["streams"].items():
            stream["topic"] = f"{self.name}.{name}"
        self.file.write_text(yaml.safe_dump(file, sort_keys=False))
        self._client = AdminClient(self.kafka)
        self._client.create_topics([NewTopic(f"{self.name}.in", 1)])[f"{self.name}.in"].result()
        self._sent = 0

    def send(self, count: int) -> None:
        producer = Producer(self.kafka)
        for number in range(self._sent, self._sent + count):
            producer.produce(f"{self.name}.in", json.dumps({"k": f"key {number % KEYS}", "v": number}))
        assert producer.flush(30) == 0
        self._sent += count

    def start(self, checkpoint: Path | None = None) -> Process:
        return Process(self.file, checkpoint or self.checkpoint, self.folder / f"log-{next(NUMBERS)}")

    def outputs(self) -> list[dict]:
        return [json.loads(message.value()) for message in visible(self.kafka, f"{self.name}.out", 0)]

    def complete(self) -> bool:
        """Whether there are as many outputs as there were records."""
        topics = self._client.list_topics(timeout=10).topics
        return f"{self.name}.out" in topics and len(self.outputs()) >= self._sent

    def expected(self) -> list[dict]:
        """What comes out if each record is read once, and all of them in their order."""
        windows = (range(number, -1, -KEYS)[:HELD] for number in range(self._sent))
        return [{"k": f"key {w[0] % KEYS}", "v": w[0], "n": len(w), "s": sum(w)} for w in windows]

    def until_complete(self, checkpoint: Path | None = None) -> str:
        """Runs until every record has come out; the log."""
        process = self.start(checkpoint)
        process.wait_until(self.complete)
        process.end()
        return process.log()

    def until_planned(self, checkpoint: Path) -> None:
        """Runs until the next batch is planned, and kills it then, before the batch is written."""
        _, before = batches(FolderStore(checkpoint))
        process = self.start(checkpoint)
        process.wait_until(lambda: batches(FolderStore(checkpoint))[1] != before, pause=0.002)
        process.kill()


class Process:
    def __init__(self, file: Path, checkpoint: Path, log: Path) -> None:
        self._log = log
        self._process = Tethered(
            [sys.executable, "-m", "sluice", "run", str(file), "--checkpoint", str(checkpoint), "--no-http"],
            folder=log.with_suffix(".left"),
            log=log,
            environment={"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, holds: Callable[[], bool], pause: float = 0.5) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert self._process.exit_code is None, self.log()[-5000:]
            assert time.monotonic() < deadline, self.log()[-5000:]
            time.sleep(pause)

    def exit_code(self) -> int:
        """Waits for its end."""
        deadline = time.monotonic() + PATIENCE
        while self._process.exit_code is None:
            assert time.monotonic() < deadline, self.log()[-5000:]
            time.sleep(0.05)
        code = self._process.exit_code
        self._process.kill()  # closes what leads to it
        return code

    def end(self) -> None:
        self._process.terminate(PATIENCE)
        assert self._process.exit_code == 0, self.log()[-5000:]

    def kill(self) -> None:
        self._process.kill()
