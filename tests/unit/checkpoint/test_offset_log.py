"""What Spark's offset log says of a batch."""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib

import pytest

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import (
    batches,
    before_all,
    digest,
    offsets_read,
    parsed,
    planned,
    remove_stale_checksums,
    verify,
)
from tests.unit.state.damaged_files import flipped

ENTRY = 'v1\n{"batchTimestampMs":1}\n{"b":{"0":7},"a":{"1":3,"0":2}}\n'
READ = {("b", 0): 7, ("a", 1): 3, ("a", 0): 2}


def test_an_entry_says_when_a_batch_was_planned_how_far_it_reads_and_the_time_of_the_idle_clock():
    assert parsed(ENTRY + '{"pulse":99}') == (1_000_000, READ, 99)


def test_without_an_idle_clock_an_entry_has_no_time_of_it():
    assert parsed(ENTRY) == parsed(ENTRY + "-") == (1_000_000, READ, 0)


def test_the_last_entry_says_how_far_was_read(tmp_path):
    log = tmp_path / "offsets"
    log.mkdir()
    assert offsets_read(FolderStore(tmp_path)) == {}
    for batch, read in ((9, 7), (10, 8)):
        (log / str(batch)).write_text(f'v1\n{{}}\n{{"t":{{"0":{read}}}}}')
    assert offsets_read(FolderStore(tmp_path)) == {("t", 0): 8}
    assert planned(FolderStore(tmp_path), 9).offsets == {("t", 0): 7}


def test_the_first_batch_goes_on_from_where_the_source_began(tmp_path):
    source = tmp_path / "sources" / "0"
    source.mkdir(parents=True)
    (source / "0").write_bytes(b'\0v1\n{"t":{"0":5}}')
    assert before_all(FolderStore(tmp_path)) == (0, {("t", 0): 5}, 0)


def test_a_digest_is_of_what_a_batch_reads(tmp_path):
    (tmp_path / "offsets").mkdir()
    assert digest(FolderStore(tmp_path), 0) is None
    (tmp_path / "offsets" / "0").write_text(ENTRY)
    assert digest(FolderStore(tmp_path), 0) == parsed(ENTRY).digest


def test_batches_of_a_checkpoint(tmp_path):
    assert batches(FolderStore(tmp_path)) == (None, None)
    for log, names in (("offsets", ["8", "9", "10", ".10.crc"]), ("commits", ["8", "9"])):
        (tmp_path / log).mkdir()
        for name in names:
            (tmp_path / log / name).touch()
    assert batches(FolderStore(tmp_path)) == (9, 10)


def test_checksums_without_their_entry_are_removed(tmp_path):
    files = ["offsets/9", "offsets/.9.crc", "offsets/.10.crc", "commits/9", "commits/.8.crc", ".metadata.crc"]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    remove_stale_checksums(FolderStore(tmp_path))
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert set(files) - left == {"offsets/.10.crc", "commits/.8.crc"}


def test_a_log_that_cannot_be_listed_is_not_an_empty_one(tmp_path, monkeypatch):
    def scandir(_folder):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(CheckpointError, match="commits: it cannot be listed"):
        batches(FolderStore(tmp_path))


# ---- damaged files ---------------------------------------------------------------------------------------------------

FILES = {
    "metadata": '{"id":"8b8f6e46-0d5c-4c2e-8f0b-3f7f5a3a3f0e"}',
    "sources/0/0": '\0v1\n{"t":{"0":5}}',
    "offsets/4": ENTRY + '{"pulse":98}',
    "offsets/5": ENTRY + '{"pulse":99}',
    "commits/4": 'v1\n{"nextBatchWatermarkMs":0}',
}


@pytest.fixture
def checkpoint(tmp_path):
    """As Spark leaves it when a batch was planned, and not done; as Hadoop does, with checksums of 512 bytes each."""
    for name, text in FILES.items():
        written(tmp_path / name, text.encode())
    return tmp_path


def written(file, data):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(">II", 512, zlib.crc32(data)))


def test_whole_files_are_accepted(checkpoint):
    verify(FolderStore(checkpoint))
    for file in checkpoint.rglob(".*.crc"):
        file.unlink()
    verify(FolderStore(checkpoint))


def test_a_new_checkpoint_has_no_files(tmp_path):
    verify(FolderStore(tmp_path))
    (tmp_path / "metadata").write_text("{")
    with pytest.raises(CheckpointError, match="metadata: it is damaged"):
        verify(FolderStore(tmp_path))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"v1\n", b"{", b"\xff\xfe", b"v1\n{}\n[]", b"v1\n{}\n{}\n{}\n"])
def test_what_cannot_be_understood_is_refused_with_the_files_name(checkpoint, name, data):
    (checkpoint / name).with_name(f".{checkpoint.joinpath(name).name}.crc").unlink()
    (checkpoint / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{checkpoint / name}: it is damaged"):
        verify(FolderStore(checkpoint))


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_detected(checkpoint, name):
    """Also one that makes another number of a digit."""
    file = checkpoint / name
    for _, other in flipped(file.read_bytes()):
        file.write_bytes(other)
        with pytest.raises(CheckpointError, match=f"{file}: it is damaged"):
            verify(FolderStore(checkpoint))


@pytest.mark.parametrize(
    "names", [("metadata",), ("offsets/4",), ("offsets/4", "offsets/5"), ("offsets/4", "commits/4")]
)
def test_a_missing_file_is_refused(checkpoint, names):
    for name in names:
        (checkpoint / name).unlink()
    with pytest.raises(CheckpointError, match=f"{checkpoint}/(metadata|offsets/[34]): it is missing"):
        verify(FolderStore(checkpoint))


def test_only_the_first_batch_needs_to_know_where_the_source_began(checkpoint):
    first = checkpoint / "sources" / "0" / "0"
    first.unlink()
    verify(FolderStore(checkpoint))
    for name in ("offsets/4", "offsets/5", "commits/4"):
        (checkpoint / name).unlink()
    written(checkpoint / "offsets" / "0", ENTRY.encode())
    with pytest.raises(CheckpointError, match=f"{first}: it is missing"):
        verify(FolderStore(checkpoint))


def test_a_batch_that_is_done_and_was_never_planned_is_refused(checkpoint):
    (checkpoint / "commits" / "4").rename(checkpoint / "commits" / "9")
    with pytest.raises(CheckpointError, match="offsets/8: it is missing"):
        verify(FolderStore(checkpoint))


def test_a_reader_says_the_same(checkpoint):
    (checkpoint / "offsets" / "5").write_text(json.dumps({}))
    with pytest.raises(CheckpointError, match="offsets/5: it is damaged"):
        planned(FolderStore(checkpoint), 5)
