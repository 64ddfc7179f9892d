"""Where the code of compiled kernels is kept, and when it is compiled again."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types

from sluice.columns import intrusive_list
from sluice.columns.kernel import kernel
from sluice.compiler import kernel_cache
from sluice.compiler.kernel_cache import KernelCache, folders, prune, stamps
from sluice.files import PACKAGE

PROGRAM = """
import numpy as np
from sluice.columns.kernels import first, second
rows = np.array([3, 5])
print(first(rows), second(rows), *(kernel.stats.cache_misses.total() for kernel in (first, second)))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of one kernel, beside the modules of this one that it needs."""
    made = tmp_path / "sluice"
    for name in ("compiler", "columns"):
        (made / name).mkdir(parents=True)
        shutil.copy(PACKAGE / name / "__init__.py", made / name)
    for name in ("files.py", "columns/kernel.py", "compiler/kernel_cache.py", "compiler/kernel_stamps.py"):
        shutil.copy(PACKAGE / name, made / name)
    (made / "__init__.py").write_text("")
    (made / "columns" / "lists.py").write_text(
        "from sluice.columns.kernel import inlined, kernel\n"
        "LIMIT = 1\n"
        "@inlined\n"
        "def least(array):\n"
        '    """The least."""\n'
        "    return LIMIT\n"
    )
    (made / "columns" / "kernels.py").write_text(
        "from sluice.columns.kernel import kernel\n"
        "from sluice.columns.lists import least\n"
        "@kernel\n"
        "def first(array):\n"
        "    return least(array) + array[0]\n"
        "@kernel\n"
        "def second(array):\n"
        "    return array[1]\n"
    )
    return made


@pytest.fixture
def run(package: Path) -> Callable[..., str]:
    """Runs the package's kernels in a new process. The results, and how many kernels were compiled."""

    def ran(**settings: str) -> str:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA")} | settings
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, text=True, capture_output=True,
            env=environment | {"PYTHONPATH": str(package.parent)}, cwd=package.parent,
        ).stdout.strip()  # fmt: skip

    return ran


def code(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)).split("-")[0] for path in folder.rglob("*.code"))


def test_an_edit_compiles_the_kernels_again_that_reach_it(package, run):
    assert run() == "4 5 1 1"
    assert run() == "4 5 0 0"
    edited = package / "columns" / "lists.py"
    edited.write_text("# moves all lines\n" + edited.read_text().replace("The least.", "The smallest.\n    "))
    assert run() == "4 5 0 0"
    edited.write_text(edited.read_text().replace("LIMIT = 1", "LIMIT = 2"))
    assert run() == "5 5 1 0"
    edited.write_text(edited.read_text().replace("LIMIT = 2", "LIMIT = 1"))
    assert run() == "4 5 0 0", "the code of the version before is still there"
    assert code(package / "__pycache__" / "kernels") == ["columns/kernels.first"] * 2 + [
        "columns/kernels.second",
        *["columns/lists.least"] * 2,
    ]


def test_a_damaged_file_is_compiled_again(package, run):
    run()
    for path in (package / "__pycache__" / "kernels").rglob("*kernels.first*.code"):
        path.write_bytes(path.read_bytes()[:-5] + b"\0" * 5)
    for path in (package / "__pycache__" / "kernels").rglob("*kernels.second*.code"):
        path.write_bytes(b"")
    assert run() == "4 5 1 1"
    assert run() == "4 5 0 0"


def test_code_with_other_settings_of_the_compiler_is_another_file(run):
    run()
    assert run(NUMBA_BOUNDSCHECK="1") == "4 5 1 1"
    assert run(NUMBA_CPU_NAME="generic") == "4 5 1 1"
    assert run() == "4 5 0 0"


