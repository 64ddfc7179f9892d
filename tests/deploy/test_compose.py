"""docker-compose.yml: what can be known about it without Docker."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sluice.cli import main
from sluice.files import project_file
from sluice_demo.__main__ import main as demo
from tests.deploy.test_image import tool

FILE = project_file("docker-compose.yml")
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]
PAGE = project_file("docs/deployment.md").read_text()
#: those that come to an end
JOBS = {"topics"}


def test_it_fits_the_published_schema():
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name):
    service = SERVICES[name]
    assert service["image"] == "sluice" or re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", service["image"])


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if service["image"] == "sluice"])
def test_no_registry_is_asked_for_our_own_image(name):
    """One service builds the image, the others take it from this machine. Compose pulls by default."""
    assert SERVICES[name]["pull_policy"] == ("build" if "build" in SERVICES[name] else "never")
    assert sum("build" in service for service in SERVICES.values()) == 1


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in JOBS | {"player", "sluice"}])
def test_services_say_whether_they_are_healthy(name):
    """The health check of Sluice is the image's."""
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_who_waits_waits_for_what_there_is(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        assert how["condition"] == ("service_completed_successfully" if other in JOBS else "service_healthy")


@pytest.mark.parametrize("name", SERVICES)
def test_folders_are_in_the_project_and_volumes_are_named(name):
    for volume in SERVICES[name].get("volumes", []):
        source, _, *mode = volume.split(":")
        if source.startswith("."):
            assert Path(FILE.parent, source).is_dir()
            assert mode == ["ro"]
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_alone(name):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_the_page_is_open_because_the_port_is_not():
    """A client of a published port does not have an address of the container's own machine."""
    assert "--page=open" in SERVICES["sluice"]["command"]
    assert SERVICES["sluice"]["ports"] == ["127.0.0.1:8080:8080"]


def test_the_documented_container_is_as_safe_as_the_one_here():
    (block,) = [one for one in PAGE.split("```sh\n") if one.startswith("docker run --detach")]
    command = block.partition("```")[0]
    service = SERVICES["sluice"]
    for option in (
        "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", f"--tmpfs {service['tmpfs']}", "--memory ",
        f"--restart {service['restart']}", f"--stop-timeout {service['stop_grace_period'].removesuffix('s')} ",
        f"--publish {service['ports'][0]}", "--page open",
    ):  # fmt: skip
        assert option in command


def test_there_are_no_secrets():
    assert not re.search(r"(?i)passw(or)?d\s*[:=]|secret|token", FILE.read_text())


@pytest.mark.parametrize(("name", "program"), [("sluice", main), ("player", demo)])
def test_our_own_commands_are_ones_that_the_program_takes(name, program):
    command, *arguments = SERVICES[name]["command"]
    help_ = CliRunner().invoke(program, [command, "--help"]).output
    assert arguments
    assert "No such command" not in help_
    for argument in arguments:
        if argument.startswith("--"):
            assert f"{argument.partition('=')[0]} " in help_


def test_the_flights_are_created_with_the_topic_partitions_that_the_demo_has():
    from sluice_demo.demo_run import FLIGHTS, TOPIC_PARTITIONS  # noqa: PLC0415

    assert {f"--topic={FLIGHTS}", f"--partitions={TOPIC_PARTITIONS}"} <= set(SERVICES["topics"]["command"])


def test_prometheus_reads_where_sluice_serves():
    config = yaml.safe_load(project_file("deploy/prometheus/prometheus.yml").read_text())
    targets = [target for job in config["scrape_configs"] for one in job["static_configs"] for target in one["targets"]]
    assert "sluice:8080" in targets


def test_grafana_has_its_data_source_and_its_board():
    folder = project_file("deploy/grafana/provisioning")
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((folder / "dashboards" / "sluice.yml").read_text())["providers"]
    board = json.loads(project_file("deploy/grafana/boards/sluice.json").read_text())
    mounted = {volume.split(":")[1]: volume.split(":")[0] for volume in SERVICES["grafana"]["volumes"]}
    assert Path(FILE.parent, mounted[provider["options"]["path"]], "sluice.json").is_file()
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    (chosen,) = (one for one in board["templating"]["list"] if one["type"] == "datasource")
    assert chosen["current"]["value"] == source["uid"]
