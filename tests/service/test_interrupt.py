"""Ctrl-C in the terminal of a service: SIGINT to all its processes at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from sluice.kafka.topics import create
from sluice.processes import ChildProcess
from tests.recovery.harness.process_table import Process, processes

PATIENCE = 120.0
NAMES = ("first", "second")
PIPELINE = """
pipeline: {name}
streams:
  in: {{topic: {name}.in, schema: {{number: int64}}}}
  out: {{topic: {name}.out}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, count(10)
    output: {{out: {{sum: Sum(number)}}}}
kafka: {{bootstrap.servers: "{broker}"}}
"""


@pytest.fixture
def service(broker: str, tmp_path: Path) -> Iterator[ChildProcess]:
    """A service of two pipelines, which has just been started."""
    for name in NAMES:
        create({"bootstrap.servers": broker}, NewTopic(f"{name}.{tmp_path.name}.in", 1))
        text = PIPELINE.format(name=f"{name}.{tmp_path.name}", broker=broker)
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [str(tmp_path / f"{name}.yaml") for name in NAMES]
    command = [sys.executable, "-m", "sluice", "run", *files, "--no-http", "--checkpoint", str(tmp_path)]
    running = ChildProcess(command, folder=tmp_path, log=tmp_path / "log")
    yield running
    running.terminate(30)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["message=running", 'message="input found"'], ids=["it runs", "Spark starts"])
def test_ctrl_c_ends_a_service_in_order(service: ChildProcess, tmp_path: Path, moment: str):
    """All pipelines share one Spark, which ends with the service, also if it was still starting."""
    log = tmp_path / "log"
    await_text(log, moment, service)
    os.killpg(service.pid, signal.SIGINT)
    await_text(log, "message=ended", service)
    deadline = time.monotonic() + PATIENCE
    while service.exit_code is None or left_of(service):
        assert time.monotonic() < deadline, left_of(service)
        time.sleep(0.1)
    assert service.exit_code == 0
    assert "Traceback" not in log.read_text()
    assert log.read_text().count('message="Spark is up"') == 1


def left_of(service: ChildProcess) -> list[Process]:
    """The processes of the service: the shell is the test's, and waits for the end of the test."""
    return [one for one in processes(service.pid) if one.name != "sh"]


def await_text(log: Path, text: str, service: ChildProcess) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        assert service.exit_code is None or text in log.read_text(), log.read_text()
        time.sleep(0.1)
