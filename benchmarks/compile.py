"""`make bench-compile`: what the compilation of kernels costs, kernel by kernel, in a cache that is empty.

With pipeline files, only the kernels that these pipelines need, as `sluice run` and `sluice replay` compile them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numba.core.event import Event, Listener, register

from benchmarks.machine import machine
from benchmarks.results_page import write
from sluice.batch import kernel_warm_up
from sluice.config.load import load

HEAD = "| kernel | specialisations | CPU s | code, kB |\n| --- | --- | --- | --- |"


class Clock(Listener):
    """Counts the CPU seconds of each function's compilation, without those of the functions that it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._running: list[str] = []
        self._since = 0.0

    def on_start(self, event: Event) -> None:
        self._turn()
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__.removeprefix('sluice.')}.{function.__qualname__}"
        self.counts[name] += 1
        self._running.append(name)

    def on_end(self, event: Event) -> None:
        self._turn()
        self._running.pop()

    def _turn(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


def compile_here(files: list[str]) -> dict[str, Any]:
    clock = Clock()
    register("numba:compile", clock)
    parts = [part for file in files for part in kernel_warm_up.of_pipeline(load(file, environment=None))]
    kernel_warm_up.in_this_process(parts or kernel_warm_up.everything())
    return {
        "seconds": clock.seconds,
        "counts": clock.counts,
        "cpu": time.process_time(),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def sizes(folder: Path) -> Counter[str]:
    """Bytes of code of each function."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*.code"):
        name = str(path.relative_to(folder)).replace("/", ".").rsplit("-", 2)[0]
        found[name] += path.stat().st_size
    return found


def table(found: dict[str, Any], bytes_of: Counter[str], most: int) -> list[str]:
    """A row for each of the `most` kernels that took longest, a row for the others, and a row for all."""
    seconds, counts = Counter(found["seconds"]), Counter(found["counts"])
    names = [name for name, _ in seconds.most_common()]

    def row(title: str, some: list[str]) -> str:
        specialisations, cpu, size = (sum(of[name] for name in some) for of in (counts, seconds, bytes_of))
        return f"| {title} | {specialisations} | {cpu:.1f} | {size / 1000:.0f} |"

    rows = [row(f"`{name}`", [name]) for name in names[:most]]
    return [HEAD, *rows, row(f"{len(names[most:])} others", names[most:]), row(f"**all {len(names)}**", names)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="pipeline files; without any, all kernels")
    parser.add_argument("--most", type=int, default=5, help="kernels that have a row of their own")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(compile_here(options.files)))
        return
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile", "--here", *options.files],
            env=os.environ | {"NUMBA_CACHE_DIR": folder}, check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        found, bytes_of = json.loads(ran.stdout), sizes(Path(folder))
    what = " and ".join(options.files) or "all kernels"
    cost = f"{found['cpu']:.0f} CPU s and {found['memory']:.0f} MB of memory in one process"
    head = f"{machine()}, on {datetime.now(UTC):%Y-%m-%d}: {what}, {cost}."
    lines = [head, "", *table(found, bytes_of, options.most)]
    print("\n".join(lines))
    if options.write:
        write("compile", lines)


if __name__ == "__main__":
    main()
