"""Where compiled kernels are kept."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.columns import kernel_cache
from sluice.files import PACKAGE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "service" / "engine").mkdir(parents=True)
    (tmp_path / "service" / "engine" / "one.py").write_text("1")
    return tmp_path / "service"


@pytest.fixture
def read_only(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, which cannot be written: root may write anything, so the question is answered for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, _: path != package)
    return package


def compile_kernels(package: Path) -> str:
    """As an installation does; the name of the folder."""
    kernels = package / "__pycache__" / kernel_cache.folder(package).name
    kernels.mkdir(parents=True)
    (kernels / "one.nbi").write_text("code")
    return kernels.name


def test_beside_the_sources_where_they_can_be_written(package):
    assert kernel_cache.folder(package).parent == package / "__pycache__"


def test_in_the_users_cache_elsewhere(read_only, tmp_path):
    assert kernel_cache.folder(read_only).parent == tmp_path / "cache" / "sluice"


def test_the_users_cache_begins_with_what_the_installation_compiled(read_only, tmp_path):
    name = compile_kernels(read_only)
    for _ in range(2):
        assert (kernel_cache.folder(read_only) / "one.nbi").read_text() == "code"
    assert [path.name for path in (tmp_path / "cache" / "sluice").iterdir()] == [name]


def test_without_a_place_to_write_kernels_are_compiled_again(read_only, tmp_path):
    compile_kernels(read_only)
    (tmp_path / "cache").write_text("no folder")
    assert not kernel_cache.folder(read_only).exists()


def test_other_sources_have_another_folder(package):
    before = kernel_cache.folder(package)
    (package / "engine" / "one.py").write_text("2")
    assert kernel_cache.folder(package) != before


def test_a_module_keeps_its_kernels_below_its_path_in_the_package():
    of = kernel_cache.Locator.get_suitable_cache_subpath
    assert of(str(PACKAGE / "engine" / "windows" / "run.py")) == "engine/windows"
    assert of("/elsewhere/windows/run.py").startswith("windows_")


def test_no_index_counts_from_the_end(tmp_path):
    (tmp_path / "last.py").write_text(
        "import numpy\n"
        "from sluice.columns.kernel import kernel\n"
        "@kernel\n"
        "def at(array, index):\n"
        "    return array[index]\n"
        "at(numpy.zeros(3, numpy.int64), -1)\n"
    )
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    command, environment = [sys.executable, tmp_path / "last.py"], os.environ | settings
    ran = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert "IndexError: index is out of bounds" in ran.stderr


def test_a_function_of_a_user_counts_from_the_end(tmp_path):
    """numba's rule, also for a function that is compiled after ours were imported, and for its cache."""
    (tmp_path / "last.py").write_text(
        "import numpy\n"
        "import sluice.engine.graph\n"
        "from numba import config, njit\n"
        "@njit(cache=True)\n"
        "def at(array, index):\n"
        "    return array[index] + array[-1]\n"
        "print(at(numpy.array([3, 5, 7]), -2), config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES)\n"
    )
    environment = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA")}
    ran = subprocess.run(
        [sys.executable, tmp_path / "last.py"], check=True, text=True, capture_output=True,
        env=environment | {"PYTHONPATH": str(PACKAGE.parent)},
    )  # fmt: skip
    assert ran.stdout.split() == ["12"]
    assert [*(tmp_path / "__pycache__").glob("last.at-*.nbi")]


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Each name that a module imports from this package, with the full name of what it is."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sluice.")
        for alias in node.names
    }


def kernels_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            decorators = " ".join(ast.unparse(one) for one in node.decorator_list)
            if re.search(r"\b(kernel|inlined|compiled)\b", decorators):
                yield node


def test_whatever_goes_into_a_kernel_is_among_the_sources():
    """Constants and functions are compiled into the kernels that use them: with another source they are others."""
    watched = {path for pattern in kernel_cache.SOURCES for path in PACKAGE.glob(pattern)}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = imported_names(tree)
        for kernel in kernels_of(tree):
            used = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)} & {*names}
            for name in used:
                parts = names[name].split(".")[1:]
                found = PACKAGE.joinpath(*parts).with_suffix(".py")
                source = found if found.exists() else PACKAGE.joinpath(*parts[:-1]).with_suffix(".py")
                source = source if source.exists() else PACKAGE.joinpath(*parts[:-1], "__init__.py")
                assert {path, source} <= watched, f"{kernel.name} of {path} uses {names[name]}"
