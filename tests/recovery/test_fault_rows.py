"""Each row of the documents' tables of faults has a test, and each test that names a row covers one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery.fault_rows import ROWS, Table, covering, documented

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "cluster")
COVERED = {row for folder in FOLDERS for row, _ in covering(folder)}


@pytest.mark.parametrize("table", ROWS, ids=lambda table: f"{table.page}: {table.section}")
def test_the_rows_are_those_of_the_document(table: Table):
    assert [*documented(table)] == [*ROWS[table].values()]


def test_each_row_has_a_test():
    assert not {row for rows in ROWS.values() for row in rows} - COVERED


def test_each_test_that_names_a_row_has_one():
    assert not COVERED - {row for rows in ROWS.values() for row in rows}
