"""docs/deployment.md, "On a Spark cluster": its commands, done as a newcomer would."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sluice.files import PACKAGE, project_file
from sluice.kafka.embedded_broker import free_ports
from sluice.processes import ChildProcess
from tests.cluster.cluster import Service, awaited, prices
from tests.cluster.test_cluster import PIPELINE

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

VARIABLES = {"PYTHONPATH": str(PACKAGE.parent), "SPARK_LOCAL_IP": "127.0.0.1"}


def commands(number: int = 0) -> str:
    """A block of commands of the section, with this environment in place of `.venv`."""
    section = project_file("docs/deployment.md").read_text().partition("\n## On a Spark cluster\n")[2]
    block = section.split("```sh\n")[number + 1].partition("```")[0]
    return block.replace(".venv/bin", str(Path(sys.executable).parent))


def test_the_commands_give_a_cluster_on_which_the_service_runs(stack, broker, tmp_path):
    """With a free port."""
    service = Service(stack, broker, tmp_path, "page", PIPELINE)
    service.send(prices(0, 1500))
    (port,) = free_ports(1)
    said = commands().replace("7077", str(port))
    lines = [line for line in said.splitlines() if not line.startswith("#")]
    setup, daemons = lines[:2], [line for line in lines if line.endswith(" &")]
    assert len(daemons) == 3, "a master and two workers"
    log = tmp_path / "daemons.log"
    for line in daemons:
        script = "\n".join([f"cd {tmp_path}", *setup, f"exec {line.removesuffix(' &')}"])
        daemon = ChildProcess(["/bin/sh", "-c", script], tmp_path / "daemons", log, VARIABLES)
        stack.callback(daemon.kill)
    awaited(lambda: log.read_text().count("Successfully registered with master") == 2, log)
    check(service, lines[-1])


def test_the_command_of_a_local_cluster_gives_two_executors(stack, broker, tmp_path):
    service = Service(stack, broker, tmp_path, "page-local", PIPELINE)
    service.send(prices(0, 1500))
    (command,) = commands(1).splitlines()
    check(service, command)


def check(service: Service, command: str) -> None:
    """The service runs by this command on two executors, and its outputs are right."""
    service.run(["/bin/sh", "-c", f"exec {command.replace('FILE', str(service.file))} --no-http"], VARIABLES)
    service.check_outputs()
    # Which two buckets an executor has depends on whether the other one was there at the first placement.
    assert re.search(r"executors: 0 \(\S+\) has \d \d, 1 \(\S+\) has \d \d; moved", service.log.read_text())
    service.end()
