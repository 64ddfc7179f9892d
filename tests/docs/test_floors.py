"""The table of folders in docs/architecture.md is the table that the architecture test checks."""

from __future__ import annotations

import ast

from sluice.files import project_file
from tests.unit.test_architecture import FLOORS

PAGE, PACKAGE = project_file("docs/architecture.md"), project_file("service/sluice")
BEGIN, END = "<!-- floors -->\n", "<!-- end of floors -->"


def table() -> str:
    """One row for each floor: its folder, the docstring of its package, and the floors that it may import."""
    rows = ["| folder | what it holds | may import |", "| --- | --- | --- |"]
    for floor, below in FLOORS.items():
        held = ast.get_docstring(ast.parse((PACKAGE / floor / "__init__.py").read_text())) or ""
        first = " ".join(held.split("\n\n")[0].split())
        rows.append(f"| `{floor}/` | {first} | {', '.join(f'`{one}`' for one in FLOORS if one in below) or '-'} |")
    return "\n".join(rows) + "\n"


def test_the_page_has_the_table_of_floors():
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == table()


def test_every_folder_says_what_it_holds():
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
