from __future__ import annotations

import pytest

from sluice.state.snapshots import Snapshots


def written(folder, *versions):
    snapshots = Snapshots(folder)
    for version in versions:
        snapshots.write(version, lambda file, version=version: file.write(b"state %d" % version))
    return snapshots


def test_it_is_read_as_it_was_written(tmp_path):
    assert bytes(written(tmp_path, 7).read(7)) == b"state 7"


@pytest.mark.parametrize(("upto", "found"), [(2, 0), (3, 3), (7, 3), (8, 8), (100, 8)])
def test_the_newest_that_is_not_after(tmp_path, upto, found):
    assert written(tmp_path, 3, 8).newest(upto) == found


def test_there_is_none_in_a_folder_that_is_not_there(tmp_path):
    assert Snapshots(tmp_path / "new").newest(5) == 0


def test_one_that_nobody_finished_is_none(tmp_path):
    (tmp_path / "5.123.part").write_bytes(b"sta")
    assert Snapshots(tmp_path).newest(9) == 0


def test_one_that_fails_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"sta")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Snapshots(tmp_path).write(5, fail)
    assert not list(tmp_path.iterdir())


def test_old_ones_go(tmp_path):
    (tmp_path / "2.123.part").write_bytes(b"sta")
    snapshots = written(tmp_path, 3, 8, 9)
    snapshots.forget(before=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["8.state", "9.state"]
