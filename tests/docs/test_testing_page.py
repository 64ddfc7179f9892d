"""The example of docs/testing.md: its test passes with the fixtures of the plugin, and fails with the shown message."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.files import project_file

PAGE = project_file("docs/testing.md").read_text()
BLOCK = re.compile(r"```(?:python|yaml)\n# ([\w.]+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the example."""
    for name, text in BLOCK.findall(PAGE):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the tests of the folder as a user does. The plugin is named, in case the package was not installed since."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "sluice.pytest_plugin", "."]
    environment = os.environ | {"PYTHONPATH": str(project_file("service")), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_example_has_a_test_and_a_pipeline(folder: Path):
    assert {path.name for path in folder.iterdir()} == {"test_daily.py", "daily.yaml"}


def test_the_example_passes(folder: Path):
    found = run(folder)
    assert (found.returncode, "2 passed" in found.stdout) == (0, True), found.stdout


def test_a_failure_has_the_shown_message(folder: Path):
    file = folder / "test_daily.py"
    file.write_text(file.read_text().replace('"amount": 20.0', '"amount": 21.0'))
    found = run(folder)
    assert found.returncode == 1
    shown = PAGE.split("<!-- failure -->\n```\n")[1].split("```")[0]
    lines = [line.removeprefix("E").removeprefix("   ") for line in found.stdout.splitlines() if line.startswith("E")]
    said = "\n".join(lines).replace("AssertionError: ", "")
    for line in shown.splitlines():
        assert line.strip() in said, said
