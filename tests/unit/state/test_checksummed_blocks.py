"""Whatever happens to a file of blocks, it is read as it was written, or refused with the place of the damage."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.checkpoint.folder_store import StoredFile
from sluice.state import checksummed_blocks
from sluice.state.checksummed_blocks import BLOCK, BlockWriter, DamagedError
from tests.unit.state.damaged_files import SEED, flip, flipped

ABOUT = {"pipeline": "p", "query": "q", "bucket": 1, "version": 7}
#: of 64 bytes of head, then three blocks of 16 bytes, the last one shorter
SMALL = 16
CONTENT = bytes(range(40))


def written(path: Path, content: bytes = CONTENT, block: int = SMALL, about: dict = ABOUT, pieces: int = 7) -> Path:
    """Hands the content on in pieces of this length."""
    with path.open("wb") as file:
        writer = BlockWriter(file, about, block)
        for start in range(0, len(content), pieces):
            writer.write(content[start : start + pieces])
        writer.finish()
    return path


def read(path: Path, expected: dict) -> memoryview:
    with StoredFile(path) as stored:
        return checksummed_blocks.read(stored, expected)


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "7.state")


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 32, 40])
@pytest.mark.parametrize("pieces", [1, 16, 100])
def test_what_was_written_is_read(tmp_path, length, pieces):
    content = CONTENT[:length]
    assert bytes(read(written(tmp_path / "one", content, pieces=pieces), ABOUT)) == content


def test_arrow_writes_to_it_and_reads_from_it(tmp_path):
    batch = pa.record_batch({"a": pa.array(range(BLOCK)), "b": pa.array(map(str, range(BLOCK)))})
    with (tmp_path / "one").open("wb") as file:
        writer = BlockWriter(file, ABOUT)
        with pa.PythonFile(writer, "w") as sink, pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        writer.finish()
    found = read(tmp_path / "one", ABOUT)
    assert len(found) > 8 * BLOCK
    assert pa.ipc.open_stream(pa.py_buffer(found)).read_all().to_batches() == [batch]


def test_the_content_is_aligned(tmp_path):
    whole = written(tmp_path / "one").read_bytes()
    assert whole.index(CONTENT) % 64 == 0


def test_every_flipped_bit_is_detected(path):
    """All of them: of the head, the blocks, the checksums and the end."""
    whole = path.read_bytes()
    assert len(whole) < 300
    for byte, other in flipped(whole):
        path.write_bytes(other)
        with pytest.raises(DamagedError, match=str(path)) as refused:
            read(path, ABOUT)
        start = whole.index(CONTENT)
        if start <= byte < start + len(CONTENT):
            number = (byte - start) // SMALL
            last = min(start + SMALL * number + SMALL, start + len(CONTENT)) - 1
            assert f"block {number} (bytes {start + SMALL * number} to {last}) is damaged" in str(refused.value)


def test_flipped_bits_of_a_larger_file_are_detected(tmp_path):
    path = written(tmp_path / "one", os.urandom(200_000), 1 << 12, pieces=10_000)
    for _, other in flipped(path.read_bytes(), 600):
        path.write_bytes(other)
        with pytest.raises(DamagedError):
            read(path, ABOUT)


def test_a_file_that_was_cut_off_is_refused_wherever_it_ends(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match=r"cut off|head is damaged|not complete"):
            read(path, ABOUT)


@pytest.mark.parametrize("more", [b"\0", b"x" * 8, CONTENT, bytes(4096)])
def test_additional_bytes_are_refused(path, more):
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(DamagedError, match="not complete"):
        read(path, ABOUT)


def test_missing_and_repeated_pieces_are_refused(path):
    whole, chance = path.read_bytes(), random.Random(SEED)
    for _ in range(300):
        start, end = sorted(chance.sample(range(len(whole) + 1), 2))
        for other in (whole[:start] + whole[end:], whole[:end] + whole[start:]):
            path.write_bytes(other)
            with pytest.raises(DamagedError):
                read(path, ABOUT)


def test_swapped_blocks_are_refused_also_with_their_checksums(path):
    whole = path.read_bytes()
    start = whole.index(CONTENT)
    sums = start + len(CONTENT)

    def swapped(data: bytes, at: int, size: int) -> bytes:
        return data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]

    blocks = swapped(whole, start, SMALL)
    path.write_bytes(blocks)
    with pytest.raises(DamagedError, match="block 0"):
        read(path, ABOUT)
    path.write_bytes(swapped(blocks, sums, 8))
    with pytest.raises(DamagedError, match="not complete, or its last bytes are damaged"):
        read(path, ABOUT)


@pytest.mark.parametrize(("name", "value"), [("pipeline", "o"), ("query", "o"), ("bucket", 2), ("version", 8)])
def test_a_file_that_belongs_elsewhere_is_refused(path, name, value):
    with pytest.raises(DamagedError, match=f"belongs to {name} {ABOUT[name]}, not to {name} {value}"):
        read(path, ABOUT | {name: value})


def test_the_head_of_one_file_does_not_fit_the_content_of_another(tmp_path):
    one, other = written(tmp_path / "1").read_bytes(), written(tmp_path / "2", about=ABOUT | {"bucket": 2}).read_bytes()
    start = one.index(CONTENT)
    (tmp_path / "3").write_bytes(one[:start] + other[start:])
    with pytest.raises(DamagedError):
        read(tmp_path / "3", ABOUT)


def test_a_length_that_is_absurd_takes_no_memory(path):
    data = bytearray(path.read_bytes())
    data[8:12] = (1 << 31).to_bytes(4, "little")  # of the description
    data[-16:-8] = (1 << 60).to_bytes(8, "little")  # of the content
    path.write_bytes(data)
    with pytest.raises(DamagedError):
        read(path, ABOUT)
    written(path)
    data = bytearray(path.read_bytes())
    data[-16:-8] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(DamagedError):
        read(path, ABOUT)


def test_a_sector_that_cannot_be_read_is_damage(path, monkeypatch):
    class Broken(io.FileIO):
        def readinto(self, room):
            if self.tell() >= 64:
                raise OSError(5, "Input/output error")
            return super().readinto(room)

    monkeypatch.setattr(Path, "open", lambda self, *_, **__: Broken(str(self)))
    with pytest.raises(DamagedError, match=r"cannot be read \(Input/output error\)"):
        read(path, ABOUT)


def test_a_file_that_is_not_there_is_said_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none", ABOUT)


def test_flip_changes_a_file(path):
    whole = path.read_bytes()
    flip(path, 3)
    assert whole != path.read_bytes()
