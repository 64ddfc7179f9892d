"""Reads a checkpoint without its service: the content of windows, and what a changed pipeline file keeps of the state.

The service may run meanwhile; the checkpoint is not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.checkpoint_folder import store_of
from sluice.checkpoint.checkpoint_identity import CheckpointError, folder_of
from sluice.checkpoint.checkpoint_store import CheckpointStore
from sluice.checkpoint.offset_log import batches, offsets_read
from sluice.columns.saved_columns import StateError
from sluice.model.changes.operator_changes import Changes
from sluice.model.spec import Pipeline
from sluice.state.bucket import Bucket
from sluice.state.bucket_inspection import shown
from sluice.state.upgrade.file_changes import file_changes

#: maximum number of attempts: a running service may remove an old file while this process reads it
MAX_ATTEMPTS = 5


def read_windows(pipeline: Pipeline, key: str | None) -> Iterator[dict[str, Any]]:
    """The window partitions with this key, and the partitions of operators without keys, after the last computed batch.

    Each is a JSON object (state/bucket_inspection.py).

    While the service runs, this batch may not be visible yet to readers of its output topics. Raises StateError if a
    file of the state is damaged or missing.
    """
    folder = checkpoint_identity.folder_of(pipeline)
    store = store_of(pipeline)
    identity = checkpoint_identity.read_identity(store, pipeline)
    pipeline = checkpoint_identity.in_stored_order(pipeline, store)
    plan = Plan(pipeline, identity.query, "", str(folder), identity.buckets, _topic_partitions(pipeline, store))
    committed, _ = batches(store)
    for number in range(plan.buckets):
        yield from _windows_of(plan, number, key, 0 if committed is None else committed + 1, MAX_ATTEMPTS)


def _windows_of(plan: Plan, number: int, key: str | None, least: int, attempts: int) -> list[dict[str, Any]]:
    """The window partitions of bucket `number`. The state must have at least version `least`."""
    bucket = Bucket(plan, number)
    try:
        state = bucket.at(max(least, bucket.newest()))
    except (FileNotFoundError, StateError):
        if attempts <= 1:
            raise
        return _windows_of(plan, number, key, least, attempts - 1)
    return [shown(plan.pipeline, key, state.now, window) for window in bucket.graph.inspect(state, key)]


def _topic_partitions(pipeline: Pipeline, store: CheckpointStore) -> dict[str, int]:
    """The number of topic partitions of each stream with a topic, of inputs as of the last planned batch.

    All of them are needed, in this order: a saved state refers to a stream by its number among them (`Plan.of`).
    """
    topic_partitions = Counter(topic for topic, _ in offsets_read(store))
    return {
        stream.name: topic_partitions[stream.topic] or 1
        for stream in pipeline.streams.values()
        if stream.topic is not None
    }


def read_changes(pipeline: Pipeline) -> Changes:
    """What becomes of the state of each operator. Raises CheckpointError if there is no checkpoint to compare with."""
    changes = file_changes(pipeline)
    if changes is None:
        message = f"checkpoint {folder_of(pipeline)}: it does not exist; the service creates it at its first start"
        raise CheckpointError(message)
    return changes
