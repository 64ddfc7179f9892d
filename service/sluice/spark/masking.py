"""What Spark's processes write to standard error, without the values of ${...}.

Java logs by itself, and its Python processes print stack traces: neither passes through our log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sluice.model.secrets import MASKS, masked

STDERR = 2
#: of a line that is masked as a whole; a longer one is masked in pieces
LONGEST = 1 << 20


@contextmanager
def masked_stderr() -> Iterator[None]:
    """Processes that start inside get a pipe as standard error; a thread masks its lines and writes them to ours.

    Where nothing is to be masked, they write to ours directly.
    """
    if not MASKS:
        yield
        return
    ours, (reading, writing) = os.dup(STDERR), os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, ours), name="masked-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, STDERR)


def _pass_on(reading: int, ours: int) -> None:
    """Until the last process that has the pipe ends."""
    with open(reading, "rb") as lines, suppress(OSError):
        while line := lines.readline(LONGEST):
            os.write(ours, masked(line.decode(errors="backslashreplace")).encode(errors="backslashreplace"))
