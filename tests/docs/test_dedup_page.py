"""Every table of docs/dedup.md is what a replay of it gives, row by row."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from sluice.testing import run_case
from tests.docs.test_windows_page import DOCS, EXAMPLE, event, rows, shown

FOUND = [found for found in EXAMPLE.finditer((DOCS / "dedup.md").read_text(encoding="utf-8")) if found["yaml"]]
TABLES = [pytest.param(yaml.safe_load(of["yaml"]), rows(of["table"]), id=str(n)) for n, of in enumerate(FOUND)]


@pytest.mark.parametrize(("operator", "table"), TABLES)
def test_table(operator: dict[str, Any], table: list[dict[str, str]]):
    records = run_case({"operator": operator, "input": [event(row) for row in table]})
    got = [" ".join(shown(r) for r in records if r["after"] == number) for number in range(len(table))]
    assert got == [row["output"] for row in table]


def test_examples_stand_in_the_page():
    assert len(TABLES) == 5
