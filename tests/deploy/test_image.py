"""The Dockerfile: what a linter says, and its steps done with plain processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sluice.files import project_file
from sluice.jvm.jars import folder_of_jars, jars
from tests.deploy.dockerfile import Image, instructions

DOCKERFILE = project_file("Dockerfile")
#: a package and its version; the marker behind it depends on what else is installed
PINNED = re.compile(r"^([a-z0-9-]+)==([^ ;]+)", re.MULTILINE)


def tool(name: str) -> str:
    """A program that a package in our environment brings."""
    return str(Path(sysconfig.get_path("scripts"), name))


def test_the_linter_has_nothing_to_say():
    done = subprocess.run([tool("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_no_secret_no_root_and_signals_reach_the_service():
    found = dict(instructions(DOCKERFILE.read_text()))
    assert int(found["USER"]) > 0
    assert json.loads(found["ENTRYPOINT"]) == ["tini", "--", "sluice"]
    assert found["STOPSIGNAL"] == "SIGTERM"
    assert "/healthz" in found["HEALTHCHECK"]


def test_everything_that_is_copied_is_sent_to_the_builder():
    ignored = project_file(".dockerignore").read_text().splitlines()
    copied = [rest.split()[:-1] for word, rest in instructions(DOCKERFILE.read_text()) if word == "COPY"]
    ours = {source for sources in copied if not sources[0].startswith("--from") for source in sources}
    assert {line[1:] for line in ignored if line.startswith("!")} == ours


def test_the_image_has_the_versions_that_are_tested():
    tested = set(PINNED.findall(project_file("requirements.lock").read_text()))
    inside = set(PINNED.findall(project_file("deploy/requirements.lock").read_text()))
    assert inside
    assert inside <= tested, "make lock"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Built below a folder that anybody may read, which those of pytest are not."""
    public = next((folder for folder in Path(tempfile.gettempdir()).parents if folder.stat().st_mode & 0o002), None)
    with tempfile.TemporaryDirectory(prefix="sluice-image-", dir=public) as name:
        root = Path(name)
        root.chmod(0o755)
        built = Image(DOCKERFILE.parent, root)
        built.build()
        yield built


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_steps_of_the_image_give_a_service_that_needs_no_network_and_writes_only_where_it_may(image):
    """As nobody, with all but two folders belonging to somebody else."""
    temporary = image.root / "tmp"
    temporary.mkdir()
    temporary.chmod(0o777)
    environment = image.environment | {
        "XDG_CACHE_HOME": str(temporary),
        "TMPDIR": str(temporary),
        "HOME": "/nonexistent",
    }
    entrypoint = image.entrypoint if shutil.which("tini") else image.entrypoint[2:]
    compose = yaml.safe_load(project_file("docker-compose.yml").read_text())
    service = [argument for argument in compose["services"]["sluice"]["command"] if "kafka" not in argument]
    inside = image.root / "inside_image.py"
    shutil.copy(Path(__file__).with_name("inside_image.py"), inside)
    jars("broker")
    shutil.copytree(folder_of_jars(), inside.with_name("jars"))
    assert not list(image.root.glob("opt/sluice/share/sluice/jars/broker"))
    done = subprocess.run(
        [*isolated(image), str(image.root / "opt/sluice/bin/python"), str(inside), str(temporary), *entrypoint,
         "--service", *service],
        env=environment, cwd=image.workdir, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["played"] == "played 2 days: 1,771 departures and 8 marks into flights\n"
    assert seen["codes"] == {"healthz": 200, "readyz": 200, "metrics": 200}
    assert sorted((day["date"], day["origin"]) for day in seen["days"]) == [
        (date, origin) for date in ("2013-01-01", "2013-01-02") for origin in ("EWR", "JFK", "LGA")
    ]
    assert seen["ended"] == 0
    assert [Path(name).parent.name for name in seen["archives"]] == ["sluice"], "Java started without the archive"
    compiled = [name for name in seen["kernels"] if name.startswith(str(temporary))]
    assert not compiled, "kernels were compiled that the image could have brought"


def isolated(image: Image) -> list[str]:
    """The start of a command without a network, and as nobody if we are root."""
    python = str(image.root / "tools" / "python")
    if os.getuid():
        return ["unshare", "--net", "--map-root-user", "--", python, "-c", LOOPBACK]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    return ["unshare", "--net", "--", python, "-c", LOOPBACK, *user]


#: brings up the loopback device of a new network, and becomes the rest of the command line
LOOPBACK = """
import fcntl, os, socket, struct, sys
with socket.socket() as any: fcntl.ioctl(any, 0x8914, struct.pack("16sh", b"lo", 1))
os.execvp(sys.argv[1], sys.argv[1:])
"""
