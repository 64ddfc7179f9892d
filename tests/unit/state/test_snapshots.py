from __future__ import annotations

import shutil

import pytest

from sluice.checkpoint.folder_store import FolderStore
from sluice.state.checksummed_blocks import DamagedError, Owner
from sluice.state.snapshots import Snapshots
from tests.unit.state.damaged_files import flip


def written(folder, *versions):
    snapshots = Snapshots(FolderStore(folder), "")
    for version in versions:
        snapshots.write(version, lambda file, version=version: file.write(b"state %d" % version))
    return snapshots


def test_it_is_read_as_it_was_written(tmp_path):
    assert bytes(written(tmp_path, 7).read(7)) == b"state 7"


@pytest.mark.parametrize(("upto", "found"), [(2, 0), (3, 3), (7, 3), (8, 8), (100, 8)])
def test_the_newest_that_is_not_after(tmp_path, upto, found):
    assert written(tmp_path, 3, 8).newest(upto) == found


def test_there_is_none_in_a_folder_that_is_not_there(tmp_path):
    assert Snapshots(FolderStore(tmp_path / "new"), "").newest(5) == 0


def test_one_that_nobody_finished_is_none(tmp_path):
    (tmp_path / "5.123.part").write_bytes(b"sta")
    assert Snapshots(FolderStore(tmp_path), "").newest(9) == 0


def test_one_that_fails_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"sta")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Snapshots(FolderStore(tmp_path), "").write(5, fail)
    assert not list(tmp_path.iterdir())


def test_old_ones_go(tmp_path):
    (tmp_path / "2.123.part").write_bytes(b"sta")
    snapshots = written(tmp_path, 3, 8, 9)
    snapshots.delete_before(before=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["8.state", "9.state"]


def test_the_second_copy_is_used_where_the_first_is_damaged(tmp_path, caplog):
    snapshots = Snapshots(FolderStore(tmp_path), "")
    snapshots.write(5, lambda file: file.write(b"state"), twice=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["5.copy", "5.state"]
    flip(tmp_path / "5.state", 130)
    assert bytes(snapshots.read(5)) == b"state"
    assert f"{tmp_path}/5.state" in caplog.text
    (tmp_path / "5.state").unlink()
    assert snapshots.newest(9) == 5
    assert bytes(snapshots.read(5)) == b"state"
    flip(tmp_path / "5.copy", 130)
    with pytest.raises(DamagedError, match=r"5\.copy"):
        snapshots.read(5)
    snapshots.delete_before(before=6)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("owner", "version", "message"),
    [
        (Owner("p", "q", 2), 7, "belongs to bucket 1, not to bucket 2"),
        (Owner("p", "r", 1), 7, "belongs to query q, not to query r"),
        (Owner("o", "q", 1), 7, "belongs to pipeline p, not to pipeline o"),
        (Owner("p", "q", 1), 8, "belongs to version 7, not to version 8"),
    ],
)
def test_a_file_of_another_bucket_or_version_under_this_name_is_refused(tmp_path, owner, version, message):
    Snapshots(FolderStore(tmp_path / "one"), "", Owner("p", "q", 1)).write(7, lambda file: file.write(b"state"))
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "one" / "7.state", tmp_path / "other" / f"{version}.state")
    with pytest.raises(DamagedError, match=message):
        Snapshots(FolderStore(tmp_path / "other"), "", owner).read(version)
