"""Restores a checkpoint that was lost with its disk, or that does not fit the ledger; and changes the number of
buckets.

    the ledger      the last batch N, and the plans of past batches
    a checkpoint    the state of some version up to N + 1, in the folder or in the store of `state:`
    input topics    the records of the batches since that version
         |
         v
    a checkpoint that is at batch N: Spark's logs, and a snapshot of every bucket

For each bucket the newest state is taken that belongs to the history in the ledger. The input of the batches since then
is read again, once for all buckets, and each bucket computes the state after batch N. The outputs of these batches are
already in Kafka and are not written again.

Everything is written into a folder of its own in the checkpoint, which replaces the old parts when it is complete. A
start that finds a complete one goes on with the replacement, so a kill at any moment changes nothing.

Another number of buckets (`rescaled`): the states of all buckets are put together, and divided by key among the new
ones. The engine does both for the state of the operators (`Graph.split`, `Graph.merge`). The rows that wait in the
reorder buffers of `merge: timestamp` are divided like new records. So a bucket has the same state as if its number of
buckets had always been this one. The states of all buckets are then in memory at once, twice while they are divided.
"""

from __future__ import annotations

import errno
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from sluice.batch.inputs_again import inputs_again
from sluice.batch.packed_rows import PartitionSlice
from sluice.batch.query_plan import Plan
from sluice.batch.time_steps import steps_of
from sluice.batch.usable_records import buckets_of
from sluice.checkpoint import checkpoint_identity, offset_log
from sluice.checkpoint.checkpoint_folder import COMPLETE, RESTORING, adopt
from sluice.checkpoint.checkpoint_identity import CheckpointError, Identity
from sluice.checkpoint.checkpoint_store import CheckpointStore, StoreError, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import write_logs
from sluice.columns.key_bytes import partition_for
from sluice.columns.saved_columns import StateError
from sluice.engine.stream.items import TUPLE
from sluice.kafka.batch_report import Planned
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.state.bucket import Bucket, folder_of
from sluice.state.bucket_batch import ReorderBuffer
from sluice.state.checksummed_blocks import LOGGER
from sluice.state.snapshot_archive import NeededOffset, SnapshotArchive, StoredSnapshot, oldest_needed
from sluice.state.snapshot_schedule import REPEATABLE_VERSIONS

#: the folder in RESTORING for snapshots that were fetched
FETCHED = "fetched"
REMEDIES = (
    "Put back a newer copy of the checkpoint folder, if there is one; or start anew with an empty folder and "
    "--reset-ledger: outputs of records that are read again are then written again"
)
#: error numbers of a local disk that takes nothing more: it would take no older state either, and the next start may
#: have room
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
#: planned inputs by batch; batch -1 is the position before batch 0
Plans = Mapping[int, Planned]


class RestoreError(CheckpointError):
    """The checkpoint was lost, and what is left in the store and in Kafka does not lead to its state."""


class SnapshotSource(Protocol):
    """Where snapshots of a lost checkpoint are: the store of `state:`."""

    def snapshots(self, bucket: int) -> list[StoredSnapshot]:
        """The complete snapshots of a bucket, in no particular order."""

    def fetch(self, bucket: int, snapshot: StoredSnapshot, into: CheckpointStore) -> None:
        """Copies a snapshot into a local store, under the name that it has in a checkpoint."""


class Candidate(NamedTuple):
    """A state of a bucket from which a restore may start."""

    version: int
    origin: str
    load: Callable[[], Bucket]


def require_restorable(plan: Plan, batch: int, plans: Plans, source: SnapshotSource | None = None) -> None:
    """Raises RestoreError if it is clear, before anything is read or changed, that `restore` is impossible."""
    versions = [_candidates(plan, number, batch, plans, source)[0].version for number in range(plan.buckets)]
    _require_records(plan, min(versions), batch, plans)


def unreadable(plan: Plan, version: int) -> str:
    """What keeps the buckets of the checkpoint from their states of this version, in words; empty if nothing does."""
    for number in range(plan.buckets):
        try:
            Bucket(plan, number).at(version)
        except (StateError, OSError) as error:
            return str(error)
    return ""


