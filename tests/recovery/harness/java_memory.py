"""The memory of a Java process as it would show a leak: what its heap holds after a collection, and what is beside it.

Between collections a heap fills up to its bound, so its size says nothing. The commands are those of `jcmd`, sent to
the socket that Java's attach listener has.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import NamedTuple

#: seconds for an answer of Java, which may be stopped, and for its listener to start
PATIENCE_S = 5.0
#: of a part of the heap: its KB in use, and its first and last address
PART = re.compile(r"total \d+K, used (\d+)K \[0x(\w+)(?:, 0x\w+)*, 0x(\w+)\)")
MAPPING = re.compile(r"^(\w+)-(\w+) .*?^Anonymous: +(\d+) kB", re.MULTILINE | re.DOTALL)
#: of the signals that a process handles (/proc/PID/status), the bit of SIGQUIT
HANDLED, QUIT = re.compile(r"SigCgt:\s*(\w+)"), 1 << (signal.SIGQUIT - 1)


class JavaMemory(NamedTuple):
    """Bytes.

    live    what the heap holds after a collection
    beside  memory beside the heap and the contents of files: classes, compiled code, threads, buffers
    """

    live: int
    beside: int


def java_memory(pid: int) -> JavaMemory:
    """Collects the garbage of the process first. Raises OSError if it has ended or does not answer."""
    _command(pid, "GC.run")
    parts = PART.findall(_command(pid, "GC.heap_info"))
    if not parts:
        raise OSError(f"process {pid} does not describe its heap")
    begin, end = (pick(int(part[side], 16) for part in parts) for pick, side in ((min, 1), (max, 2)))
    mappings = MAPPING.findall(Path(f"/proc/{pid}/smaps").read_text())
    beside = sum(int(size) for first, last, size in mappings if int(last, 16) <= begin or int(first, 16) >= end)
    return JavaMemory(1024 * sum(int(part[0]) for part in parts), 1024 * beside)


def _command(pid: int, command: str) -> str:
    """The answer to a command of `jcmd`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(_listener(pid)))
        connection.sendall(b"1\0jcmd\0" + command.encode() + b"\0\0\0")
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def _listener(pid: int) -> Path:
    """The socket of the listener. Java begins to listen when it gets SIGQUIT and finds a file in its folder."""
    path, asked = Path(f"/proc/{pid}/root/tmp/.java_pid{pid}"), Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
    if path.exists() or not _handles_quit(pid):
        return path
    asked.touch()
    try:
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        asked.unlink(missing_ok=True)
    return path


def _handles_quit(pid: int) -> bool:
    """Whether SIGQUIT does not end the process: it ends a Java that has just started."""
    handled = HANDLED.search(Path(f"/proc/{pid}/status").read_text())
    return handled is not None and bool(int(handled[1], 16) & QUIT)
