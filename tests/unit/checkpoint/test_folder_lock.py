"""Of two processes with one checkpoint, the second is refused as long as the first runs."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.checkpoint.checkpoint_folder import OccupiedError, locked
from sluice.checkpoint.checkpoint_identity import LOCK, CheckpointError

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from sluice.checkpoint.checkpoint_folder import locked
with locked(Path(sys.argv[1]), "p"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "new")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"locked\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_refused_and_the_message_names_the_first(other, tmp_path):
    with pytest.raises(OccupiedError, match=rf"another instance .*\(process {other.pid} on ") as refused, \
            locked(tmp_path / "new", "p"):  # fmt: skip
        pytest.fail("both have it")
    assert refused.value.exit_code == 5
    assert other.poll() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_may_start_at_once_when_the_first_was_killed(other, tmp_path, number):
    os.kill(other.pid, number)
    other.wait()
    with locked(tmp_path / "new", "p"):
        assert f'"pid": {os.getpid()}' in (tmp_path / "new" / LOCK).read_text()


def test_who_ends_gives_the_lock_back(tmp_path):
    for _ in range(2):
        with locked(tmp_path, "p"), pytest.raises(OccupiedError), locked(tmp_path, "p"):
            pass


def test_what_the_first_starts_does_not_keep_the_lock(tmp_path):
    """A Java virtual machine may outlive a killed process for a while."""
    with locked(tmp_path, "p"):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with locked(tmp_path, "p"):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_without_locks_in_the_file_system_the_service_starts_and_says_so(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fail)
    with locked(tmp_path, "p"):
        assert "its file system has no locks (Operation not supported)" in caplog.text


def test_who_cannot_write_the_name_of_its_process_has_the_lock(tmp_path):
    """A limit of no bytes for files has the effect of a full disk."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + PROGRAM, str(tmp_path / "new")],
        cwd=ROOT, input=b"", capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == b"locked\n"
    assert (tmp_path / "new" / LOCK).read_bytes() == b""


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"), locked(tmp_path / "file" / "x", "p"):
        pass