def restore(
    plan: Plan, batch: int, plans: Plans, source: SnapshotSource | None = None, into: Plan | None = None, *,
    level: int = logging.INFO,
) -> None:  # fmt: skip
    """Makes the checkpoint of `plan` one that is at `batch`, the last batch in the ledger.

    into    the plan with another number of buckets, which the checkpoint then has; None: the number stays
    level   the level of the log line that says so

    Raises RestoreError if the state cannot be computed.
    """
    began = time.monotonic()
    folder = Path(plan.checkpoint)
    new = folder / RESTORING
    if new.exists():
        shutil.rmtree(new)
    loaded = [_loaded(_candidates(plan, number, batch, plans, source), plan) for number in range(plan.buckets)]
    buckets = {number: bucket for number, (_, bucket) in enumerate(loaded)}
    versions = {number: candidate.version for number, (candidate, _) in enumerate(loaded)}
    fetched = time.monotonic()
    _repeat(plan, buckets, versions, batch, plans)
    store = FolderStore(new, forced=plan.forced)
    restored = list(buckets.values()) if into is None else rescaled(into, list(buckets.values()), batch + 1)
    for bucket in restored:
        bucket.export(store, batch + 1)
    if into is not None:
        _give_number(into, store, StoredSnapshot(batch + 1, plans[batch].digest))
    write_logs(store, plans, batch, idle_clock=plan.has_idle_clock)
    shutil.rmtree(new / FETCHED, ignore_errors=True)
    put_bytes(store, COMPLETE, b"")
    adopt(folder)
    origins = sorted({candidate.origin for candidate, _ in loaded})
    LOGGER.log(
        level,
        "checkpoint restored: pipeline=%s batch=%d buckets=%d from=%s repeated_batches=%d fetch_s=%.1f repeat_s=%.1f",
        plan.pipeline.name, batch, len(restored), ",".join(origins), batch + 1 - min(versions.values()),
        fetched - began, time.monotonic() - fetched,
    )  # fmt: skip


def _give_number(plan: Plan, store: CheckpointStore, snapshot: StoredSnapshot) -> None:
    """Writes the identity with the number of buckets of `plan`, and copies the snapshots into the store of `state:`.

    The copies come first: a checkpoint that is lost right after the change can be restored.
    """
    archive = SnapshotArchive.of(plan)
    if archive is not None:
        archive.save_all(plan.buckets, snapshot, store)
    checkpoint_identity.write(store, Identity(plan.pipeline.name, plan.fingerprint, plan.buckets, plan.query))


def _repeat(plan: Plan, buckets: Mapping[int, Bucket], versions: Mapping[int, int], batch: int, plans: Plans) -> None:
    """Applies the batches up to `batch` to each bucket whose state is older. The input is read once for all buckets."""
    first = min(versions.values())
    if first > batch:
        return
    _require_records(plan, first, batch, plans)
    past_plans = [plans[number] for number in range(first, batch + 1)]
    try:
        for at, past in enumerate(inputs_again(plan, plans[first - 1], past_plans), first):
            for number, bucket in buckets.items():
                if versions[number] <= at:
                    bucket.repeat(past)
    except HeaderNameError as error:
        raise RestoreError(
            f"checkpoint {plan.checkpoint}: the state after batch {batch} would have to be computed from a record that "
            f"only Spark can read: {error}. {REMEDIES}"
        ) from error


# ---- from which state ------------------------------------------------------------------------------------------------


def _candidates(plan: Plan, number: int, batch: int, plans: Plans, source: SnapshotSource | None) -> list[Candidate]:
    """The states of a bucket that may lead to that after `batch`, the newest first.

    Raises RestoreError if there is none.
    """
    oldest = _oldest_version(batch, plans)
    candidates = [*_in_folder(plan, number, batch, plans), *_in_store(plan, number, plans, source)]
    if oldest == 0:
        candidates.append(Candidate(0, "the first batch", lambda: Bucket(plan, number)))
    usable = [candidate for candidate in candidates if oldest <= candidate.version <= batch + 1]
    if usable:
        return sorted(usable, key=lambda candidate: -candidate.version)
    raise RestoreError(
        f"checkpoint {plan.checkpoint}: the ledger of {plan.pipeline.name!r} is at batch {batch}, and the state of "
        f"bucket {number} after this batch is lost. {_left(candidates, oldest, source)} {REMEDIES}"
    )


