"""The examples in the pages are the files in examples/, with what a replay of them gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.load import load
from sluice.files import project_file
from tests.docs.recipes import BLOCK, pages, written

RECIPES = sorted(project_file("examples/recipes").glob("*.yaml"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_examples_of_a_page_are_those_of_a_replay(page: Path):
    text = page.read_text(encoding="utf-8")
    assert text == written(text), f"python -m tests.docs.recipes writes {page.name}"


def test_every_recipe_is_in_a_page():
    named = {found[3] for page in pages() for found in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert {f"recipes/{path.stem}" for path in RECIPES} <= named


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_has_no_faults(path: Path):
    assert load(path)
