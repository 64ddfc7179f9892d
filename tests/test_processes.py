from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from service.processes import Tethered


def shell(script: str, folder: Path) -> Tethered:
    """Returns once the script has written `ready`."""
    log = folder / "log"
    process = Tethered(["/bin/sh", "-c", script], folder=folder, log=log)
    await_text(log, "ready")
    return process


def await_text(log: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_it_has_the_exit_code_and_what_was_printed(tmp_path: Path) -> None:
    process = shell("echo ready; echo oops >&2; exit 7", tmp_path)
    while process.exit_code is None:
        time.sleep(0.01)
    process.kill()
    assert process.exit_code == 7
    assert (tmp_path / "log").read_text() == "ready\noops\n"


def test_told_to_end_it_may_clean_up(tmp_path: Path) -> None:
    process = shell("trap 'echo clean; exit 0' TERM; echo ready; while :; do sleep 0.01; done", tmp_path)
    process.terminate(20)
    assert process.exit_code == 0
    assert (tmp_path / "log").read_text() == "ready\nclean\n"


def test_it_is_killed_if_it_does_not_listen(tmp_path: Path) -> None:
    process = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", tmp_path)
    process.terminate(0.1)
    assert process.exit_code == -9


def test_its_children_go_with_it(tmp_path: Path) -> None:
    process = shell(f"sleep 600 & echo $! > {tmp_path}/child; echo ready; wait", tmp_path)
    process.kill()
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    assert not child.exists() or " Z " in child.read_text()


def test_killed_ourselves_nothing_of_it_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = (
        "import os, signal, time; from pathlib import Path; from service.processes import Tethered\n"
        f"Tethered(['sleep', '600'], folder=Path({str(folder)!r}), log=Path({str(tmp_path / 'log')!r}))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    deadline = time.monotonic() + 20
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
