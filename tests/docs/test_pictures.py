"""The committed pictures of docs/ are what the tables and the examples give. `make docs-pictures` draws them again."""

from __future__ import annotations

import re

import pytest

from sluice.files import project_file
from tests.docs.pictures import FOLDER, TABLES, pictures


def test_the_pictures_are_up_to_date():
    drawn = dict(pictures())
    assert {path.name for path in FOLDER.glob("*.svg")} == drawn.keys()
    old = [name for name, text in drawn.items() if (FOLDER / name).read_text() != text]
    assert old == [], "run `make docs-pictures`"


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_each_picture_before_its_table(name: str):
    page = project_file("docs/windows.md").read_text()
    shown = re.search(rf"!\[[^\]]+\]\(pictures/{name}\.svg\)\s+```yaml\nwindow: ([^\n]+)\n", page)
    assert shown is not None
    assert shown[1] == TABLES[name][0]
