"""Grows a collection of inputs by coverage: a changed input that takes a new way through the product is kept, and is
changed further.

A way is a pair of lines that follow each other in one call. Kernels count if they run as plain Python
(NUMBA_DISABLE_JIT=1); some of their sums overflow then, so an error of a run is no finding. It is one if it comes again
with compiled kernels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from types import CodeType, FrameType
from typing import Any, Generic, TypeVar

from sluice.files import PACKAGE

T = TypeVar("T")
#: two lines that follow each other in a call of this code; 0 for the beginning
Step = tuple[CodeType, int, int]


class Growth(Generic[T]):
    """`inputs` are those that each took new ways, in the order in which they were found."""

    def __init__(self, run: Callable[[T], object], change: Callable[[Random, Sequence[T]], T], random: Random) -> None:
        self._run, self._change, self._random = run, change, random
        self.inputs: list[T] = []
        self.steps: set[Step] = set()
        self.runs = 0

    def start(self, seeds: Sequence[T]) -> None:
        for seed in seeds:
            self._try(seed, kept=True)

    def grow(self, seconds: float, most: int = sys.maxsize) -> None:
        """Changes inputs until the processor time is over, or `most` inputs were run."""
        until, last = time.process_time() + seconds, self.runs + most
        while time.process_time() < until and self.runs < last:
            self._try(self._change(self._random, self.inputs), kept=False)

    def _try(self, candidate: T, *, kept: bool) -> None:
        self.runs += 1
        before = len(self.steps)
        with traced(self.steps), suppress(Exception):
            self._run(candidate)
        if kept or len(self.steps) > before:
            self.inputs.append(candidate)


@contextmanager
def traced(steps: set[Step]) -> Iterator[None]:
    """Adds the ways through the product."""
    outside = sys.gettrace()
    sys.settrace(_tracer(steps))
    try:
        yield
    finally:
        sys.settrace(outside)


def _tracer(steps: set[Step]) -> Callable[[FrameType, str, Any], Any]:
    package = str(PACKAGE)

    def call(frame: FrameType, _: str, __: object) -> Any:
        code, before = frame.f_code, 0
        if not code.co_filename.startswith(package):
            return None

        def line(_: FrameType, event: str, __: object) -> Any:
            nonlocal before
            if event == "line":
                steps.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    return call
