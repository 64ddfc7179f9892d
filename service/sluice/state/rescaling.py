"""Changes the number of buckets: puts the states of all buckets together, and divides them by key among the new ones.

The engine does both for the state of the operators (`Graph.split`, `Graph.merge`). The rows that wait in the reorder
buffers of `merge: timestamp` are divided like new records. So a bucket has the same state as if its number of buckets
had always been this one.

Cost: the states of all buckets are in memory at once, twice while they are divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from sluice.batch.partition_router import buckets_of
from sluice.batch.partition_slice import PartitionSlice
from sluice.batch.query_plan import Plan
from sluice.batch.reorder_buffer import ReorderBuffer
from sluice.engine.stream.items import TUPLE
from sluice.kafka.murmur2 import partition_for
from sluice.state.bucket import Bucket


def rescaled(plan: Plan, buckets: Sequence[Bucket], version: int) -> list[Bucket]:
    """The buckets of `plan`, with the states of `buckets`: all buckets of the same query, in another number.

    All of them have the state of `version` in memory, and must not be used afterwards.
    """
    graph = buckets[0].graph
    states, waiting = zip(*(bucket.content() for bucket in buckets), strict=True)
    parts = [graph.split(state, plan.buckets, partial(bucket_of_key, plan.buckets)) for state in states]
    made = []
    for number, buffer in enumerate(_buffers(plan, waiting)):
        bucket = Bucket(plan, number)
        bucket.take(version, graph.merge([of[number] for of in parts]), buffer)
        made.append(bucket)
    return made


def bucket_of_key(buckets: int, key: bytes) -> int:
    """The number of the bucket of a key, as for records (partition_router.py)."""
    return int(partition_for(pa.array([key], pa.binary()), buckets)[0])


def _buffers(plan: Plan, saved: Sequence[bytes]) -> list[bytes]:
    """The saved reorder buffers of the new buckets. An empty one has never had a row."""
    if not all(saved):
        return [b""] * plan.buckets
    old = [ReorderBuffer.load(one) for one in saved]
    made = [ReorderBuffer(dict(old[0].frontiers), set(old[0].finals)) for _ in range(plan.buckets)]
    for slices in zip(*(buffer.slices for buffer in old), strict=True):
        for buffer, own in zip(made, _divided(plan, PartitionSlice.joined(slices)), strict=True):
            buffer.slices.append(own)
    return [buffer.save() for buffer in made]


def _divided(plan: Plan, whole: PartitionSlice) -> Iterator[PartitionSlice]:
    stream = plan.pipeline.streams[whole.stream]
    attributes = [name for name in whole.rows.schema.names if not name.startswith("@")]
    tuples = whole.rows.filter(pa.array(whole.kinds == TUPLE)).select(attributes)
    keys = plan.spread.get(stream.name, ())
    return whole.divided(buckets_of(keys, whole.first, tuples, plan.buckets), plan.buckets)
