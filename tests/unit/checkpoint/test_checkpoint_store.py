"""The contract that every checkpoint store must keep. A new store is one more case of the fixture `store`."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import threading
from itertools import cycle
from pathlib import Path

import pytest

from sluice.checkpoint.checkpoint_identity import CheckpointError, claim, known
from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches, planned, verify
from sluice.state.checksummed_blocks import Owner
from sluice.state.snapshots import Snapshots
from tests.unit.checkpoint.memory_store import MemoryStore


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path):
    return FolderStore(tmp_path / "new") if request.param == "folder" else MemoryStore()


# ---- get and put -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "buckets/3/17.state", ".hidden.crc"])
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 1000])
def test_an_object_is_read_as_it_was_put(store, name, data):
    put_bytes(store, name, data)
    assert get_bytes(store, name) == data
    with store.get(name) as found:
        assert found.size == len(data)
        assert bytes(found.content()) == data


def test_a_range_of_an_object_is_read(store):
    put_bytes(store, "a", b"0123456789")
    with store.get("a") as found:
        for start, length, expected in ((0, 4, b"0123"), (7, 3, b"789"), (7, 9, b"789"), (10, 4, b""), (2, 0, b"")):
            room = bytearray(length)
            assert found.read_into(start, memoryview(room)) == len(expected)
            assert room[: len(expected)] == expected


def test_the_content_stays_valid_after_the_object_was_closed_and_replaced(store):
    put_bytes(store, "a", b"old" * 5000)
    with store.get("a") as found:
        content = found.content()
    put_bytes(store, "a", b"new")
    store.delete("a")
    assert bytes(content) == b"old" * 5000


@pytest.mark.parametrize("name", ["none", "folder/none", "folder"])
def test_a_missing_name_is_reported_as_such(store, name):
    with pytest.raises(FileNotFoundError):
        get_bytes(store, "before/anything/was/put")
    put_bytes(store, "other/one", b"x")
    with pytest.raises(FileNotFoundError):
        store.get(name)


def test_a_put_replaces_an_older_object(store):
    put_bytes(store, "a", b"a longer old one")
    put_bytes(store, "a", b"new")
    assert get_bytes(store, "a") == b"new"


def test_a_create_does_not_replace_an_object(store):
    assert store.create("a/1", b"first")
    assert not store.create("a/1", b"second")
    assert get_bytes(store, "a/1") == b"first"
    assert list(store.list()) == ["a/1"]
    assert not list(store.list(incomplete=True))


def test_of_several_creators_one_succeeds(store):
    results: list[bool] = []
    threads = [threading.Thread(target=lambda n=n: results.append(store.create("a", b"%d" % n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]


# ---- a put is atomic -------------------------------------------------------------------------------------------------


def test_an_object_is_invisible_until_its_put_has_ended(store):
    put_bytes(store, "a/1", b"old")

    def write(file):
        file.write(b"new, first half")
        assert get_bytes(store, "a/1") == b"old"
        assert list(store.list()) == ["a/1"]
        file.write(b", second half")

    store.put("a/1", write)
    assert get_bytes(store, "a/1") == b"new, first half, second half"


def test_a_put_that_fails_changes_nothing(store):
    def fail(file):
        file.write(b"first half")
        raise RuntimeError

    put_bytes(store, "old", b"old")
    for name in ("old", "new"):
        with pytest.raises(RuntimeError):
            store.put(name, fail)
    assert list(store.list()) == ["old"]
    assert get_bytes(store, "old") == b"old"
    assert not list(store.list(incomplete=True))


def test_a_reader_gets_a_whole_object_while_others_replace_it(store):
    whole = [bytes([digit]) * 100_000 for digit in b"012"]
    put_bytes(store, "a", whole[0])
    ended = threading.Event()

    def replace():
        for data in cycle(whole):
            store.put("a", lambda file, data=data: [file.write(data[at : at + 999]) for at in range(0, len(data), 999)])
            if ended.is_set():
                return

    writers = [threading.Thread(target=replace) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(200):
            assert get_bytes(store, "a") in whole
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert not list(store.list(incomplete=True))


# ---- list and delete -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", {"a", "b/1", "b/12", "b/c/3", "bb"}),
        ("a", {"a"}),
        ("b", {"b/1", "b/12", "b/c/3", "bb"}),
        ("b/", {"b/1", "b/12", "b/c/3"}),
        ("b/1", {"b/1", "b/12"}),
        ("b/c/", {"b/c/3"}),
        ("none", set()),
        ("none/", set()),
    ],
)
def test_names_are_listed_by_their_beginning(store, prefix, expected):
    assert list(store.list(prefix)) == []
    for name in ("a", "b/1", "b/12", "b/c/3", "bb"):
        put_bytes(store, name, b"x")
    found = list(store.list(prefix))
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_deleting_twice_is_deleting_once(store):
    store.delete("never/put")
    put_bytes(store, "a/1", b"x")
    put_bytes(store, "a/11", b"y")
    store.delete("a/1")
    store.delete("a/1")
    assert list(store.list()) == ["a/11"]
    with pytest.raises(FileNotFoundError):
        store.get("a/1")


def test_a_store_travels_to_tasks(store):
    put_bytes(store, "a", b"x")
    there = pickle.loads(pickle.dumps(store))  # noqa: S301
    assert get_bytes(there, "a") == b"x"
    assert there.location("a") == store.location("a")


# ---- what uses a store needs no folder -------------------------------------------------------------------------------


def test_the_identity_of_a_checkpoint_is_kept_in_any_store(store):
    made = claim(store, "p", "f", None, 3)
    assert known(store, "p", "f") == made
    with pytest.raises(CheckpointError, match="has changed"):
        claim(store, "p", "other", None, 3)


def test_snapshots_are_kept_in_any_store(store):
    one, other = (Snapshots(store, f"buckets/{number}/", Owner("p", "q", number)) for number in (1, 11))
    for version in (3, 7):
        one.write(version, lambda file, version=version: file.write(b"state %d" % version), twice=version == 7)
    other.write(9, lambda file: file.write(b"state"))
    assert one.versions(100) == [7, 3]
    put_bytes(store, "buckets/1/7.state", b"damaged")
    assert bytes(one.read(7)) == b"state 7"
    one.delete_before(7)
    assert sorted(store.list()) == ["buckets/1/7.copy", "buckets/1/7.state", "buckets/11/9.state"]


def test_sparks_logs_are_read_from_any_store(store):
    verify(store)
    entry = b'v1\n{"batchTimestampMs":1}\n{"t":{"0":7}}\n-'
    for name, data in (("metadata", b'{"id":"x"}'), ("sources/0/0", b'\0v1\n{"t":{"0":5}}'), ("offsets/0", entry)):
        put_bytes(store, name, data)
    assert batches(store) == (None, 0)
    assert planned(store, 0).offsets == {("t", 0): 7}
    verify(store)
    put_bytes(store, "offsets/.0.crc", b"crc\0" + bytes([0, 0, 2, 0]) + b"none")
    with pytest.raises(CheckpointError, match="offsets/0: it is damaged"):
        verify(store)


# ---- the folder ------------------------------------------------------------------------------------------------------


def test_a_put_whose_process_was_killed_leaves_the_old_object_and_can_be_removed(tmp_path):
    store = FolderStore(tmp_path)
    put_bytes(store, "a/1", b"old")

    def die(file):
        file.write(b"first half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    for name in ("a/1", "a/2"):
        pid = os.fork()
        if not pid:
            store.put(name, die)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert list(store.list()) == ["a/1"]
    assert get_bytes(store, "a/1") == b"old"
    assert sorted(store.list("a/", incomplete=True)) == ["a/1", "a/2"]
    store.delete("a/2")
    assert list(store.list("a/", incomplete=True)) == ["a/1"]
    store.delete("a/1")
    assert not list((tmp_path / "a").iterdir())


@pytest.fixture
def without_hard_links(monkeypatch):
    """As on SMB."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)


@pytest.mark.usefixtures("without_hard_links")
def test_a_create_needs_no_hard_links(tmp_path):
    store = FolderStore(tmp_path)
    assert store.create("a/1", b"first")
    assert not store.create("a/1", b"second")
    assert get_bytes(store, "a/1") == b"first"
    assert [*store.list()] == ["a/1"]


@pytest.mark.usefixtures("without_hard_links")
def test_a_create_that_fails_without_hard_links_leaves_no_empty_object(tmp_path, monkeypatch):
    """The disk has room for the complete file, and none for its copy under the final name."""

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    store = FolderStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.create("a/1", b"first")
    assert [*store.list()] == []
    assert store.create("a/1", b"first")
