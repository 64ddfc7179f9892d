from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sluice.files import read_file, readable


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(content)
    assert read_file(tmp_path / "file") == content
    assert read_file(tmp_path / "file", most=len(content)) == content


def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    assert read_file(f"/dev/fd/{reading}") == b"content"
    os.close(reading)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "it has more than 16 MiB"),
        ("/dev", "Is a directory"),
        ("/no/such/file", "No such file or directory"),
        ("a\0b", "not the name of a file"),
        ("a\ud800b", "not the name of a file"),
        ("a" * 10_000, "File name too long"),
    ],
)
def test_what_cannot_be_read_says_why(path: str, why: str) -> None:
    with pytest.raises(OSError, match=re.escape(why)):
        read_file(path)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list the open files of a process")
def test_a_folder_that_is_read_as_a_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """A service that watches a folder reads each entry once a second, and one may be a folder named `a.yaml`."""
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_pipe_without_an_end_is_given_up() -> None:
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="it did not end within 0 seconds"):
        read_file(f"/dev/fd/{reading}", timeout_s=0)
    os.close(writing)
    os.close(reading)


def test_a_pipe_that_nothing_writes_to_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it did not end within 0 seconds"):
        read_file(tmp_path / "pipe", timeout_s=0)


def test_files_with_high_numbers_are_read_as_others(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    reading, writing = os.pipe()
    many = [os.dup(reading) for _ in range(1100)]
    try:
        assert read_file(tmp_path / "file") == b"content"
        assert readable(0, many[-1]) == []
        os.write(writing, b"x")
        assert readable(10, many[-2], many[-1]) == many[-2:]
    finally:
        for number in (*many, reading, writing):
            os.close(number)
