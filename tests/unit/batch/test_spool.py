"""Packed rows beyond a bound are kept in files, and come back as they were."""

from __future__ import annotations

import pytest

from sluice.batch.packed_rows import COUNTS, DEAD_LETTERS, RECORDS, SPOOLED
from sluice.batch.spool import Spool, folder_of, in_memory, remove_files

ROWS = [(RECORDS, b"a" * 10), (DEAD_LETTERS, b"b" * 100), (COUNTS, b"c"), (RECORDS, b"d" * 50), (RECORDS, b"")]


def bytes_of(rows):
    return [(kind, bytes(body)) for kind, body in rows]


@pytest.mark.parametrize("limit", [0, 11, 60, 1000])
def test_rows_come_back_in_order_whatever_is_in_files(tmp_path, limit):
    with Spool(str(tmp_path), 7, limit) as spool:
        handed = [spool.stored(row) for row in ROWS]
    assert sum(len(body) for kind, body in handed if not kind & SPOOLED) <= limit
    assert bytes_of(in_memory(str(tmp_path), handed)) == ROWS
    assert folder_of(str(tmp_path)).exists() == (limit < 1000), "small batches make no file"


def test_a_reference_can_be_read_while_its_spool_is_open(tmp_path):
    with Spool(str(tmp_path), 7, 0) as spool:
        handed = [spool.stored(row) for row in ROWS]
        spool.flush()
        assert bytes_of(in_memory(str(tmp_path), handed)) == ROWS
        spool.remove()
    assert not list(folder_of(str(tmp_path)).iterdir())


def test_a_reference_is_handed_on_as_it_is(tmp_path):
    with Spool(str(tmp_path), 7, 0) as first, Spool(str(tmp_path), 7, 0) as second:
        row = first.stored(ROWS[0])
        assert second.stored(row) == row


def test_files_of_done_batches_are_removed(tmp_path):
    for batch in (3, 4, 5):
        with Spool(str(tmp_path), batch, 0) as spool:
            spool.stored(ROWS[0])
    remove_files(str(tmp_path), 4)
    assert [path.name.partition(".")[0] for path in folder_of(str(tmp_path)).iterdir()] == ["5"]
    remove_files(str(tmp_path), 5)
    assert not folder_of(str(tmp_path)).exists()
    remove_files(str(tmp_path), 6)


def test_files_of_others_stay(tmp_path):
    """NFS keeps a mapped file that was removed as .nfs..."""
    with Spool(str(tmp_path), 3, 0) as spool:
        spool.stored(ROWS[0])
    others = [folder_of(str(tmp_path)) / name for name in (".nfs00000000012a00000001", ".nfs0001.swp", "3.txt", "x.y")]
    for path in others:
        path.touch()
    remove_files(str(tmp_path), 4)
    assert sorted(folder_of(str(tmp_path)).iterdir()) == sorted(others)
