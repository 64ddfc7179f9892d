"""Who may import whom: arrows point one way (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.files import project_file

SERVICE = project_file("service")

#: part -> the parts that it may import
ARROWS = {
    "pipeline": set(),
    "engine": {"pipeline"},
    "wire": {"pipeline", "engine"},
    "kafka": {"pipeline"},
    "ops": {"pipeline"},
    "spark": {"pipeline", "engine", "wire", "kafka", "ops"},
    "explain": {"pipeline", "engine"},
    "demo": {"pipeline", "engine", "kafka", "wire"},
    "commands": {"pipeline", "engine", "kafka", "ops", "spark", "demo", "explain"},
}
#: what stands at the top, which everybody may use
COMMON = {"__version__", "compiled", "files", "processes", "times", "warm"}
PARTS = [path for path in sorted(SERVICE.rglob("*.py")) if len(path.relative_to(SERVICE).parts) > 1]


def imported(path: Path) -> Iterator[str]:
    """The full names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(SERVICE)))
def test_arrows_point_one_way(path: Path):
    part = path.relative_to(SERVICE).parts[0]
    used = {name.split(".")[1] for name in imported(path) if name.startswith("service.")}
    wrong = used - ARROWS[part] - COMMON - {part}
    assert not wrong, f"{part} imports {sorted(wrong)}"


def test_only_the_spark_part_imports_pyspark():
    users = {
        path.relative_to(SERVICE).parts[0]
        for path in SERVICE.rglob("*.py")
        if any(name.split(".")[0] == "pyspark" for name in imported(path))
    }
    assert users == {"spark"}


def test_what_spark_plans_and_commits_with_needs_no_engine():
    """A first batch starts four processes for that, one after the other, and numba takes each of them a second."""
    modules = "import sluice.spark.sink, sluice.spark.run_bucket, sluice.spark.idle_clock, sluice.spark.source"
    check = f"{modules}, sys; print(sorted({{'numba', 'pandas', 'polars'}} & {{*sys.modules}}))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_every_part_is_known():
    assert {path.relative_to(SERVICE).parts[0] for path in PARTS} == set(ARROWS)
