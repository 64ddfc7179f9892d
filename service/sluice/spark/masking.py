"""Masks the values of ${...} in the text that Spark's processes write to standard error.

Java has its own log, and Spark's Python processes print stack traces. Neither goes through the log of this package,
which masks its own lines.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sluice.model.secrets import MASKS, masked

STDERR = 2
#: the last lines of stack traces about a connection that the other side has closed
CLOSED = ("BrokenPipeError: [Errno 32] Broken pipe", "ConnectionResetError: [Errno 104] Connection reset by peer")
#: maximum bytes of a line that is masked as a whole; a longer line is masked in pieces of this size
LONGEST = 1 << 20


def print_without_broken_pipes(*values: object, **options: Any) -> None:  # noqa: ANN401 - the arguments of print
    """Prints like `print`, but not the stack trace of a Python worker whose connection Spark has closed.

    PySpark's daemon prints it whenever Spark ends an idle worker, several times a minute in a healthy service.
    """
    text = " ".join(map(str, values))
    if not (text.startswith("PySpark daemon failed to flush") and text.rstrip().endswith(CLOSED)):
        print(*values, **options)  # noqa: T201 - it takes the place of PySpark's print


@contextmanager
def masked_stderr() -> Iterator[None]:
    """Gives processes that start inside the context a pipe as standard error.

    A thread masks the lines from the pipe and writes them to the standard error of this process. If there are no values
    to mask, the processes inherit that standard error itself.
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
    """Copies masked lines from `reading` to `ours` until the last process that holds the pipe has ended."""
    with open(reading, "rb") as lines, suppress(OSError):
        while line := lines.readline(LONGEST):
            os.write(ours, masked(line.decode(errors="backslashreplace")).encode(errors="backslashreplace"))
