"""What a restore costs for each small batch that it repeats, in milliseconds: `python -m benchmarks.restore_cost`.

The records are in memory, so that neither Kafka nor the disk is measured. Each batch has one record in each of two
topic partitions; the window is a sliding one with 50 keys.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from confluent_kafka import Message

from sluice.batch import inputs_again as module
from sluice.batch.inputs_again import inputs_again
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned
from sluice.kafka.range_reader import Offsets
from sluice.state.bucket import Bucket
from sluice.time_units import MILLISECOND, SECOND

BATCHES = 2_000
BUCKETS = (1, 4)
TOPIC_PARTITIONS = 2
FILE = """
pipeline: held
streams:
  in: {topic: in, schema: {k: string, v: int64}}
  out: {topic: out}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(10), count(1), partitioned
    partition_by: [k]
    output: {out: {k: k, n: Count(), s: Sum(v), longest: Max(k)}}
"""


def main() -> None:
    print("| buckets | ms for each batch |\n| --- | --- |")
    for buckets in BUCKETS:
        repeat(buckets, 10)  # loads the kernels
        print(f"| {buckets} | {repeat(buckets, BATCHES):.2f} |")


def repeat(buckets: int, batches: int) -> float:
    """Milliseconds of processor time for each batch."""
    numbers = range(TOPIC_PARTITIONS)
    ends = [
        Planned(2000 * SECOND + 100 * MILLISECOND * number, {("in", of): number for of in numbers}, 0)
        for number in range(batches + 1)
    ]
    with tempfile.TemporaryDirectory() as folder, records_in_memory(batches):
        plan = Plan(load_text(FILE, "held.yaml"), "query", "start", folder, buckets, {"in": TOPIC_PARTITIONS, "out": 1})
        states = [Bucket(plan, number) for number in range(buckets)]
        began = time.process_time()
        for past in inputs_again(plan, ends[0], ends[1:]):
            for state in states:
                state.repeat(past)
        return (time.process_time() - began) / batches * 1000


@contextmanager
def records_in_memory(count: int) -> Iterator[None]:
    """Lets a restore read from memory: `count` records in each topic partition."""
    records = {("in", of): [record(of, offset) for offset in range(count)] for of in range(TOPIC_PARTITIONS)}

    def read(_: Mapping[str, str], starts: Offsets, ends: Offsets, each: Callable[[Message], None]) -> None:
        for of, end in ends.items():
            for one in records[of][starts.get(of, 0) : end]:
                each(one)

    with patch.object(module, "read", read):
        yield


def record(topic_partition: int, offset: int) -> Message:
    value = json.dumps({"k": f"key {offset * offset % 50}", "v": offset}).encode()
    at = 1_000_000 + offset
    return Message(topic="in", partition=topic_partition, offset=offset, value=value, timestamp=(1, at))


if __name__ == "__main__":
    main()
