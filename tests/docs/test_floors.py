"""docs/architecture.md lists the floors of the architecture test, with what each holds."""

from __future__ import annotations

import ast
from pathlib import Path

from sluice.files import project_file
from tests.unit.test_architecture import FLOORS

PAGE, PACKAGE = project_file("docs/architecture.md"), project_file("service/sluice")
BEGIN, END = "<!-- floors -->\n", "<!-- end of floors -->"


def listed() -> str:
    """One item for each floor: its folder and the docstring of its package."""
    return "".join(f"* `{floor}/`: {held(PACKAGE / floor)}\n" for floor in FLOORS)


def held(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def test_the_page_has_all_floors():
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == listed()


def test_every_folder_says_what_it_holds():
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
