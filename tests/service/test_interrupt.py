"""Ctrl-C in the terminal of a service: SIGINT to all its processes at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from sluice.kafka.topics import create
from sluice.processes import ChildProcess

PATIENCE = 120.0
PIPELINE = """
pipeline: interrupted
streams:
  in: {{topic: interrupted.in, schema: {{number: int64}}}}
  out: {{topic: interrupted.out}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, count(10)
    output: {{out: {{sum: Sum(number)}}}}
checkpoint: {folder}/checkpoint
kafka: {{bootstrap.servers: "{broker}"}}
"""


@pytest.mark.kafka
@pytest.mark.spark
def test_ctrl_c_ends_a_service_in_order(broker: str, tmp_path: Path):
    file, log = tmp_path / "file.yaml", tmp_path / "log"
    file.write_text(PIPELINE.format(folder=tmp_path, broker=broker))
    create({"bootstrap.servers": broker}, NewTopic("interrupted.in", 1))
    service = ChildProcess([sys.executable, "-m", "sluice", "run", str(file), "--no-http"], folder=tmp_path, log=log)
    try:
        await_text(log, "message=running", service)
        os.killpg(service.pid, signal.SIGINT)
        await_text(log, "message=ended", service)
    finally:
        service.terminate(30)
    assert service.exit_code == 0
    assert "Traceback" not in log.read_text()


def await_text(log: Path, text: str, service: ChildProcess) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        assert service.exit_code is None or text in log.read_text(), log.read_text()
        time.sleep(0.1)
