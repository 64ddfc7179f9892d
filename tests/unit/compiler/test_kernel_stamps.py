"""Which change of the sources changes the stamp of a kernel."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from sluice.compiler.kernel_stamps import Definition, Sources
from sluice.files import PACKAGE

MODULES = {
    "columns/__init__.py": "",
    "columns/kernel.py": """
        def kernel(function): return function
        OPTIONS = 1
    """,
    "columns/lists.py": '''
        """Lists."""
        from sluice.columns.kernel import kernel
        NIL = -1
        OTHER = 2
        @kernel
        def unlink(row: int) -> int:
            """Removes a row."""
            return NIL  # nothing
        @kernel
        def link(row):
            return OTHER
    ''',
    "columns/contents.py": """
        from typing import NamedTuple, TYPE_CHECKING
        from sluice.columns import lists
        from sluice.columns.kernel import kernel
        from sluice.columns.saved_columns import SIZE, Table as Rows
        class Fields(NamedTuple):
            first: int
        LIMITS = []
        LIMITS.append(SIZE)
        if TYPE_CHECKING:
            def cast(row): ...
        else:
            cast = SIZE
        @kernel
        def run(fields: Fields):
            return _step(lists.unlink(1)) + cast
        @kernel
        def _step(row):
            return row + len(LIMITS)
        @kernel
        def rest(row):
            return Rows(row)
        def unused(row):
            return lists.OTHER
    """,
    "columns/saved_columns.py": """
        from sluice.columns.sizes import SIZE
        class Table:
            rows = 1
    """,
    "columns/sizes.py": "SIZE = 8",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        path = tmp_path / "sluice" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("\n        ", "\n"))
    return tmp_path / "sluice"


def changed(package: Path, module: str, old: str, new: str) -> set[str]:
    """The kernels that have another stamp after an edit."""
    before = Sources(package).stamps(b"")
    path = package / "columns" / f"{module}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    after = Sources(package).stamps(b"")
    assert after.keys() == before.keys()
    return {name.removeprefix("sluice.columns.") for name in after if after[name] != before[name]}


ALL = {"lists.unlink", "lists.link", "contents.run", "contents._step", "contents.rest"}
RUN, STEP, REST, UNLINK = "contents.run", "contents._step", "contents.rest", "lists.unlink"


@pytest.mark.parametrize(
    ("module", "old", "new", "kernels"),
    [
        pytest.param("contents", "row + len", "row - len", {RUN, STEP}, id="a function and its callers"),
        pytest.param("lists", "NIL = -1", "NIL = -2", {UNLINK, RUN}, id="a constant, through an attribute of a module"),
        pytest.param("lists", "OTHER = 2", "OTHER = 3", {"lists.link"}, id="a constant of another kernel"),
        pytest.param("sizes", "8", "9", {RUN, STEP}, id="a name that a module imports and passes on"),
        pytest.param("contents", "append(SIZE)", "append(1)", {RUN, STEP}, id="a call that changes a value in place"),
        pytest.param("contents", "    cast = SIZE", "    cast = 5", {RUN}, id="a binding below an if"),
        pytest.param("saved_columns", "rows = 1", "rows = 2", {REST}, id="a class under another name"),
        pytest.param("kernel", "OPTIONS = 1", "OPTIONS = 2", ALL, id="the compiler's options"),
        pytest.param("lists", "return NIL  # nothing", "return NIL", set(), id="a comment"),
        pytest.param("lists", '"""Removes a row."""', '"""Takes a row out."""', set(), id="a docstring"),
        pytest.param("lists", '"""Lists."""', '"""Lists.\n\nOf rows.\n"""', set(), id="line numbers"),
        pytest.param("lists", "row: int) -> int", "row: float) -> float", set(), id="type hints of a function"),
        pytest.param("contents", "return lists.OTHER", "return 1", set(), id="a function that no kernel calls"),
    ],
)
def test_an_edit_changes_the_stamps_of_the_kernels_that_reach_it(package, module, old, new, kernels):
    assert changed(package, module, old, new) == kernels


def test_a_kernel_has_another_stamp_with_another_compiler(package):
    assert not {*Sources(package).stamps(b"1").values()} & {*Sources(package).stamps(b"2").values()}


def kernels() -> dict[str, Any]:
    """All kernels of this package, by module and name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if "columns.kernel" in path.read_text():
            name = ".".join(["sluice", *path.relative_to(PACKAGE).with_suffix("").parts])
            found |= {
                f"{name}.{function}": value
                for function, value in vars(importlib.import_module(name)).items()
                if isinstance(value, Dispatcher) and value.py_func.__module__ == name
            }
    return found


def read_by(function: Callable[..., Any]) -> Iterator[Any]:
    """The values that the bytecode of a function reads from this package."""
    instructions = [*dis.get_instructions(function)]
    for one, following in zip(instructions, [*instructions[1:], None], strict=True):
        if one.opname == "LOAD_GLOBAL" and one.argval in function.__globals__:
            value = function.__globals__[one.argval]
            if isinstance(value, ModuleType) and value.__name__.startswith("sluice"):
                assert following is not None
                yield getattr(value, following.argval)
            elif not isinstance(value, ModuleType):
                yield value


def value_of(definition: Definition) -> object:
    return getattr(sys.modules[f"sluice.{definition.module}"], definition.name, None)


def test_a_stamp_covers_everything_that_the_bytecode_of_the_kernel_reads():
    """The analysis never runs the code; this test follows the values that the interpreter would read."""
    sources = Sources(PACKAGE)
    stamps = sources.stamps(b"")
    found = kernels()
    assert found
    for name, kernel in found.items():
        assert name in stamps
        module, _, function = name.removeprefix("sluice.").rpartition(".")
        covered = {id(value_of(one)) for one in sources.reached([Definition(module, function)])}
        for value in read_by(kernel.py_func):
            assert id(value) in covered, f"{name} reads {value}"
