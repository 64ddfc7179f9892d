"""`sluice replay --checkpoint`: the batches of a service once more, beside what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.inspect.verify import verify
from sluice.model.spec import Pipeline
from tests.service.conftest import Service

TEXT = """
streams:
  in: {schema: {k: string, v: int64}, marks_in: aligned}
  other: {schema: {k: string, w: int64}}
  pairs: {partitions: 2}
  sums: {partitions: 3, marks: header, headers: {k: who}}
  ticks: {partitions: 1}
  dead: {partitions: 1}
dead_letters: dead
operators:
  - name: meet
    join: {left: in, right: other}
    window_left: sliding, count(3), partitioned
    window_right: sliding, count(2), partitioned
    partition_by_left: [k]
    partition_by_right: [k]
    equality_left: [k]
    equality_right: [k]
    output: {pairs: {k: left.k, v: v, w: w}}
  - name: rolling
    aggregate: in
    window: sliding, count(2), count(1), partitioned
    aggregate_incomplete_windows: true
    partition_by: [k]
    output: {sums: {k: k, n: Count(), s: Sum(v)}}
  - name: timer
    aggregate: in
    window: tumbling, time(1.0)
    output: {ticks: {n: Count()}}
"""
#: each batch by topic partition of `in`, and what `other` gets
BATCHES = [
    (["a 1", "b 2", "a 3"], ["b 4", "c 5"], ["a 10"]),
    (["a 6", "!", "window"], ["c 7"], ["c 20", "b 30"]),
    (["b 8"], ["window", "a 9"], []),
    ([], ["b 10", "!"], ["b 40"]),
]  # fmt: skip
#: milliseconds since 1970: not long ago, so that the idle clock passes few ticks
START = round(time.time() * 1000) - 10_000


@pytest.fixture
def ended(service: Service):
    """A service that has had some of BATCHES, one by one, at these settings, and ended."""
    service.create("in", 2)
    service.create("other")

    def run(batches: int, **settings: str) -> Pipeline:
        pipeline = service.pipeline(TEXT + yaml.safe_dump({"buckets": 2, **settings}))
        for second, (*both, other) in enumerate(BATCHES[:batches]):
            for partition, records in enumerate(both):
                service.send("in", [record(text, second, partition) for text in records])
            service.send("other", [record(text, second, 0, "w") for text in other])
            service.run(pipeline)
        return pipeline

    return run


def record(text: str, second: int, partition: int, name: str = "v") -> dict:
    placed = {"partition": partition, "timestamp": START + 1000 * second}
    if text == "window":
        return placed | {"headers": [("sluice-mark", b"window")]}
    if text == "!":
        return placed | {"value": b"{", "key": b"k", "headers": [("h", b"x"), ("i", None)]}
    key, value = text.split()
    return placed | {"value": json.dumps({"k": key, name: int(value)}).encode()}


def test_batches_repeated_from_the_first_or_from_one_in_between_give_what_was_written(ended):
    pipeline = ended(2)
    whole = verify(pipeline)
    assert (whole.first, whole.differences) == (0, [])
    assert whole.records > 15
    forget(pipeline, 0)
    part = verify(pipeline)
    assert (part.first, part.last, part.differences) == (2, whole.last, [])  # batch 1 tells where 2 begins
    assert 0 < part.records < whole.records


def test_records_that_wait_for_others_and_a_record_that_the_service_did_not_write(ended, service, tmp_path):
    pipeline = ended(4, merge="timestamp", clock="records")
    forget(pipeline, 0)
    assert verify(pipeline)[1:] == (2, 3, 10, [])

    service.send("ticks", [{"value": b'{"n": 77}', "partition": 0}])
    (found,) = verify(pipeline).differences
    assert (found.topic, found.partition) == (service.topic("ticks"), 0)
    assert found.expected != found.found

    file = tmp_path / "pipeline.yaml"
    file.write_text(service.file)
    command = [sys.executable, "-m", "sluice", "replay", str(file), "--checkpoint"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == found._asdict()
    assert f"{pipeline.name}: batches 2 to 3, 10 output records: differences in 1 topic partition(s)\n" in done.stderr

    forget(pipeline, 3)
    with pytest.raises(CheckpointError, match="no longer records batch 3"):
        verify(pipeline)


def forget(pipeline: Pipeline, *batches: int) -> None:
    """As Spark does after a while."""
    for batch in batches:
        Path(pipeline.checkpoint, "offsets", str(batch)).unlink(missing_ok=True)
