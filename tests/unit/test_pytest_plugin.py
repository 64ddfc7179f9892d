"""The fixtures for pytest: relative paths, and what the import of the plugin costs every run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice import pytest_plugin
from sluice.testing import PipelineTest

#: the fixture by another name, in case the installed package has the entry point too
make = pytest.fixture(pytest_plugin.factory)


def test_the_plugin_imports_nothing_heavy():
    check = "import sluice.pytest_plugin, sys; print(sorted({'numba', 'pyarrow', 'confluent_kafka'} & {*sys.modules}))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_entry_point_names_the_plugin():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nsluice = "sluice.pytest_plugin"' in text


def test_a_path_is_that_from_the_folder_of_the_test_and_else_from_the_present_one(make: Callable[..., PipelineTest]):
    assert make("../../examples/average.yaml").pipeline.name == "average"
    assert make("examples/average.yaml").pipeline.name == "average"


def test_a_text_is_a_pipeline_too(make: Callable[..., PipelineTest]):
    text = Path("examples/average.yaml").read_text()
    test = make(text).send("trades", {"symbol": "A", "price": 10.0, "size": 3})
    test.expect_tuples("averages", {"symbol": "A", "price": 10.0, "trades": 1})
