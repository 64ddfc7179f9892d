"""Checkpoints that an earlier version of the service has written, and the command that writes some.

`python -m tests.recovery.golden_checkpoint` runs a service with today's version for each file of PIPELINES, sends PART
records, and packs its checkpoint folder into golden/<version>-<name>.tar.gz, beside its pipeline file; without the ids
of topics, which another broker has not. `make golden-checkpoint` does this at each release. test_golden_checkpoints.py
goes on from all of them.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from sluice import __version__
from sluice.checkpoint.topic_ids import FILE
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
#: most kinds of windows: rings and blocks, queues, panes, sessions, periods, and both sides of a join
WINDOWS = """
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
#: panes that grow, empty panes, times of keys, dedups by tuples, operators of SPL's toolkit, earlier tuples, conditions
#: of functions, ranks, and classes over arrays
KINDS = """
max_records_per_batch: 40
clock: records
buckets: 1
streams:
  in:
    schema: {k: string, v: int64, x: float64, t: timestamp}
    event_time: {attribute: t, lag: 0.02, minimum_gap: 0.01}
  own:
    schema: {k: string, v: int64, x: float64, t: timestamp}
    event_time: {attribute: t, lag: 0.02, per: key, idle_after: 0.04, forget_after: 9}
  low: {topic: null}
  high: {topic: null}
  days: {marks: none}
  filled: {marks: none}
  panes: {marks: none}
  visits: {marks: none}
  first: {marks: none}
  apart: {marks: none}
  sets: {marks: none}
  both: {marks: none}
  late: {marks: none}
  paced: {marks: none}
  lanes: {marks: none}
  earlier: {marks: none}
  tens: {marks: none}
  fours: {marks: none}
  top: {marks: none}
  rises: {marks: none}
operators:
  - name: days
    aggregate: in
    window: cumulate, maximumDuration(0.2), step(0.05), discardAge(0.05), partitioned
    partition_by: [k]
    output: {days: {k: k, to: intervalEnd(), n: Count()}}
  - name: filled
    aggregate: in
    window: timeInterval, intervalDuration(0.02), partitioned
    partition_by: [k]
    empty_panes: {attributes: {last: previous, n: zero}, forget_after: 0.5}
    output: {filled: {k: k, from: intervalStart(), n: Count(), last: Last(v)}}
  - name: panes
    aggregate: own
    window: timeInterval, intervalDuration(0.05), partitioned
    partition_by: [k]
    output: {panes: {k: k, from: intervalStart(), s: Sum(v)}}
  - name: visits
    aggregate: own
    window: session, inactivityGap(0.03)
    partition_by: [k]
    early: count(3)
    output: {visits: {k: k, from: sessionStart(), all: Collect(v), early: isEarly()}}
  - {name: first, dedup: in, by: [k, v % 5], within: count(9), reset_on_duplicate: true, output: [first]}
  - {name: apart, dedup: in, by: [k], within: "delta(v, 20)", output: [apart]}
  - {name: divide, split: in, to: {low: v % 28 < 14}, otherwise: high}
  - {name: sets, barrier: [low, high], partition_by: [k], output: {sets: {k: low.k, low: low.v, high: high.v}}}
  - {name: both, pair: [low, high], partition_by: [k], output: [both]}
  - {name: late, delay: in, by: 0.05s, output: [late]}
  - {name: paced, throttle: in, rate: 700, output: [paced]}
  - {name: lanes, throttle: in, rate: 100, partition_by: [k], output: [lanes]}
  - name: earlier
    map: in
    partition_by: [k]
    output: {earlier: {k: k, third: "previous(v, 3)", up: change(x), speed: "rate(v, t)"}}
  - name: tens
    aggregate: in
    window: tumbling, count(10), partitioned
    partition_by: [k]
    output: {tens: {k: Last(k), some: "Sum(v, where: x > 1.0)", best: "ArgMaxLast(x, v)"}}
  - name: fours
    aggregate: in
    window: tumbling, count(4) or time(0.025) since first, partitioned
    partition_by: [k]
    output: {fours: {k: Last(k), all: Collect(v), why: flushReason()}}
  - name: top
    sort: in
    window: tumbling, count(9), partitioned
    partition_by: [k]
    order_by: {x: desc}
    limit: 2
    with_ties: true
    output: {top: {k: k, v: v, place: rank()}}
  - name: rises
    aggregate: in
    window: sliding, count(9), count(1), partitioned
    partition_by: [k]
    output: {rises: {k: k, rise: 'Custom("tests.recovery.classes:Rise", v)'}}
"""
PIPELINES = {"windows": WINDOWS, "kinds": KINDS}


def inputs(text: str) -> list[str]:
    """The input streams of a pipeline file."""
    return [name for name, stream in yaml.safe_load(text)["streams"].items() if "schema" in stream]


def outputs(text: str) -> set[str]:
    """The streams that its operators write to topics."""
    streams = yaml.safe_load(text)["streams"]
    return {name for name, stream in streams.items() if "schema" not in stream and "topic" not in stream}


def records(number: int, streams: Sequence[str]) -> list[tuple[str, Record]]:
    """The records of a part, by turns to these streams; keys and times are different enough for sessions to end."""
    return [(streams[n % len(streams)], record(n)) for n in range(number * PART, (number + 1) * PART)]


def record(n: int) -> Record:
    return {"k": f"key {n % 7}", "v": n, "x": n % 11 / 4, "t": instant(ORIGIN + n + n // 50 * 200)}


def write(folder: Path, name: str) -> None:
    """Writes a checkpoint of this version into the folder of golden checkpoints."""
    FOLDER.mkdir(exist_ok=True)
    text, packed_file = PIPELINES[name], FOLDER / f"{__version__}-{name}.tar.gz"
    with EmbeddedBroker() as broker:
        service = Service({"bootstrap.servers": broker.bootstrap}, folder, NAME, text)
        service.create(*inputs(text), partitions=1)
        service.start()
        service.send_all(records(0, inputs(text)))
        service.await_outputs()
        service.await_rest()
        service.end()
        with tarfile.open(packed_file, "w:gz") as packed:
            packed.add(service.checkpoint, "checkpoint", filter=lambda entry: None if FILE in entry.name else entry)
    (FOLDER / f"{__version__}-{name}.yaml").write_text(text)


if __name__ == "__main__":
    for pipeline in sys.argv[1:] or PIPELINES:
        with tempfile.TemporaryDirectory() as temporary:
            write(Path(temporary), pipeline)