def _left(candidates: list[Candidate], oldest: int, source: SnapshotSource | None) -> str:
    """The part of a message that says which state is left."""
    newest = max((candidate.version for candidate in candidates), default=0)
    state = f"The newest state is that before batch {newest}, but" if newest else "No snapshot is left, and"
    hint = "" if source else " (`state:` in the pipeline file names a store for snapshots that outlive the machine.)"
    return f"{state} the ledger has kept the plans of batches from {oldest} on only.{hint}"


def _oldest_version(batch: int, plans: Plans) -> int:
    """The oldest version of the state from which all batches up to `batch` have a plan.

    The plan of the batch before that version is needed, too: the batch after it starts at its offsets.
    """
    version = batch + 1
    while version > 0 and version - 1 in plans and version - 2 in plans:
        version -= 1
    return version if version - 1 in plans else batch + 2


def _in_folder(plan: Plan, number: int, batch: int, plans: Plans) -> Iterator[Candidate]:
    """The states that the snapshots and the log in the checkpoint folder lead to.

    The folder may be a copy that went another way than the ledger. Up to the newest batch of which both have the same
    plan, they went the same way.
    """
    if not folder_of(plan, number).is_dir():
        return
    common = max(
        (planned for planned in offset_log.batches_in(plan.store, offset_log.PLANNED) if _same(plan, planned, plans)),
        default=-1,
    )
    newest = min(common, batch) + 1
    versions = {*range(newest, max(0, newest - REPEATABLE_VERSIONS), -1), *Bucket(plan, number).snapshots(newest)}
    for version in sorted(versions, reverse=True):
        yield Candidate(version, "the folder", lambda version=version: _at(Bucket(plan, number), version))  # type: ignore[misc]


def _same(plan: Plan, batch: int, plans: Plans) -> bool:
    try:
        return batch in plans and offset_log.digest(plan.store, batch) == plans[batch].digest
    except CheckpointError:  # the entry is damaged
        return False


def _in_store(plan: Plan, number: int, plans: Plans, source: SnapshotSource | None) -> Iterator[Candidate]:
    """The snapshots in the store that belong to the history in the ledger."""
    if source is None:
        return
    for snapshot in source.snapshots(number):
        if snapshot.version - 1 in plans and plans[snapshot.version - 1].digest.startswith(snapshot.digest):
            yield Candidate(snapshot.version, "the store", partial(_fetched, plan, number, snapshot, source))


def _fetched(plan: Plan, number: int, snapshot: StoredSnapshot, source: SnapshotSource) -> Bucket:
    folder = Path(plan.checkpoint, RESTORING, FETCHED)
    source.fetch(number, snapshot, FolderStore(folder))
    return _at(Bucket(replace(plan, checkpoint=str(folder)), number), snapshot.version)


def _at(bucket: Bucket, version: int) -> Bucket:
    bucket.at(version)
    return bucket


