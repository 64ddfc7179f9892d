"""Services that end by themselves when their inputs do, one fed by the other's marks."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import yaml

from sluice.processes import ChildProcess
from tests.service.events_as_records import record, replayed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIRST = """
  - name: first
    aggregate: in
    window: tumbling, punct(), partitioned
    partition_by: [key]
    output: {runs: {key: key, sum: Sum(number)}}
"""
SECOND = """
  - name: second
    aggregate: runs
    window: tumbling, punct()
    output: {out: {runs: Count(), keys: CountDistinct(key), sum: Sum(sum)}}
"""
IN = "  in: {schema: {key: string, number: int64}, marks_in: topic_partition}\n"
RUNS = "  runs: {schema: {key: string, sum: int64}, topic: TOPIC}\n"

EVENTS = [
    {"at": 0, "tuple": {"key": "a", "number": 1}}, {"at": 1, "tuple": {"key": "a", "number": 2}},
    {"at": 2, "punct": "window"}, {"at": 3, "tuple": {"key": "b", "number": 3}},
    {"at": 4, "tuple": {"key": "a", "number": 4}}, {"at": 5, "punct": "window"},
    {"at": 6, "tuple": {"key": "c", "number": 5}}, {"at": 7, "punct": "final"},
]  # fmt: skip


def written(pipeline_text, service, folder):
    """A pipeline file in a folder of its own."""
    folder.mkdir()
    file = yaml.safe_load(pipeline_text)
    for name, stream in file["streams"].items():
        file["streams"][name] = {"topic": service.topic(name), **(stream or {})}
    file |= {"pipeline": service.name, "kafka": {"bootstrap.servers": service.broker}, "clock": "records"}
    file["checkpoint"] = str(folder / "checkpoint")
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(file, sort_keys=False))
    return folder


def started(folder):
    """`sluice run --until-final` of the pipeline in this folder."""
    command = [sys.executable, "-m", "sluice", "run", str(folder / "pipeline.yaml"), "--no-http", "--until-final"]
    environment = {"PYTHONPATH": str(Path.cwd()), "SLUICE_SPARK_ui_enabled": "false"}
    return ChildProcess(command, folder, folder / "log", environment)


def await_ends(processes, seconds):
    deadline = time.monotonic() + seconds
    while None in [process.exit_code for process in processes] and time.monotonic() < deadline:
        time.sleep(0.1)
    codes = [process.exit_code for process in processes]
    for process in processes:
        process.kill()
    return codes


@pytest.mark.slow
def test_a_service_ends_when_its_inputs_do_and_the_one_behind_it_too(service, downstream, tmp_path):
    """As if both windows were in one pipeline."""
    service.create("in")
    service.create("runs")
    runs = RUNS.replace("TOPIC", service.topic("runs"))
    first = written(f"streams:\n{IN}  runs: {{}}\noperators:{FIRST}", service, tmp_path / "first")
    second = written(f"streams:\n{runs}  out: {{}}\noperators:{SECOND}", downstream, tmp_path / "second")
    both = [started(first), started(second)]
    service.send("in", [record(event) for event in EVENTS])
    assert await_ends(both, 120) == [0, 0], (first / "log").read_text() + (second / "log").read_text()
    one = service.pipeline(f"streams:\n{IN}  runs: {{}}\n  out: {{}}\noperators:{FIRST}{SECOND}")
    assert downstream.outputs("out") == replayed(one, EVENTS)["out"]
    assert await_ends([started(first)], 30) == [0], "one that had ended before ends at once"
