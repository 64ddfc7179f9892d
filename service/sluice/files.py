"""Finds files of the project, reads files that a user names, and forces files to the disk.

Files of the project are below sluice/data in an installed wheel, and below the repository's root in a checkout.
"""

from __future__ import annotations

import errno
import os
import select
import time
from io import FileIO
from pathlib import Path

PACKAGE = Path(__file__).parent
#: size in bytes of the largest file that `read_file` reads
MAX_BYTES = 16 << 20
#: the longest time that `read_file` takes, in seconds
READ_TIMEOUT_S = 10.0
CHUNK = 1 << 20


def project_file(name: str) -> Path:
    """The path of a project file, from its path in the repository, for instance `deploy/ivy.xml`."""
    installed = PACKAGE / "data" / name
    return installed if installed.exists() else PACKAGE.parent.parent / name


def force(path: Path) -> None:
    """Waits until the disk has the file or the entries of the folder, so that a loss of power does not change them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def force_entry(path: Path, top: Path) -> None:
    """Waits until the disk has the entries that lead from the folder `top` to the file or folder `path`."""
    for folder in path.parents:
        force(folder)
        if folder == top:
            return


def read_file(path: str | Path, most: int = MAX_BYTES, timeout_s: float = READ_TIMEOUT_S) -> bytes:
    """The content of a file or a pipe. Raises OSError if it cannot be read; `strerror` has the reason.

    A file of more than `most` bytes (for instance /dev/zero) and a pipe that does not end within `timeout_s` seconds
    are errors, too, so the size of the content and the time to read it are bounded.
    """
    deadline = time.monotonic() + timeout_s
    content = bytearray()
    with _opened(path) as file:
        while len(content) <= most:
            if not readable(max(0.0, deadline - time.monotonic()), file.fileno()):
                raise OSError(errno.ETIMEDOUT, f"it did not end within {timeout_s:g} seconds")
            part = file.read(CHUNK)
            if part == b"":
                return bytes(content)
            content += part or b""
    raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")


def readable(seconds: float, *descriptors: int) -> list[int]:
    """Which of these files and sockets can be read, or have ended; the wait is at most so many seconds.

    `select.select` refuses the numbers from 1024 on, which files have in a service of many pipelines.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [number for number, _ in poll.poll(seconds * 1000)]


def _opened(path: str | Path) -> FileIO:
    """The file or pipe. `open` itself closes a descriptor of a folder, which it refuses, if an opener gives it."""
    try:
        # Without O_NONBLOCK, opening a pipe without a writer would wait for ever.
        return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except ValueError:  # a NUL byte or a lone surrogate in the name
        raise OSError(errno.EINVAL, "not the name of a file") from None
