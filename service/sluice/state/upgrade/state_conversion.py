"""Converts a checkpoint to a pipeline that has changed, before its queries start.

    the checkpoint  at batch N, the last one in the ledger, made for the old pipeline
         |          the state of each bucket after batch N is loaded, and converted operator by operator
         v
    restoring/      the state after batch N + 1, for the new pipeline; Spark's logs of batch N + 1; the identity
         |          moved to its place when it is complete (checkpoint/checkpoint_folder.py)
         v
    the ledger      batch N + 1, in one transaction

The change is a batch of its own, N + 1, without records and outputs. So the ledger, Spark's logs and the states agree
on when the change was, and no state of the old pipeline is used for the new one: the ledger has no plan of the batches
before. Topics that were added begin in the plan of this batch, and topics that were removed are not in it.

A kill before the parts are complete leaves the old checkpoint. A kill after that leaves the new one, whose next start
writes the batch to the ledger, if that had not been done.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sluice.api.class_loader import ClassError
from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity, offset_log
from sluice.checkpoint.checkpoint_folder import CHANGE, COMPLETE, RESTORING, adopt
from sluice.checkpoint.checkpoint_identity import CheckpointError, Identity
from sluice.checkpoint.checkpoint_store import CheckpointStore, StoreError, StoreUnavailableError, get_bytes, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import NO_IDLE_CLOCK, write_first_offsets, write_logs
from sluice.engine.graph import Graph, GraphState
from sluice.engine.graph_conversion import converted
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Planned, Report
from sluice.kafka.ledger import LedgerPosition, begin_anew
from sluice.kafka.range_reader import Offsets, beginnings, ends
from sluice.kafka.requests import Requests, clients
from sluice.kafka.topics import Topic
from sluice.model.changes.operator_changes import Changes, StateOutcome, kept_of
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.state.bucket import Bucket
from sluice.state.bucket_outputs import report_of
from sluice.state.checksummed_blocks import LOGGER
from sluice.state.restore import bucket_of_key
from sluice.state.snapshot_archive import SnapshotArchive, StoredSnapshot
from sluice.state.upgrade.file_changes import ChangedFileError, ChangedStage, buckets_of, compared_stage, require
from sluice.state.upgrade.input_replay import input_replay, rebuild
from sluice.time_units import MILLISECOND, UNSET

#: a topic and one of its topic partitions
Place = tuple[str, int]


def convert_if_changed(
    pipeline: Pipeline, store: CheckpointStore, topics: Mapping[str, Topic], *, accept: bool
) -> None:
    """Converts the checkpoint if it was made for an earlier form of the pipeline. First finishes a conversion that was
    killed.

    topics   the topics by name
    accept   whether the states of operators may be lost

    Raises ChangedFileError, before anything is changed, if that is not accepted or not possible; CheckpointError if the
    checkpoint is not at the position of the ledger.
    """
    _finish(pipeline, store)
    changed = compared_stage(pipeline, store)
    if changed is None:
        return
    kafka, name, query, buckets = (
        pipeline.settings.kafka,
        pipeline.name,
        changed.identity.query,
        changed.identity.buckets,
    )
    _require_closed(pipeline, store, query, buckets)
    require(changed.changes, pipeline, accept=accept)
    committed, _ = offset_log.batches(store)
    ledger.require_same_checkpoint(ledger.read_position(kafka, name, ledger.OPEN), name, query, committed)
    ledger.end_open_transaction(kafka, name)
    _require_closed(pipeline, store, query, buckets, fence=True)
    position = ledger.read_position(kafka, name)
    if position is None:
        _begin_before_the_first_batch(pipeline, store, changed)
    else:
        _require_fitting(store, position)
        _convert(pipeline, store, topics, changed, position.next_batch - 1)
    _finish(pipeline, store)


def _require_closed(
    pipeline: Pipeline, store: CheckpointStore, query_id: str, buckets: int, *, fence: bool = False
) -> None:
    """Raises CheckpointError if a batch of the pipeline as it was is in parts. With `fence`, the buckets of an instance
    that still runs can write none from now on.
    """
    kafka, name = pipeline.settings.kafka, pipeline.name
    position = ledger.read_position(kafka, name, ledger.OPEN)
    isolation = "read_committed" if fence else ledger.OPEN
    if not (ledger.owner(kafka, name, isolation)[1] if position is None else position.start):
        return
    if fence:
        most = ledger.take_over(kafka, name, query_id, str(uuid.uuid4()), buckets)
        parts = ledger.fenced_parts(kafka, name, most)
    else:
        parts = ledger.part_positions(kafka, name, buckets)
    position = ledger.read_position(kafka, name, ledger.OPEN)  # now: the instance may have closed the batch meanwhile
    batch = 0 if position is None else position.next_batch
    if ledger.ahead(parts, query_id, batch):
        message = (
            f"checkpoint {store.location()}: some buckets have written batch {batch}, with the pipeline file as it was "
            "before. Start once with the file as it was, until the batch is written; then with the changed file"
        )
        raise CheckpointError(message)


def begin_topics_anew(plan: Plan, topics: Mapping[str, Topic]) -> None:
    """Lets a query go on with its state, and with its input topics that were created again from their beginnings on.
    That is a change of the pipeline into itself.

    topics  the topics by name

    The checkpoint is at the position of the ledger. Raises CheckpointError if a start of another instance has changed
    the ledger since then.
    """
    pipeline, store = plan.pipeline, plan.store
    position = ledger.read_position(pipeline.settings.kafka, pipeline.name)
    if position is None:
        _forget_plans(store)
        _begin_at_the_beginnings(pipeline, store, plan.created_again)
        return
    identity = Identity(pipeline.name, plan.fingerprint, plan.buckets, plan.query)
    changed = ChangedStage(pipeline, identity, Changes(()), created_again=plan.created_again)
    _convert(pipeline, store, topics, changed, position.next_batch - 1)
    _finish(pipeline, store)


def _forget_plans(store: CheckpointStore) -> None:
    """Removes what Spark has planned, and the states, of a query of which no batch was written."""
    for prefix in ("commits/", "offsets/", "buckets/"):  # the inputs still begin where they did (checkpoint_start.py)
        for name in list(store.list(prefix)):
            store.delete(name)


def _begin_at_the_beginnings(pipeline: Pipeline, store: CheckpointStore, anew: Collection[str]) -> None:
    """Writes where these topics begin, if the checkpoint has where the first batch starts."""
    first = offset_log.first_offsets(store)
    if not any(topic in anew for topic, _ in first):
        return
    with clients(pipeline.settings.kafka, "admin") as requests:
        begin = beginnings(requests, [place for place in first if place[0] in anew])
    write_first_offsets(store, Planned(0, {**first, **begin}, NO_IDLE_CLOCK))


def _begin_before_the_first_batch(pipeline: Pipeline, store: CheckpointStore, changed: ChangedStage) -> None:
    """No batch was written, so there is no state: what Spark has planned is removed, and the identity is replaced."""
    _forget_plans(store)
    new = FolderStore(checkpoint_identity.folder_of(pipeline) / RESTORING)
    _write_identity(new, pipeline, replace(changed.identity, buckets=buckets_of(pipeline, changed.identity)))
    put_bytes(new, COMPLETE, b"")
    adopt(checkpoint_identity.folder_of(pipeline))


def _require_fitting(store: CheckpointStore, position: LedgerPosition) -> None:
    offset_log.verify(store)
    committed, planned = offset_log.batches(store)
    if ledger.fits(position, committed, planned, digest_of=partial(offset_log.digest, store)):
        return
    message = (
        f"checkpoint {store.location()}: the pipeline file has changed, and the checkpoint is not at batch "
        f"{position.next_batch - 1} of the ledger. First start once with the pipeline file that it was made for, which "
        "restores the checkpoint"
    )
    raise CheckpointError(message)


def _convert(
    pipeline: Pipeline, store: CheckpointStore, topics: Mapping[str, Topic], changed: ChangedStage, batch: int
) -> None:
    began, folder = time.monotonic(), checkpoint_identity.folder_of(pipeline)
    before = _planned(pipeline, store, batch)
    identity = replace(
        changed.identity,
        fingerprint=checkpoint_identity.fingerprint_of(pipeline),
        buckets=buckets_of(pipeline, changed.identity),
    )
    old_plan, plan = _old_plan(changed, folder, before), Plan.of(pipeline, identity, topics)
    buckets = _old_buckets(old_plan)
    states = [bucket.at(batch + 1) for bucket in buckets]
    waiting = [bucket.content()[1] for bucket in buckets]
    new_states = _states(buckets[0].graph, states, plan, changed)
    rebuilt = changed.changes.named(StateOutcome.REBUILT)
    replay = input_replay(pipeline, identity.query) if rebuilt else None
    if replay is not None:
        rebuild(plan, rebuilt, new_states, replay, changed.old)
    planned = _plan_of_change(plan, before, changed.created_again)
    version, new = batch + 2, FolderStore(folder / RESTORING, forced=plan.forced)
    converted_buckets = []
    for number, state in enumerate(new_states):
        bucket = Bucket(plan, number)
        bucket.take(version, state, waiting[number] if number < len(waiting) and plan.merging else b"")
        bucket.export(new, version)
        converted_buckets.append(bucket)
    _save_in_store(plan, new, StoredSnapshot(version, planned.digest))
    write_logs(new, {batch: planned, batch + 1: planned}, batch + 1, idle_clock=plan.has_idle_clock)
    _write_identity(new, pipeline, identity)
    entry = Entry(
        pipeline.name, identity.query, batch + 1, time.time_ns() // MILLISECOND, 0, _report(converted_buckets),
        planned=planned, fingerprint=identity.fingerprint, buckets=identity.buckets, topics=dict(plan.topic_ids),
    )  # fmt: skip
    put_bytes(new, CHANGE, entry.to_json())
    put_bytes(new, COMPLETE, b"")
    adopt(folder)
    words = [f"{change.name} {change.word}" for change in changed.changes.all] or sorted(changed.created_again)
    LOGGER.warning(
        "checkpoint %s: converted to the changed %s after batch %d in %.1f s: %s",
        folder, "topics" if changed.created_again else "pipeline file", batch, time.monotonic() - began,
        ", ".join(words),
    )  # fmt: skip


# ---- the states ------------------------------------------------------------------------------------------------------


def _states(old: Graph, states: Sequence[GraphState], plan: Plan, changed: ChangedStage) -> list[GraphState]:
    """The states of the new buckets. Where tuples go to other buckets than before, the states are put together and
    divided anew by key.
    """
    new, kept = Graph(plan.pipeline, plan.topic_partitions), kept_of(changed.old, plan.pipeline)
    same_buckets = len(states) == plan.buckets and spread_by(changed.old) == spread_by(plan.pipeline)
    if plan.buckets == 1 or same_buckets:
        undivided = states if same_buckets else [old.merge(states)] if len(states) > 1 else states
        return [converted(old, state, new, kept) for state in undivided]
    whole_state = converted(old, old.merge(states) if len(states) > 1 else states[0], new, kept)
    return new.split(whole_state, plan.buckets, partial(bucket_of_key, plan.buckets))


def _old_plan(changed: ChangedStage, folder: Path, planned: Planned) -> Plan:
    """The plan of the old pipeline, with the topic partitions that its last batch had."""
    old, identity = changed.old, changed.identity
    counts = Counter(topic for topic, _ in planned.offsets)
    used = [*old.inputs, *old.outputs, *([old.streams[old.dead_letters]] if old.dead_letters else [])]
    names = [name for name, stream in old.streams.items() if stream in used]
    partitions = {name: counts[str(old.streams[name].topic)] or 1 for name in names}
    return Plan(old, identity.query, "", str(folder), identity.buckets, partitions)


def _old_buckets(plan: Plan) -> list[Bucket]:
    """The buckets of the old pipeline. Raises ChangedFileError if a class that its file names does not exist any more:
    the log of a bucket has rows, from which the old operators compute the state.
    """
    try:
        return [Bucket(plan, number) for number in range(plan.buckets)]
    except ClassError as error:
        message = (
            f"checkpoint {plan.checkpoint}: this start computes the state of the last batch with the earlier pipeline "
            f"file, and needs the Python classes that this file names: expected {error}. Keep them for this start"
        )
        raise ChangedFileError(message) from error


def _report(buckets: Sequence[Bucket]) -> Report:
    """The report of the change: what the operators hold, and when the clock alone causes an output."""
    report = Report()
    for bucket in buckets:
        state = bucket.content()[0]
        graph = bucket.graph
        sizes = report_of(bucket.plan.pipeline.operators, {}, graph.sizes(state))
        report.add(
            Report(
                operators=sizes,
                state={"read": 0, "written": 0, "held": graph.size(state)},
                watermarks=graph.watermarks(state),
                clock=None if state.now == UNSET else state.now,
                due=bucket.due(),
                final=graph.ended(state),
            )
        )
    return report


# ---- where the inputs go on ------------------------------------------------------------------------------------------


def _planned(pipeline: Pipeline, store: CheckpointStore, batch: int) -> Planned:
    """The plan of the last batch, from Spark's log or, if the log has lost it, from the ledger."""
    in_log = offset_log.known(store, batch)
    entry = None if in_log is not None else ledger.last_entry(pipeline.settings.kafka, pipeline.name)
    planned = in_log or (entry.planned if entry is not None else None)
    if planned is None:
        message = f"checkpoint {store.location()}: neither it nor the ledger has the offsets of batch {batch}"
        raise CheckpointError(message)
    return planned


