"""Quix Streams: its own windows, and a state by hand for the window that gives an output from its first record on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.system import PROGRAMS, System, Task, virtual_environment


class QuixStreams(System):
    name = "Quix Streams 3.28"
    guarantee = "exactly once"
    settings = "changelog topics, a commit per 5 s (its default), lz4"
    #: it handles 1,000 to 20,000 records a second
    scale: ClassVar = {
        "pass": 1 / 15, "tumble": 1 / 15, "count": 1 / 15, "slide": 1 / 30, "slidetime": 1 / 150, "join": 1 / 6,
    }  # fmt: skip

    def install(self) -> None:
        self._python()

    def command(self, task: Task) -> Sequence[str]:
        return [str(self._python()), str(PROGRAMS / "quix_program.py")]

    def _python(self) -> Path:
        return virtual_environment("quix", "quixstreams==3.28.1")