@pytest.fixture
def read_only(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, which cannot be written: root may write anything, so the question is answered for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", "")
    monkeypatch.setattr(os, "access", lambda path, _: path != package)
    return package


def test_code_is_beside_the_sources_where_they_can_be_written(package, monkeypatch):
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", "")
    assert folders(package) == (package / "__pycache__" / "kernels",)


def test_a_read_only_package_is_read_and_the_users_cache_is_written(read_only, tmp_path):
    assert folders(read_only) == (tmp_path / "cache" / "sluice" / "kernels", read_only / "__pycache__" / "kernels")


def first(array: np.ndarray) -> int:
    return array[0]  # type: ignore[no-any-return]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[Path, ...]], int]:
    """Compiles `first` with code in some folders. How many times it was compiled."""

    def ran(places: tuple[Path, ...]) -> int:
        monkeypatch.setattr(kernel_cache, "_folders", lambda: places)
        compiled = kernel(first)
        assert compiled(np.array([3])) == 3
        return compiled.stats.cache_misses.total()  # type: ignore[attr-defined,no-any-return]

    return ran


def test_code_of_the_installation_is_used_where_it_lies(kept, tmp_path):
    installed, users = tmp_path / "installed", tmp_path / "users"
    assert kept((installed,)) == 1
    assert kept((users, installed)) == 0
    assert not users.exists()


def test_without_a_place_to_write_each_process_compiles(kept, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert kept((tmp_path / "file" / "kernels",)) == 1


HOLDER = """
import sys
import numpy as np
from sluice.columns.kernel import kernel
from sluice.compiler import kernel_cache
from tests.unit.compiler.test_kernel_cache import first
lock = kernel_cache.Lock(kernel_cache.Path(sys.argv[1]))
lock.acquire()
print(flush=True)
sys.stdin.readline()
kernel(first)(np.array([3]))
"""


def test_a_process_waits_for_code_that_another_process_compiles(kept, tmp_path, monkeypatch):
    kept((tmp_path / "before",))
    (code_file,) = (tmp_path / "before").rglob("*.code")
    lock = tmp_path / "kernels" / f"{code_file.relative_to(tmp_path / 'before')}.lock"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        waits = []

        def finish(seconds: float) -> None:
            waits.append(seconds)
            other.communicate("\n")

        # A module in place of `time`, as another thread of the tests may sleep as well.
        monkeypatch.setattr(
            kernel_cache, "time", SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=finish)
        )
        assert kept((tmp_path / "kernels",)) == 0
    assert len(waits) == 1
    assert [path.suffix for path in (tmp_path / "kernels" / "elsewhere").iterdir()] == [".code"]


def test_a_process_that_waits_too_long_compiles(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache.Lock, "_taken", lambda _: False)
    monkeypatch.setattr(kernel_cache, "MAX_WAIT_SECONDS", 0.0)
    assert kept((tmp_path,)) == 1


def test_code_that_cannot_be_kept_is_not_waited_for(tmp_path, monkeypatch):
    """Code that has the address of a C function is of use to its own process alone."""
    absolute = ctypes.CDLL(None).labs
    absolute.argtypes, absolute.restype = [ctypes.c_long], ctypes.c_long
    monkeypatch.setattr(kernel_cache, "_folders", lambda: (tmp_path,))

    @kernel
    def distance(number: int) -> int:
        return absolute(number)  # type: ignore[no-any-return]

    assert distance(-3) == 3
    assert [*tmp_path.rglob("*.lock"), *tmp_path.rglob("*.code")] == []


def test_locks_of_a_file_system_without_locks_are_not_waited_for(tmp_path, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("sluice.compiler.kernel_cache.fcntl.lockf", no_locks)
    monkeypatch.setattr(kernel_cache, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pytest.fail))
    lock = kernel_cache.Lock(tmp_path / "kernel.code.lock")
    assert not lock.acquire()
    lock.release()


def test_the_types_of_two_named_tuples_differ_by_their_fields():
    """numba's name of the type has no names of fields, so an exchange of two fields would not be noticed."""
    one, other = (namedtuple("Pair", names) for names in (["a", "b"], ["b", "a"]))  # noqa: PYI024
    layouts = {kernel_cache._layout(types.NamedTuple((types.int64, types.int64), made)) for made in (one, other)}  # noqa: SLF001
    assert len(layouts) == 2


def test_a_cache_can_be_emptied_and_switched_off(kept, tmp_path, monkeypatch):
    assert kept((tmp_path,)) == 1
    monkeypatch.setattr(kernel_cache, "_folders", lambda: (tmp_path,))
    cache = KernelCache(first)
    cache.flush()
    assert kept((tmp_path,)) == 1
    assert len([*tmp_path.rglob("*.code")]) == 1


def test_code_that_no_kept_version_names_is_removed(package, tmp_path):
    folder = tmp_path / "kernels"
    names = []
    for version in range(4):
        kernels = package / "columns" / "kernels.py"
        kernels.write_text(kernels.read_text() + f"ROWS = {version}\n")
        kernels.write_text(kernels.read_text().replace("return array[1]", f"return array[1] + {version}", 1))
        kernel_cache._version.cache_clear()  # noqa: SLF001
        table = stamps(package, (folder,))
        names.append(table["sluice.columns.kernels.second"])
        os.utime(max(folder.glob("stamps-*.json"), key=lambda path: path.stat().st_mtime_ns), (version, version))
        (folder / f"second-{names[-1]}-1.code").touch()
    assert len({*names}) == 4
    (folder.parent / "kernels-0123456789abcdef").mkdir()
    os.utime(next(path for path in folder.glob("*.json") if names[0] in json.loads(path.read_text()).values()))
    prune(folder, versions=2)
    assert {path.stem.split("-")[1] for path in folder.glob("*.code")} == {names[0], names[3]}
    assert len([*folder.glob("stamps-*.json")]) == 2
    assert not (folder.parent / "kernels-0123456789abcdef").exists()


def test_a_table_of_stamps_is_made_once_and_found_in_each_folder(package, tmp_path):
    made = stamps(package, (tmp_path / "installed",))
    assert made["sluice.columns.kernels.first"] != made["sluice.columns.kernels.second"]
    assert stamps(package, (tmp_path / "users", tmp_path / "installed")) == made
    assert [path.name for path in (tmp_path / "users").iterdir()] == [
        path.name for path in (tmp_path / "installed").iterdir()
    ]


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


def test_a_kernel_of_the_package_has_a_stamp_of_its_own():
    table = stamps(PACKAGE, folders())
    assert table["sluice.columns.intrusive_list.unlink"] == kernel_cache.stamp_of(intrusive_list.unlink.py_func)
    assert kernel_cache.stamp_of(first) not in table.values()
