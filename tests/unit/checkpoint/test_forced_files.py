"""What is left of a checkpoint's files after a loss of power: of those that were forced to the disk, everything."""

from __future__ import annotations

import os

import pytest

from sluice.checkpoint.checkpoint_folder import COMPLETE, RESTORING, adopt
from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import force_plan
from sluice.state.bucket_log import Entry, Log
from tests.recovery.harness.power_loss import lose_power, recording


@pytest.fixture
def lose(tmp_path, monkeypatch):
    """Loses power: files below the folder `disk` become what was forced."""
    (tmp_path / "disk").mkdir()
    journal = tmp_path / "journal"
    journal.touch()
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, recording(getattr(os, name), journal))
    return lambda: lose_power(tmp_path / "disk", journal)


def test_a_forced_object_is_left_as_it_was_put(tmp_path, lose):
    store = FolderStore(tmp_path / "disk" / "checkpoint", forced=True)
    put_bytes(store, "buckets/0/7.state", b"x" * 10_000)
    assert store.create("owner", b"own")
    assert lose() == []
    assert get_bytes(store, "buckets/0/7.state") == b"x" * 10_000
    assert get_bytes(store, "owner") == b"own"


def test_an_object_that_is_not_forced_is_lost(tmp_path, lose):
    store = FolderStore(tmp_path / "disk" / "checkpoint")
    put_bytes(store, "buckets/0/7.state", b"x")
    assert lose() == [tmp_path / "disk" / "checkpoint"]


def entries(folder):
    return [found.version for found in Log(folder).entries(0, Log(folder).last())]


def test_forced_entries_of_a_log_are_left(tmp_path, lose):
    folder = tmp_path / "disk" / "checkpoint" / "buckets" / "0"
    log = Log(folder, forced=True)
    for version in (1, 2, 3):
        log.append(Entry(version, [(0, b"rows")]))
        if version == 2:
            log.turn()
    assert lose() == []
    assert entries(folder) == [1, 2, 3]


def test_entries_after_the_last_forced_one_are_lost(tmp_path, lose):
    folder = tmp_path / "disk" / "checkpoint" / "buckets" / "0"
    Log(folder, forced=True).append(Entry(1, [(0, b"rows")]))
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole)
    assert lose() == [file]
    assert file.read_bytes() == whole


def test_a_planned_batch_of_spark_is_left_with_its_checksums(tmp_path, lose):
    checkpoint = tmp_path / "disk" / "checkpoint"
    FolderStore(checkpoint, forced=True).put("sluice.json", lambda file: file.write(b"{}"))
    (checkpoint / "offsets").mkdir()
    for name in ("6", ".6.crc", "7", ".7.crc"):
        (checkpoint / "offsets" / name).write_bytes(b"offsets")
    (checkpoint / "commits").mkdir()
    force_plan(checkpoint, 7)
    lose()
    left = {path.name: path.read_bytes() for path in (checkpoint / "offsets").iterdir()}
    assert left == {"6": b"", ".6.crc": b"", "7": b"offsets", ".7.crc": b"offsets"}


def test_restored_parts_are_at_their_places_before_it_is_forgotten_that_they_are_complete(tmp_path, lose):
    checkpoint = tmp_path / "disk" / "checkpoint"
    put_bytes(FolderStore(checkpoint, forced=True), "sluice.json", b"{}")
    store = FolderStore(checkpoint / RESTORING, forced=True)
    for name in ("buckets/0/7.state", "offsets/6", COMPLETE):
        put_bytes(store, name, b"new")
    adopt(checkpoint)
    lose()
    adopt(checkpoint)
    assert (checkpoint / "buckets" / "0" / "7.state").read_bytes() == b"new"
    assert (checkpoint / "offsets" / "6").read_bytes() == b"new"
