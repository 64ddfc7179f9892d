"""tests/README.md says where the tests of each floor are, and these tests reach every module of the floor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from sluice.files import PACKAGE, project_file
from tests.conftest import LONGEST
from tests.unit.test_architecture import FLOOR_MODULES, FLOORS, floor_of, imported, name_of

TESTS = project_file("tests/README.md").parent
PAGE = (TESTS / "README.md").read_text()
BEGIN, END = "<!-- floors -->\n", "<!-- end of floors -->"


def paths(text: str) -> list[Path]:
    return [TESTS / name for name in re.findall(r"`([^`]+)`", text) if "sluice" not in name]


#: by floor: the folders and files with its tests
PLACES = {
    floor.strip("`/ "): paths("|".join(cells))
    for floor, *cells in (
        row.strip("| ").split(" | ") for row in PAGE[PAGE.index(BEGIN) : PAGE.index(END)].split("\n")[3:-1]
    )
}


def test_the_table_has_the_floors_in_their_order():
    assert list(PLACES) == list(FLOORS)


@pytest.mark.parametrize("floor", PLACES)
def test_the_tests_of_a_floor_reach_every_module(floor: str):
    assert [str(place) for place in PLACES[floor] if not files_of_tests(place)] == []
    reached = reached_from(path for place in PLACES[floor] for path in files_of_tests(place))
    assert [name_of(path) for path in FLOOR_MODULES if floor_of(name_of(path)) == floor and path not in reached] == []


def test_every_folder_of_tests_is_on_the_page():
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and files_of_tests(path)}
    named = paths("".join(re.findall(r"\n\|[^|]*", PAGE[PAGE.index(END) :])))
    assert folders == {path.relative_to(TESTS).parts[0] for path in named}


def files_of_tests(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


def test_the_files_that_begin_first_exist():
    assert set(LONGEST) <= {path.name for path in TESTS.rglob("test_*.py")}


def reached_from(files: Iterable[Path]) -> set[Path]:
    """The files that these files import, directly or through others."""
    reached, waiting = set[Path](), list(files)
    while waiting:
        new = imports_of(waiting.pop()) - reached
        reached |= new
        waiting += new
    return reached


@cache
def imports_of(path: Path) -> frozenset[Path]:
    """The files of the package and of the tests that a file imports or, as cli.py does, names in a text."""
    named = re.findall(r'"(sluice(?:\.\w+)+)"', path.read_text())
    files = [file for name in (*imported(path), *named) for file in files_of(name)]
    return frozenset(file for file in files if file.is_file())


def files_of(name: str) -> list[Path]:
    """The files that a dotted name may mean: a module, a name in it, or a package, and the packages above."""
    parts, root = name.split("."), PACKAGE.parent if name.startswith("sluice") else TESTS.parent
    folders = [root.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
    return [file for folder in folders for file in (folder.with_suffix(".py"), folder / "__init__.py")]