def _plan_of_change(plan: Plan, before: Planned, anew: Collection[str]) -> Planned:
    """The plan of the batch that is the change: it reads nothing, but it has the topics of the changed pipeline, and
    the topics that were created again begin anew.
    """
    topics = {str(stream.topic) for stream in plan.inputs}
    old_topics = {topic for topic, _ in before.offsets}
    going_on = {place: offset for place, offset in before.offsets.items() if place[0] in topics.difference(anew)}
    added = [place for place in plan.places if place[0] not in old_topics]
    late = plan.pipeline.settings.start == "latest"
    starts = _offsets(plan, ends if late else beginnings, added)
    again = _offsets(plan, beginnings, [place for place in plan.places if place[0] in old_topics.intersection(anew)])
    now = max(time.time_ns() // MILLISECOND * MILLISECOND, before.time)
    return Planned(now, going_on | starts | again, before.idle_clock if plan.has_idle_clock else NO_IDLE_CLOCK)


def _offsets(
    plan: Plan, read: Callable[[Requests[AdminClient], Sequence[Place]], Offsets], places: Sequence[Place]
) -> dict[Place, int]:
    """The beginnings, or the ends, of these topic partitions."""
    if not places:
        return {}
    with clients(plan.pipeline.settings.kafka, "admin") as requests:
        return dict(read(requests, places))


# ---- writing ---------------------------------------------------------------------------------------------------------


def _write_identity(store: CheckpointStore, pipeline: Pipeline, identity: Identity) -> None:
    """Writes the identity last: with it, the checkpoint is one of the changed pipeline."""
    fingerprint = checkpoint_identity.fingerprint_of(pipeline)
    checkpoint_identity.write_definition(store, checkpoint_identity.definition_of(pipeline))
    checkpoint_identity.write(store, replace(identity, fingerprint=fingerprint))


def _save_in_store(plan: Plan, new: CheckpointStore, snapshot: StoredSnapshot) -> None:
    """Copies the snapshots into the store of `state:`, for a checkpoint that is lost right after the change."""
    archive = SnapshotArchive.of(plan)
    if archive is None:
        return
    try:
        archive.save_all(plan.buckets, snapshot, new)
    except StoreError as error:
        message = f"state {error}; a change of the pipeline file needs the store, for copies of the new states"
        raise StoreUnavailableError(message) from error


def _finish(pipeline: Pipeline, store: CheckpointStore) -> None:
    """Writes the batch of the change to the ledger, if the checkpoint has been converted and the ledger lacks it."""
    try:
        entry = Entry.from_json(get_bytes(store, CHANGE))
    except FileNotFoundError:
        return
    kafka = pipeline.settings.kafka
    _require_closed(pipeline, store, entry.query_id, entry.buckets)
    ledger.end_open_transaction(kafka, entry.query)
    position = ledger.read_position(kafka, entry.query)
    if position is not None and (position.query_id, position.next_batch) == (entry.query_id, entry.batch):
        begin_anew(kafka, entry)
    else:
        last = ledger.last_entry(kafka, entry.query)
        if position is None or last is None or last.fingerprint != entry.fingerprint:
            raise CheckpointError(_parted(store, entry))
    store.delete(CHANGE)


def _parted(store: CheckpointStore, entry: Entry) -> str:
    return (
        f"checkpoint {store.location()}: it was converted to a changed pipeline file after batch {entry.batch - 1}, "
        "and the ledger has gone on with another copy of the checkpoint. Start with that copy, or with an empty folder "
        "and --reset-ledger: outputs of records that are read again are then written again"
    )
