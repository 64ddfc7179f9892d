"""A checkpoint that an earlier version of the service has written, and the command that writes one.

`python -m tests.recovery.golden_checkpoint` runs a service with today's version, sends PART records, and packs its
checkpoint folder into golden/<version>.tar.gz, beside its pipeline file. `make golden-checkpoint` does this at each
release. test_golden_checkpoints.py goes on from all of them.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from sluice import __version__
from sluice.files import project_file
from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import ORIGIN, Service
from tests.recovery.test_pipelines_across_kills import instant

FOLDER = project_file("tests/recovery/golden")
#: the name of the pipeline, which its checkpoint has
NAME = "golden"
#: records before the checkpoint was written, and as many after it
PART = 150
#: the output streams
STREAMS = ("counts", "times", "tens", "panes", "visits", "first", "pairs")
#: most kinds of states: rings and blocks, queues, panes, sessions, periods, and both sides of a join
PIPELINE = """
max_records_per_batch: 40
clock: records
buckets: 1
streams:
  in:
    schema: {k: string, v: int64, x: float64, t: timestamp}
    event_time: {attribute: t, lag: 0.02, minimum_gap: 0.01}
  counts: {marks: none}
  times: {marks: none}
  tens: {marks: none}
  panes: {marks: none}
  visits: {marks: none}
  first: {marks: none}
  pairs: {marks: none}
operators:
  - name: counts
    aggregate: in
    window: sliding, count(30), count(1), partitioned
    partition_by: [k]
    output: {counts: {k: Last(k), s: Sum(v), most: Max(x), all: CountDistinct(v)}}
  - name: times
    aggregate: in
    window: sliding, time(0.06), count(1), partitioned
    partition_by: [k]
    output: {times: {k: Last(k), n: Count(), average: Average(x)}}
  - name: tens
    aggregate: in
    window: tumbling, count(10), partitioned
    partition_by: [k]
    output: {tens: {k: Last(k), all: Collect(v)}}
  - name: panes
    aggregate: in
    window: timeInterval, intervalDuration(0.05), partitioned
    partition_by: [k]
    output: {panes: {k: Last(k), n: Count(), s: Sum(v)}}
  - name: visits
    aggregate: in
    window: session, inactivityGap(0.03)
    partition_by: [k]
    output: {visits: {k: Last(k), n: Count()}}
  - {name: first, dedup: in, by: [k], within: time(0.05), output: [first]}
  - name: pairs
    join: {left: in, right: in}
    window_left: sliding, count(0)
    window_right: sliding, count(20)
    equality_left: [k]
    equality_right: [k]
    match: left.v == right.v + 7
    output: {pairs: {k: left.k, v: left.v, before: right.v}}
"""


def records(number: int) -> list[tuple[str, Record]]:
    """The records of a part; keys and times are different enough for sessions to end."""
    return [("in", record(n)) for n in range(number * PART, (number + 1) * PART)]


def record(n: int) -> Record:
    return {"k": f"key {n % 7}", "v": n, "x": n % 11 / 4, "t": instant(ORIGIN + n + n // 50 * 200)}


def write(folder: Path) -> Path:
    """Writes a checkpoint of this version into the folder of golden checkpoints, and returns its file."""
    FOLDER.mkdir(exist_ok=True)
    made = FOLDER / f"{__version__}.tar.gz"
    with EmbeddedBroker() as broker:
        service = Service({"bootstrap.servers": broker.bootstrap}, folder, NAME, PIPELINE)
        service.create("in", partitions=1)
        service.start()
        service.send_all(records(0))
        service.await_outputs()
        service.await_rest()
        service.end()
        with tarfile.open(made, "w:gz") as packed:
            packed.add(service.checkpoint, "checkpoint")
    made.with_suffix("").with_suffix(".yaml").write_text(PIPELINE)
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary))
