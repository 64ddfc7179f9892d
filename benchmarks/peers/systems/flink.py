"""Flink SQL on its local cluster; the Python program only submits the SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.system import INSTALLED, PROGRAMS, System, Task, virtual_environment
from sluice.jvm.jars import retrieve

JARS = INSTALLED / "flink-jars"


class FlinkSql(System):
    name = "Flink SQL 2.3"
    guarantee = "exactly once"
    unsupported: ClassVar = {"count": "SQL has no tumbling window of a number of rows"}
    held_back: ClassVar = {"slidetime": 100}
    settings = "parallelism 2, a checkpoint per second, state in the heap (hashmap), object reuse, lz4"

    def install(self) -> None:
        self._python()
        if not JARS.exists():
            retrieve(PROGRAMS / "flink_ivy.xml", JARS)

    def command(self, task: Task) -> Sequence[str]:
        jars = ";".join(f"file://{jar}" for jar in sorted(JARS.glob("*/*.jar")))
        return [str(self._python()), str(PROGRAMS / "flink_program.py"), jars]

    def _python(self) -> Path:
        return virtual_environment("flink", "apache-flink==2.3.0")