def _loaded(candidates: list[Candidate], plan: Plan) -> tuple[Candidate, Bucket]:
    """The newest candidate whose state can be read. Raises RestoreError if there is none, and OSError if the local disk
    takes nothing.
    """
    for candidate in candidates:
        try:
            return candidate, candidate.load()
        except StoreError:  # the store may answer the next start
            raise
        except (StateError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            LOGGER.warning(
                "the state of version %d in %s cannot be used: %s", candidate.version, candidate.origin, error
            )
    message = (
        f"checkpoint {plan.checkpoint}: none of the states that are left can be read; the warnings in the log name the "
        f"causes. {REMEDIES}"
    )
    raise RestoreError(message)


# ---- whether the inputs still have the records -----------------------------------------------------------------------


def _require_records(plan: Plan, version: int, batch: int, plans: Plans) -> None:
    kafka = plan.pipeline.settings.kafka
    needed = oldest_needed(kafka, plans[version - 1].offsets, plans[batch].offsets)
    _require_uncompacted(plan, batch, needed)
    _require_same_topics(plan, batch, needed)
    lacking = {place: offset for place, offset in needed.items() if offset.oldest > offset.needed}
    if not lacking:
        return
    (topic, partition), offset = min(lacking.items())
    raise RestoreError(
        f"checkpoint {plan.checkpoint}: the state after batch {batch} would have to be computed from the records of "
        f"topic {topic}, topic partition {partition}, from offset {offset.needed} on, but Kafka has deleted "
        f"those before offset {offset.oldest} (retention). {REMEDIES}. In future keep the records of the inputs for "
        "longer than the time between two snapshots and the longest stop of the service together"
    )


def _require_uncompacted(plan: Plan, batch: int, needed: Mapping[tuple[str, int], NeededOffset]) -> None:
    compacted = {place: offset for place, offset in needed.items() if place[0] in plan.compacted}
    if not compacted:
        return
    (topic, partition), offset = min(compacted.items())
    raise RestoreError(
        f"checkpoint {plan.checkpoint}: the state after batch {batch} would have to be computed from the records of "
        f"topic {topic}, topic partition {partition}, from offset {offset.needed} on, but Kafka compacts this "
        "topic (or the user lacks the permission DESCRIBE_CONFIGS to see that it does not), so records may be missing. "
        "If none of these records was compacted (`min.compaction.lag.ms` of the topic is long enough), set its "
        f"`cleanup.policy` to delete, start the service, and set it back. Otherwise: {REMEDIES}"
    )


def _require_same_topics(plan: Plan, batch: int, needed: Mapping[tuple[str, int], NeededOffset]) -> None:
    created_topics = sorted({topic for topic, _ in needed if topic in plan.created_again})
    if created_topics:
        raise RestoreError(
            f"checkpoint {plan.checkpoint}: the state after batch {batch} would have to be computed from records of "
            f"topic {', '.join(created_topics)}, which was deleted and created again since then. {REMEDIES}"
        )


def rescaled(plan: Plan, buckets: Sequence[Bucket], version: int) -> list[Bucket]:
    """The buckets of `plan`, with the states of `buckets`: all buckets of the same query, in another number.

    All of them have the state of `version` in memory, and must not be used afterwards.
    """
    graph = buckets[0].graph
    states, waiting = zip(*(bucket.content() for bucket in buckets), strict=True)
    parts = [graph.split(state, plan.buckets, partial(bucket_of_key, plan.buckets)) for state in states]
    new_buckets = []
    for number, buffer in enumerate(_buffers(plan, waiting)):
        bucket = Bucket(plan, number)
        bucket.take(version, graph.merge([divided[number] for divided in parts]), buffer)
        new_buckets.append(bucket)
    return new_buckets


def bucket_of_key(buckets: int, key: bytes) -> int:
    """The number of the bucket of a key, as for records (partition_router.py)."""
    return int(partition_for(pa.array([key], pa.binary()), buckets)[0])


def _buffers(plan: Plan, saved: Sequence[bytes]) -> list[bytes]:
    """The saved reorder buffers of the new buckets. An empty one has never had a row."""
    if not all(saved):
        return [b""] * plan.buckets
    old = [ReorderBuffer.load(data) for data in saved]
    new = [ReorderBuffer(dict(old[0].frontiers), set(old[0].finals)) for _ in range(plan.buckets)]
    for slices in zip(*(buffer.slices for buffer in old), strict=True):
        for buffer, of_bucket in zip(new, _divided(plan, PartitionSlice.joined(slices)), strict=True):
            buffer.slices.append(of_bucket)
    return [buffer.save() for buffer in new]


def _divided(plan: Plan, whole: PartitionSlice) -> Iterator[PartitionSlice]:
    stream = plan.pipeline.streams[whole.stream]
    attributes = [name for name in whole.rows.schema.names if not name.startswith("@")]
    tuples = whole.rows.filter(pa.array(whole.kinds == TUPLE)).select(attributes)
    keys = plan.spread.get(stream.name, ())
    steps = steps_of(stream, plan.shared_times.get(stream.name), whole.kinds, whole.stamps, tuples)
    return whole.divided(buckets_of(keys, whole.first, tuples, plan.buckets), plan.buckets, steps)
