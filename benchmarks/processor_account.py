"""Processor time of a service by its processes and their threads, from /proc: it is the same on a busy machine."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import TICKS, tree

#: what the tables call a process, by the name that Linux shows for it; the service's own is SERVICE, others are OTHERS
JAVA = "Java"
PROCESSES = {"java": JAVA, "sluice-reader": "readers", "sluice-bucket": "state servers"}
SERVICE, OTHERS = "service", "others"
COMPILER = "JIT compiler"
#: pattern of the names of threads, of which Linux keeps 15 characters -> what the tables call them
THREADS = {
    r"stream execution?": "the query (Spark's plan, logs, report)",
    r"spark-listener-": "Spark's listeners",
    r"Executor task.*|dispatcher-.*|dag-scheduler-.*|task-result-.*": "Spark's jobs",
    r"Thread-\d+": "calls from Python",
    r"C[12] Compiler.*": COMPILER,
    r"GC Thread.*|G1 .*|VM Thread|VM Periodic.*": "garbage collector, virtual machine",
    r"kafka-.*": "Kafka client",
    r"rdk:.*": "Kafka client",
}
#: process, and the kind of its threads -> seconds of processor time, user and system
Seconds = Mapping[tuple[str, str], float]


def processor_seconds(root: int) -> Seconds:
    """The processor time so far of all threads that run, of the process `root` and of those that it has started."""
    found = defaultdict[tuple[str, str], float](float)
    for pid in tree(root):
        with suppress(OSError):  # the process has ended
            for thread, used in _threads(pid):
                found[process_of(pid, root), thread] += used
    return found


def compiler_seconds(pid: int) -> float:
    """The processor time so far of Java's compilers in a process. Raises OSError if it has ended."""
    return sum(used for thread, used in _threads(pid) if thread == COMPILER)


def process_of(pid: int, root: int) -> str:
    """What the tables call a process. Raises OSError if it has ended."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return SERVICE if pid == root else PROCESSES.get(name, OTHERS)


def kind_of(thread: str) -> str:
    """What the tables call a thread with this name."""
    return next((kind for pattern, kind in THREADS.items() if re.fullmatch(pattern, thread)), "other threads")


def _threads(pid: int) -> Iterator[tuple[str, float]]:
    """The kind and the seconds of each thread. Raises OSError if the process has ended."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            yield kind_of(name), sum(map(int, fields.split()[11:13])) / TICKS
