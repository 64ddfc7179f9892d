"""The folder of a service's temporary files, and the folders that killed services have left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sluice.running.service_start import LOCK, MAX_PATH, PREFIX, own_folder

#: a service that writes a temporary file, says so, and runs until it is killed
SERVICE = """
import sys, tempfile
from pathlib import Path
from sluice.running.service_start import own_folder
with own_folder():
    folder = Path(tempfile.mkdtemp())
    (folder / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(monkeypatch):
    """A folder of temporary files with a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def started():
    """A service, and the folder that it has made."""
    process = subprocess.Popen([sys.executable, "-c", SERVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process, Path(process.stdout.readline().decode().strip())


def test_all_temporary_files_are_in_one_folder_that_goes_with_the_service(temporary):
    with own_folder():
        assert Path(tempfile.mkdtemp()).parent.name.startswith(PREFIX)
        made = subprocess.run(["mktemp"], capture_output=True, text=True, check=True).stdout
        assert Path(made).parent.parent == temporary
    assert list(temporary.iterdir()) == []
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)


def test_it_goes_with_a_service_that_fails_too(temporary):
    with pytest.raises(ValueError, match="it fails"), own_folder():
        raise ValueError("it fails")
    assert list(temporary.iterdir()) == []


def test_a_start_removes_what_a_killed_service_has_left_and_nothing_of_one_that_runs(temporary):
    (killed, abandoned), (running, used) = started(), started()
    foreign = temporary / "sluice-java-other"
    foreign.mkdir()
    killed.kill()
    killed.communicate()
    assert abandoned.is_dir()
    with own_folder():
        assert not abandoned.parent.exists()
        assert (used / "file").exists()
    running.communicate()
    assert list(temporary.iterdir()) == [foreign]


def test_a_folder_that_is_not_locked_yet_stays(temporary):
    """Another service has just made it."""
    made = temporary / f"{PREFIX}made"
    made.mkdir()
    with own_folder():
        pass
    assert made.is_dir()
    assert not (made / LOCK).exists()


def test_a_path_that_leaves_no_room_for_sockets_is_not_used(temporary, monkeypatch):
    long = temporary / ("x" * MAX_PATH)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with own_folder():
        assert tempfile.gettempdir() == str(long)
    assert list(long.iterdir()) == []
