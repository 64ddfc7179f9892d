"""What a user sees while kernels are compiled."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.compiler.progress import Reporter

EVENT: Any = SimpleNamespace(data={})


@pytest.fixture
def compile_at():
    """Compiles functions, each from one of these times to the next. The lines that are written."""

    def ran(*times: float) -> list[str]:
        clock = iter(times)
        lines: list[str] = []
        now = [0.0]
        reporter = Reporter(lines.append, lambda: now[0])
        for start, end in pairwise(clock):
            now[0] = start
            reporter.on_start(EVENT)
            now[0] = end
            reporter.on_end(EVENT)
        reporter.finish()
        return lines

    return ran


def test_a_short_compilation_is_silent(compile_at):
    assert compile_at(5.0, 5.5) == []


def test_a_long_compilation_has_a_line_at_its_start_every_ten_seconds_and_at_its_end(compile_at):
    first, second, last = compile_at(5.0, 6.1, 10.0, 16.2, 17.0)
    assert "compiling kernels for this machine, once per installation" in first
    assert second == "3 functions compiled in 11 s"
    assert last == "compiled 4 functions in 12 s"


def test_without_a_compilation_there_is_no_line(compile_at):
    assert compile_at() == []
