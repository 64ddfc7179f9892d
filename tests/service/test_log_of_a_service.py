"""The log of a real service, from its first start with kernels to compile to a quiet minute."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.kafka.topics import create
from sluice.processes import ChildProcess

#: seconds that anything may take
PATIENCE = 400
#: records a second, by the bounds in the file; a minute of them and more than ten seconds are waiting
RATE = 200
BACKLOG = 80 * RATE
QUIET = 60.0

PIPELINE = """
pipeline: logged
streams:
  in: {{topic: logged.in, schema: {{key: string, number: int64}}}}
  out: {{topic: logged.out}}
  dead: {{topic: logged.dead}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, count(100), partitioned
    partition_by: [key]
    output: {{out: {{key: key, sum: Sum(number)}}}}
dead_letters: dead
buckets: 2
trigger_interval: 1
max_records_per_batch: {rate}
checkpoint: {folder}/checkpoint
kafka: {{bootstrap.servers: "{broker}"}}
"""
BAD = [b"{", b'{"key": "a", "number": "many"}', b"["]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_log_says_what_a_service_does(broker: str, tmp_path: Path):
    (tmp_path / "file.yaml").write_text(PIPELINE.format(rate=RATE, folder=tmp_path, broker=broker))
    create({"bootstrap.servers": broker}, NewTopic("logged.in", 1))
    producer = Producer({"bootstrap.servers": broker})
    for value in BAD + [b'{"key": "a", "number": 1}'] * BACKLOG:
        producer.produce("logged.in", value)
        producer.poll(0)
    assert producer.flush(60) == 0
    log = tmp_path / "log"
    running = ChildProcess(
        [sys.executable, "-m", "sluice", "run", str(tmp_path / "file.yaml"), "--no-http", "--log-format", "json"],
        folder=tmp_path,
        log=log,
        environment={"NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
    )
    try:
        found = await_line(log, "caught up", running)
        before = log.stat().st_size
        time.sleep(QUIET)
        quiet = log.read_text()[before:]
    finally:
        running.terminate(30)
    assert running.exit_code == 0
    assert "Traceback" not in log.read_text()
    assert [line for line in map(json.loads, quiet.splitlines()) if line["level"] != "info"] == []

    first = {line["message"]: line for line in reversed(found)}
    assert first["input found"]["topic_partitions"] == 1
    assert first["Spark is up"]["master"] == "local[*]"
    assert first["running"]["checkpoint"] == f"{tmp_path}/checkpoint"
    assert first["first batch"]["records"] <= RATE
    assert any("compiling kernels" in line["message"] and line["operators"] == "sums" for line in found)
    assert any(line["message"].startswith("compiled ") for line in found)
    letters = [line for line in found if line["message"] == "first dead letter with this reason"]
    assert [(one["topic"], one["topic_partition"], one["offset"]) for one in letters] == [
        ("logged.in", 0, 0),
        ("logged.in", 0, 1),
    ]
    assert [one["reason"].partition(":")[0] for one in letters] == ["not JSON", "wrong type"]
    behind = first["catching up"]
    assert 0 < behind["behind"] < BACKLOG
    assert behind["per_second"] <= RATE * 1.1
    assert float(behind["time_to_go"].removesuffix(" s")) == pytest.approx(behind["behind"] / behind["per_second"], 0.2)


def await_line(log: Path, message: str, running: ChildProcess) -> list[dict[str, Any]]:
    """The lines of the log as soon as one has this message."""

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in log.read_text().splitlines() if not line.startswith("sluice: ")]

    def said() -> bool:
        return any(line["message"] == message for line in lines())

    await_(said, running, log)
    return lines()


def await_(happened: Callable[[], bool], running: ChildProcess, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert running.exit_code is None, log.read_text()[-5000:]
        assert time.monotonic() < deadline, log.read_text()[-5000:]
        time.sleep(0.5)
