"""A checkpoint looked at from outside: it is read and nothing else, while its service runs or when it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.offset_log import offsets_read
from sluice.columns.tables import StateError
from sluice.engine.contents.window_snapshot import WindowSnapshot
from sluice.model.spec import Pipeline
from sluice.state.bucket import Bucket

#: how often it is tried: a running service removes what is old, perhaps while we read it
TRIES = 5


class BucketSnapshot(NamedTuple):
    """What a window partition holds, and the clock of its bucket, nanoseconds since 1970."""

    clock: int
    snapshot: WindowSnapshot


def snapshot(pipeline: Pipeline, key: str | None) -> Iterator[BucketSnapshot]:
    """The window partitions of this key, and those without keys, as they were after the last batch that was computed.

    Of a running service that may be one batch ahead of what readers of its outputs see. Raises StateError where a file
    of the state is damaged or missing.
    """
    folder = checkpoint_identity.folder_of(pipeline)
    identity = checkpoint_identity.known(folder, pipeline.name, checkpoint_identity.fingerprint_of(pipeline))
    plan = Plan(pipeline, identity.query, "", str(folder), identity.buckets, _topic_partitions(pipeline, folder))
    done = checkpoint_identity.last_batch(folder / "commits")
    for number in range(plan.buckets):
        yield from _looked(plan, number, key, 0 if done is None else done + 1, TRIES)


def _looked(plan: Plan, number: int, key: str | None, least: int, tries: int) -> list[BucketSnapshot]:
    """`least`: the version that the state must have at least."""
    bucket = Bucket(plan, number)
    try:
        state = bucket.at(max(least, bucket.newest()))
    except (FileNotFoundError, StateError):
        if tries <= 1:
            raise
        return _looked(plan, number, key, least, tries - 1)
    return [BucketSnapshot(state.now, inside) for inside in bucket.graph.snapshot(state, key)]


def _topic_partitions(pipeline: Pipeline, folder: Path) -> dict[str, int]:
    """Of the streams that are read, as the last batch knew them."""
    known = Counter(topic for topic, _ in offsets_read(folder))
    return {stream.name: known[str(stream.topic)] or 1 for stream in pipeline.inputs}
