"""The throughput of a workload whose records are in a topic already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.running import await_end, batches, outputs, service, tuples_read, watched
from benchmarks.workloads import Workload


def throughput(
    workload: Workload,
    bootstrap: str,
    folder: Path,
    source: str,
    *,
    warm_up: int,
    records: int,
    options: Sequence[str] = (),
) -> tuple[float, int]:
    """Records per second after a warm-up, from commit to commit, and the peak memory of all processes, bytes.

    The topic `source` has `warm_up + records` records. `options` are further options of `sluice run`. Raises SystemExit
    if the outputs are wrong.
    """
    name, together = folder.name, warm_up + records
    pipeline = workload.pipeline(name, source, f"{name}-results")
    with service(pipeline, bootstrap, folder, options) as running, watched(running):
        entries = batches(running, bootstrap, name, together)
        await_end(running, bootstrap, name, source)  # a mark at the end closes the last windows
    count, total = outputs(bootstrap, f"{name}-results")
    if not workload.right(together, workload.keys, count, total):
        raise SystemExit(f"{workload.title}: {count:,} outputs over {total:,} records are wrong")
    read, warm = 0, 0
    while read < warm_up:
        read, warm = read + tuples_read(entries[warm]), warm + 1
    seconds = (entries[-1].at - entries[warm - 1].at) / 1000
    return (together - read) / seconds, running.peak
