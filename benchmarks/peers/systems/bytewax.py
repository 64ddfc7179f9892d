"""Bytewax: a dataflow of its operators, and a state by hand where it has no window of the kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.system import PROGRAMS, System, Task, virtual_environment


class Bytewax(System):
    name = "Bytewax 0.21"
    guarantee = "none (no recovery)"
    settings = "one process, batches of 10,000 records, orjson, lz4; with its recovery store it is at least once"
    unsupported: ClassVar = {"join": "only joins of tumbling windows"}
    scale: ClassVar = {"pass": 1 / 3, "tumble": 1 / 3, "count": 1 / 3, "slide": 1 / 3, "slidetime": 1 / 10}

    def install(self) -> None:
        self._python()

    def command(self, task: Task) -> Sequence[str]:
        return [str(self._python()), "-m", "bytewax.run", f"{PROGRAMS / 'bytewax_program.py'}:flow"]

    def _python(self) -> Path:
        return virtual_environment("bytewax", "bytewax[kafka]==0.21.1", "orjson==3.10.18")
