"""Filters the text that Spark's processes write to standard error: masks values of ${...}, and leaves out known traces.

Java has its own log, and Spark's Python processes print stack traces. Neither goes through the log of this package,
which masks its own lines. With `--log-format json` each line of these texts becomes a JSON object.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading
from contextlib import suppress

from sluice.model.secrets import masked
from sluice.ops.log_lines import in_form
from sluice.processes import STDERR

#: the first line of a stack trace, the line of it that names PySpark's daemon, and the last lines of stack traces about
#: a connection that the other side has closed
TRACE = b"Traceback (most recent call last):"
DAEMON = re.compile(rb'File ".*pyspark.daemon\.py"')
CLOSED = (b"BrokenPipeError: [Errno 32] Broken pipe", b"ConnectionResetError: [Errno 104] Connection reset by peer")
#: the beginning of a line that a process of this package logs as JSON
OWN = '{"at": '
#: a word in a line that reports an error
ERROR = re.compile("error|exception|fatal", re.IGNORECASE)
#: maximum bytes of a line that is masked as a whole; a longer line is masked in pieces of this size
MAX_LINE = 1 << 20
#: seconds that the end of this process waits for the last lines of other processes that have ended
LAST_WORDS = 0.2


class TraceFilter:
    """Leaves out the stack traces of PySpark's daemons about a connection that Spark has closed.

    Spark closes the connections of workers that were idle for a minute. Each such worker of PySpark's own daemons
    prints a stack trace: a healthy service would have several of them in its log.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._open = 0

    def passed(self, line: bytes) -> list[bytes]:
        """The lines to write now. A stack trace is held back until its last line, which is not indented.

        The lines of several workers may be mixed: all are held back until each of these traces has ended.
        """
        if line.rstrip() == TRACE:
            self._open += 1
            self._held.append(line)
            return []
        if self._held and line.startswith(b" "):
            self._held.append(line)
            return []
        if self._held and line.rstrip().endswith(CLOSED) and any(map(DAEMON.search, self._held)):
            self._open -= 1
            if self._open == 0:
                self._held = []
            return []
        return [*self.rest(), line]

    def rest(self) -> list[bytes]:
        """The lines that are held back; none of them after this call."""
        lines, self._held, self._open = self._held, [], 0
        return lines


def filtered_pipe() -> int:
    """The file descriptor of a new pipe. A thread filters the lines that are written to it, and writes them to the
    standard error of this process.
    """
    ours, (reading, writing) = os.dup(STDERR), os.pipe()
    thread = threading.Thread(target=_pass_on, args=(reading, ours), name="child-stderr", daemon=True)
    thread.start()
    atexit.register(thread.join, LAST_WORDS)
    return writing


def _pass_on(reading: int, ours: int) -> None:
    """Copies lines from `reading` to `ours` until the last process that holds the pipe has ended."""
    traces = TraceFilter()
    with open(reading, "rb") as lines, suppress(OSError):
        while line := lines.readline(MAX_LINE):
            _write(ours, traces.passed(line))
        _write(ours, traces.rest())


def _write(ours: int, lines: list[bytes]) -> None:
    for line in lines:
        os.write(ours, shown(masked(line.decode(errors="backslashreplace"))).encode(errors="backslashreplace"))


def shown(line: str) -> str:
    """The line in the form of the log. A line of a process that logs in this form itself stays as it is.

    Java and Python also write hints to standard error: a line is an error only if it names one.
    """
    if line.startswith(OWN) or not line.strip():
        return line
    text = line.rstrip("\n")
    level = logging.ERROR if ERROR.search(text) else logging.WARNING
    return in_form(text, "spark", plain=text, level=level) + line[len(text) :]
