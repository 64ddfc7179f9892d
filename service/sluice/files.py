"""Files: those beside the code, and those that a user names.

The files beside the code are in the wheel below sluice/data, in a checkout where they are written.
"""

from __future__ import annotations

import errno
import os
import select
import time
from pathlib import Path

PACKAGE = Path(__file__).parent
#: the largest file that `read_file` reads
MOST_BYTES = 16 << 20
#: seconds within which a file must have been read to its end
PATIENCE = 10.0
CHUNK = 1 << 20


def project_file(name: str) -> Path:
    """The file with this path in the project, for instance `deploy/ivy.xml`."""
    installed = PACKAGE / "data" / name
    return installed if installed.exists() else PACKAGE.parent.parent / name


def read_file(path: str | Path, most: int = MOST_BYTES, patience: float = PATIENCE) -> bytes:
    """The content of a file, of a pipe too. Raises OSError, whose `strerror` says why the file cannot be read.

    A file with more than `most` bytes, such as /dev/zero, and a pipe that has no end within `patience` seconds are
    errors as well: the size of the answer and the time until it are bounded.
    """
    try:
        # Without O_NONBLOCK, to open a pipe that nothing writes to would wait without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a NUL byte or a lone surrogate in the name
        raise OSError(errno.EINVAL, "not the name of a file") from None
    deadline = time.monotonic() + patience
    content = bytearray()
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor has no path
        while len(content) <= most:
            if not select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise OSError(errno.ETIMEDOUT, f"its end did not come within {patience:g} seconds")
            part = file.read(CHUNK)
            if part == b"":
                return bytes(content)
            content += part or b""
    raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
