"""docs/deployment.md, "On a Spark cluster": its commands, done as a newcomer would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.files import PACKAGE, project_file
from sluice.kafka.embedded_broker import free_ports
from sluice.processes import ChildProcess
from tests.cluster.cluster import Service, awaited, prices
from tests.cluster.test_cluster import PIPELINE

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def commands() -> str:
    """The first block of commands of the section."""
    section = project_file("docs/deployment.md").read_text().partition("\n## On a Spark cluster\n")[2]
    return section.partition("```sh\n")[2].partition("```")[0]


def test_the_commands_give_a_cluster_on_which_the_service_runs(stack, broker, tmp_path):
    """With this environment in place of `.venv`, and a free port."""
    service = Service(stack, broker, tmp_path, "page", PIPELINE)
    service.send(prices(0, 1500))
    (port,) = free_ports(1)
    said = commands().replace("7077", str(port)).replace(".venv/bin", str(Path(sys.executable).parent))
    lines = [line for line in said.splitlines() if not line.startswith("#")]
    setup, daemons = lines[:2], [line for line in lines if line.endswith(" &")]
    assert len(daemons) == 3, "a master and two workers"
    variables = {"PYTHONPATH": str(PACKAGE.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = tmp_path / "daemons.log"
    for line in daemons:
        script = "\n".join([f"cd {tmp_path}", *setup, f"exec {line.removesuffix(' &')}"])
        daemon = ChildProcess(["/bin/sh", "-c", script], tmp_path / "daemons", log, variables)
        stack.callback(daemon.kill)
    awaited(lambda: log.read_text().count("Successfully registered with master") == 2, log)
    run = lines[-1].replace("FILE", str(tmp_path / "pipeline.yaml"))
    service.run(["/bin/sh", "-c", f"exec {run} --no-http"], variables)
    service.check_outputs()
    assert "executors: 0 (127.0.0.1) has 0 2, 1 (127.0.0.1) has 1 3" in service.log.read_text()
    service.end()
