"""The snapshots in the store of `state:`: who may use a prefix, and what is found in it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.checkpoint_store import StoreError, StoreRefusedError, get_bytes, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.state.snapshot_archive import SnapshotArchive, SnapshotOwner, StoredSnapshot
from tests.unit.checkpoint.memory_store import MemoryStore

MINE = SnapshotOwner("p", "checkpoint-1", "cluster-1")
ONE = StoredSnapshot(7, "0123456789abcdef")


@pytest.fixture
def archive():
    """With an owner and a snapshot."""
    made = SnapshotArchive(MemoryStore(), 2)
    made.claim(MINE)
    local = MemoryStore()
    put_bytes(local, "buckets/3/7.state", b"state 7")
    assert made.save(3, ONE, local) == 7
    return made


def test_a_snapshot_comes_back_under_its_name_in_a_checkpoint(archive):
    local = MemoryStore()
    archive.fetch(3, ONE, local)
    assert local.objects == {"buckets/3/7.state": b"state 7"}


def test_the_snapshots_of_a_bucket_are_listed(archive):
    assert archive.snapshots(3) == [ONE]
    assert archive.snapshots(0) == []
    archive.delete(3, ONE)
    assert archive.snapshots(3) == []


def test_a_snapshot_that_the_folder_has_lost_is_reported_as_missing(archive):
    with pytest.raises(FileNotFoundError):
        archive.save(3, StoredSnapshot(8, "0" * 16), MemoryStore())
    assert archive.snapshots(3) == [ONE]


def test_the_owner_may_come_again(archive):
    archive.claim(MINE)
    archive.claim(MINE, anew=True)
    assert archive.snapshots(3) == [ONE]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(SnapshotOwner("p", "checkpoint-2", "cluster-2"), id="another cluster"),
        pytest.param(SnapshotOwner("p", "checkpoint-1", "cluster-2"), id="a copy of the ledger in another cluster"),
        pytest.param(SnapshotOwner("p", "checkpoint-2", "cluster-1"), id="another checkpoint"),
        pytest.param(SnapshotOwner("q", "checkpoint-2", "cluster-1"), id="another pipeline"),
    ],
)
def test_another_owner_is_refused_by_name(archive, other):
    with pytest.raises(CheckpointError, match="belongs to the checkpoint checkpoint-1 of the pipeline 'p'") as refused:
        archive.claim(other)
    assert other.cluster in str(refused.value)
    assert archive.snapshots(3) == [ONE]


def test_a_folder_that_is_none_is_refused_as_a_bucket_that_is_none(tmp_path: Path):
    """A start ends with the exit code of a wrong setting."""
    (tmp_path / "file").touch()
    archive = SnapshotArchive(FolderStore(tmp_path / "file" / "p"), 2)
    with pytest.raises(StoreRefusedError, match=r"file/p: .*Not a directory"):
        archive.claim(MINE)
    with pytest.raises(StoreRefusedError):
        archive.snapshots(0)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC])
def test_a_folder_that_cannot_be_used_now_is_a_store_that_cannot_be_reached(tmp_path: Path, number: int):
    """A start goes on without it, if the checkpoint is there."""

    class Failing(FolderStore):
        def create(self, name: str, data: bytes) -> bool:
            raise OSError(number, "at present", name)

    with pytest.raises(StoreError, match="at present") as raised:
        SnapshotArchive(Failing(tmp_path), 2).claim(MINE)
    assert not isinstance(raised.value, StoreRefusedError)


def test_what_interrupted_copies_left_in_a_folder_is_removed(tmp_path: Path):
    """A part of a copy that may be running stays, and so does a snapshot that was copied again."""
    archive, local = SnapshotArchive(FolderStore(tmp_path), 2), MemoryStore()
    put_bytes(local, "buckets/3/7.state", b"state 7")
    archive.save(3, ONE, local)
    bucket = tmp_path / "snapshots/2/3"
    for version in (5, 7, 9):
        (bucket / f"{version}-{ONE.digest}.state.0a.part").write_bytes(b"half")
    archive.remove_incomplete(9)
    assert sorted(path.name[:1] for path in bucket.glob("*.part")) == ["7", "9"]
    assert archive.snapshots(3) == [ONE]


def test_a_new_checkpoint_of_the_same_pipeline_empties_the_prefix_with_reset_ledger(archive):
    other = SnapshotOwner("p", "checkpoint-2", "cluster-1")
    archive.claim(other, anew=True)
    assert archive.snapshots(3) == []
    archive.claim(other)


def test_reset_ledger_does_not_take_the_prefix_of_another_cluster(archive):
    with pytest.raises(CheckpointError, match="cluster-1"):
        archive.claim(SnapshotOwner("p", "checkpoint-2", "cluster-2"), anew=True)
    assert archive.snapshots(3) == [ONE]


def test_a_damaged_owner_is_named():
    store = MemoryStore()
    put_bytes(store, "owner.json", b"{")
    with pytest.raises(CheckpointError, match=r"owner\.json: it is damaged"):
        SnapshotArchive(store, 2).claim(MINE)
    assert get_bytes(store, "owner.json") == b"{"
