"""Opens the checkpoint of a query at its start: as it is, new, or restored to the ledger's position (restore.py)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity, offset_log
from sluice.checkpoint.checkpoint_folder import CHANGE, COMPLETE, RESTORING, UNREADABLE, adopt, store_of
from sluice.checkpoint.checkpoint_identity import CheckpointError, Identity
from sluice.checkpoint.checkpoint_store import (
    CheckpointStore,
    StoreError,
    StoreRefusedError,
    StoreUnavailableError,
    put_bytes,
)
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import SparkFileError, write_first_plan
from sluice.checkpoint.topic_ids import topics_created_again, write_ids
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Planned
from sluice.kafka.kafka_errors import FencedError, LedgerError
from sluice.kafka.ledger import LedgerPosition
from sluice.kafka.topics import Topic, known_inputs
from sluice.model.spec import Pipeline
from sluice.model.spreading import own_outputs, required_buckets, why_driver
from sluice.processes import processors
from sluice.state.first_batch import plan_first_batch
from sluice.state.snapshot_archive import SnapshotArchive, owner_of
from sluice.state.upgrade.file_changes import changed_stage

LOGGER = logging.getLogger("sluice.state")
#: the line of the log about a restore: the checkpoint, the reason, and the batch of the ledger
RESTORED = "checkpoint %s: %s; it is restored to batch %d of the ledger"


class OvertakenError(FencedError):
    """Another instance has written a batch since this start has looked. It can write no further one."""


class BegunElsewhereError(OvertakenError):
    """Another instance has written the first batch, or a part of it, since this start has looked."""


def open_checkpoint(
    pipeline: Pipeline, topics: Mapping[str, Topic], start: str, *, reset_ledger: bool = False, accept: bool = False,
    on_cluster: bool = False,
) -> Plan:  # fmt: skip
    """The plan of a query on its checkpoint, which is at the position of the ledger afterwards.

    topics         the topics by name
    start          id of this start of the service
    reset_ledger   whether the ledger is first overwritten with the position of this checkpoint
    accept         whether the states of operators may be lost that a change of the pipeline file does not keep

    Ends a transaction that an earlier process left open, and fences an instance that still runs. Raises CheckpointError
    or LedgerError if the checkpoint cannot be used or restored; if that is clear before the fencing, an instance that
    runs is not affected.
    """
    try:
        return _opened(pipeline, topics, start, reset_ledger=reset_ledger, accept=accept, on_cluster=on_cluster)
    except OvertakenError as error:
        LOGGER.info("the checkpoint is opened again: %s", error)
        anew = isinstance(error, BegunElsewhereError)
        return _opened(pipeline, topics, start, anew=anew, accept=accept, on_cluster=on_cluster)


def _opened(
    pipeline: Pipeline, topics: Mapping[str, Topic], start: str, *, reset_ledger: bool = False, accept: bool = False,
    on_cluster: bool = False, anew: bool = False,
) -> Plan:  # fmt: skip
    """As `open_checkpoint`. With `anew`, the store of `state:` may belong to another checkpoint, which gives it up.

    Raises BegunElsewhereError if the identity of the checkpoint must be taken from the ledger after all.
    """
    store, kafka = store_of(pipeline), pipeline.settings.kafka
    adopt(Path(store.location()))
    pipeline = checkpoint_identity.in_stored_order(pipeline, store)
    if reset_ledger:
        store.delete(CHANGE)  # the ledger gets the position of this checkpoint in any case
    else:
        _convert(pipeline, store, topics, accept=accept)
    position = None if reset_ledger else _position(pipeline, store)
    identity = _claimed(pipeline, store, position)
    plan = Plan.of(pipeline, identity, topics, start)
    if reset_ledger:
        _reset(plan)
        position = ledger.read_position(kafka, pipeline.name)
    committed = _committed(plan, position)
    if position is None and committed is not None and ledger.read_position(kafka, pipeline.name) is not None:
        raise OvertakenError(f"another instance of {pipeline.name!r} has written its first batch meanwhile")
    ledger.require_same_checkpoint(position, pipeline.name, plan.query, committed)
    plan = replace(plan, created_again=_created_again(plan, position))
    # without a ledger no batch was ever written
    archive = _archive(plan, anew=anew or reset_ledger or position is None)
    if mismatch := _mismatch(plan, position):
        _restore(plan, archive, mismatch=mismatch, only_check=True)
    position, parted = _fenced(plan, position), _wants_parts(pipeline, on_cluster=on_cluster)
    bucket_count = required_buckets(pipeline)
    in_parts = _taken_over(plan, position, bucket_count or plan.buckets, parted=parted)
    begun_buckets = bucket_count if in_parts is None else in_parts.buckets  # by a start whose checkpoint may be lost
    if begun_buckets and begun_buckets != plan.buckets:
        plan = _rescaled(plan, begun_buckets, archive)
    elif mismatch := _mismatch(plan, position) or _behind(plan, in_parts):
        _restore(plan, archive, mismatch=mismatch)
    if parted:
        plan = replace(plan, parted=own_outputs(pipeline, plan.buckets, plan.topic_partitions))
        _log_outputs(plan)
    if in_parts is not None:
        plan = _again_in_parts(plan, in_parts, bucket_count or plan.buckets, parted=parted)
    if plan.created_again:
        _begin_anew(plan, topics)
    write_ids(store, dict(plan.topic_ids))
    offset_log.remove_stale_checksums(store)
    plan_first_batch(plan)
    return plan


def _position(pipeline: Pipeline, store: CheckpointStore) -> LedgerPosition | None:
    """The position of the ledger, without a wait for an open transaction of an instance that may run.

    If the checkpoint has a committed batch, the ledger has a position: the brokers may not have marked the first
    transaction as committed in all topic partitions, and this waits until they have.
    """
    kafka, name = pipeline.settings.kafka, pipeline.name
    position = ledger.read_position(kafka, name, ledger.OPEN)
    if position is None and offset_log.batches(store)[0] is not None:
        return ledger.read_position(kafka, name)
    return position


def _fenced(plan: Plan, before: LedgerPosition | None) -> LedgerPosition | None:
    """Ends an open transaction, fences an instance that still runs, and returns the position of the ledger after that.

    `before` is the position that was read before. Raises BegunElsewhereError if there was none, and now is one; or if
    the present one is of another checkpoint.
    """
    kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name
    ledger.end_open_transaction(kafka, name)
    position = ledger.read_position(kafka, name)
    if position is not None and (before is None or position.query_id != plan.query):
        raise BegunElsewhereError(f"the first batch of {name!r} has become visible meanwhile")
    return position


def _wants_parts(pipeline: Pipeline, *, on_cluster: bool) -> bool:
    """Whether the buckets write their outputs themselves, as far as the settings decide it."""
    settings = pipeline.settings
    writers = settings.writers or ("buckets" if on_cluster else "one")
    return writers == "buckets" and settings.delivery == "exactly_once"


def _taken_over(plan: Plan, position: LedgerPosition | None, buckets: int, *, parted: bool) -> Entry | None:
    """Fences the writers of buckets that earlier starts have left, and ends their open transactions. Their driver is
    fenced already, and `position` was read after that. `buckets`: the number that this start may have beside that of
    the plan.

    Returns the entry of a part of the batch that is in parts: some buckets have written it, and the driver has not
    closed it. None if there is none. `parted`: whether the buckets of this start may write. Raises BegunElsewhereError
    if buckets of another checkpoint have begun the first batch, and OvertakenError if the ledger is no longer at
    `position`: until now the driver before could open a producer again, and close batches.
    """
    kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name
    wrote = ledger.owner(kafka, name)[1] if position is None else position.start
    if not (parted or wrote):  # no bucket has written, and none will
        return None
    try:
        most = ledger.take_over(kafka, name, plan.query, plan.start, max(plan.buckets, buckets))
    except LedgerError as error:
        raise BegunElsewhereError(str(error)) from error
    now = ledger.read_position(kafka, name)
    if now is not None and now.next_batch != (0 if position is None else position.next_batch):
        raise OvertakenError(f"another instance of {name!r} has written batch {now.next_batch - 1} meanwhile")
    parts = ledger.fenced_parts(kafka, name, most)
    first = ledger.first_part(kafka, name, fenced=True) if position is None else None
    if first is not None and first.query_id != plan.query:
        raise BegunElsewhereError(f"buckets of another instance of {name!r} have written parts of the first batch")
    try:
        return ledger.entry_in_parts(kafka, name, plan.query, 0 if position is None else position.next_batch, parts)
    except LedgerError as error:
        # The parts were read after the position: another start may have taken over and written in between.
        if ledger.owner(kafka, name)[1] != plan.start:
            raise OvertakenError(f"another instance of {name!r} has taken over meanwhile") from error
        raise


def _behind(plan: Plan, in_parts: Entry | None) -> str:
    """What keeps the checkpoint from running a batch that is in parts, in words; empty if nothing does. Spark runs the
    last planned batch alone, and would leave out one before it that this copy of the checkpoint has only planned.
    """
    committed = offset_log.batches(plan.store)[0]
    last = -1 if committed is None else committed
    if in_parts is None or last >= in_parts.batch - 1:
        return ""
    return f"buckets have written parts of batch {in_parts.batch}, and it has not committed batch {in_parts.batch - 1}"


def _log_outputs(plan: Plan) -> None:
    """Says which outputs go through the driver, and why."""
    for stream in plan.pipeline.outputs:
        why = why_driver(plan.pipeline, stream, plan.buckets, plan.topic_partitions[stream.name])
        if why:
            LOGGER.info("the driver writes %s: %s", stream.name, why)


def _again_in_parts(plan: Plan, part: Entry, buckets: int, *, parted: bool) -> Plan:
    """The plan of a query whose batch is in parts: the buckets that began it end it, each with its records of the same
    streams. Then the query starts again if it is to have another number of `buckets`, one writer, or other streams that
    the buckets write, because topics have other numbers of topic partitions now.
    """
    assert part.planned is not None  # noqa: S101 - see ledger.entry_in_parts
    _plan_again(plan, part.batch, part.planned)
    before = _as_begun(plan, part.parted or own_outputs(plan.pipeline, plan.buckets, plan.topic_partitions))
    if parted and (buckets, plan.parted) == (plan.buckets, before.parted):
        return before
    others = f"{buckets} buckets" if buckets != plan.buckets else "the present topic partitions"
    LOGGER.warning(
        "checkpoint %s: the buckets write batch %d first; then the query starts again with %s",
        plan.checkpoint, part.batch, others if parted else "one writer",
    )  # fmt: skip
    return replace(before, finishing=part.batch)


def _as_begun(plan: Plan, streams: Collection[str]) -> Plan:
    """The plan with these streams of which each bucket writes its part. A topic may have got topic partitions since the
    batch began: the plan has as many of them as make a multiple of the buckets, which it had then.
    """
    counts = {name: plan.topic_partitions[name] // plan.buckets * plan.buckets for name in streams}
    owned = {name: count for name, count in counts.items() if count}
    return replace(plan, parted=frozenset(owned), topic_partitions={**plan.topic_partitions, **owned})


def _plan_again(plan: Plan, batch: int, planned: Planned) -> None:
    """Makes `planned` the plan of this batch in the checkpoint, which is at the batch before it: parts of it have this
    plan.
    """
    if batch == 0 and not offset_log.batches_in(plan.store, offset_log.PLANNED):
        before = ledger.plans(plan.pipeline.settings.kafka, plan.pipeline.name, plan.query)[-1]
        write_first_plan(plan.store, before, planned, idle_clock=plan.has_idle_clock)
    if offset_log.digest(plan.store, batch) == planned.digest:
        LOGGER.info("checkpoint %s: batch %d is in parts, and runs again", plan.checkpoint, batch)
        return
    LOGGER.warning("checkpoint %s: batch %d is in parts, with the plan that the ledger has", plan.checkpoint, batch)
    offset_log.write_plan(plan.store, batch, planned, idle_clock=plan.has_idle_clock)


def follow_ledger(pipeline: Pipeline, topics: Mapping[str, Topic]) -> None:
    """Brings the checkpoint of a query that another instance runs to the position of the ledger.

    It neither ends a transaction nor fences that instance. Without a ledger it does nothing; nor if the checkpoint was
    converted to a changed pipeline file and the ledger may lack the batch of the change, which the next leader writes.
    Raises as `open_checkpoint` does.
    """
    store, kafka = store_of(pipeline), pipeline.settings.kafka
    adopt(Path(store.location()))
    pipeline = checkpoint_identity.in_stored_order(pipeline, store)
    position = ledger.read_position(kafka, pipeline.name, ledger.OPEN)
    if position is None or CHANGE in store.list(CHANGE):
        return
    plan = Plan.of(pipeline, _claimed(pipeline, store, position), topics)
    ledger.require_same_checkpoint(position, pipeline.name, plan.query, _committed(plan, position))
    if mismatch := _mismatch(plan, position):
        from sluice.state import restore  # noqa: PLC0415 - see _restore

        plan = replace(plan, created_again=_not_in_ledger(pipeline))
        batch, plans = position.next_batch - 1, ledger.plans(kafka, pipeline.name, plan.query)
        LOGGER.log(logging.WARNING if _damage(plan) else logging.DEBUG, RESTORED, plan.checkpoint, mismatch, batch)
        restore.restore(plan, batch, plans, SnapshotArchive.of(plan), level=logging.DEBUG)


def _created_again(plan: Plan, position: LedgerPosition | None) -> frozenset[str]:
    """The input topics that were created again. Raises DataLossError unless records may be lost."""
    settings, name = plan.pipeline.settings, plan.pipeline.name

    def in_ledger() -> Mapping[str, str]:
        entry = None if position is None else ledger.last_entry(settings.kafka, name)
        return {} if entry is None else entry.topics

    may_lose = settings.on_data_loss == "continue"
    return frozenset(topics_created_again(plan.store, dict(plan.topic_ids), in_ledger, may_lose=may_lose))


def _not_in_ledger(pipeline: Pipeline) -> frozenset[str]:
    """The input topics that were created again since the last batch in the ledger."""
    entry = ledger.last_entry(pipeline.settings.kafka, pipeline.name)
    if entry is None:
        return frozenset()
    before = entry.topics
    return frozenset(name for name, topic in known_inputs(pipeline).items() if before.get(name, topic.id) != topic.id)


def _begin_anew(plan: Plan, topics: Mapping[str, Topic]) -> None:
    from sluice.state.upgrade.state_conversion import begin_topics_anew  # noqa: PLC0415 - see _convert

    begin_topics_anew(plan, topics)


def _convert(pipeline: Pipeline, store: CheckpointStore, topics: Mapping[str, Topic], *, accept: bool) -> None:
    """Converts the checkpoint if the pipeline file has changed, or finishes a conversion that was killed."""
    changed = changed_stage(pipeline, store) is not None and not converted_elsewhere(pipeline, store)
    if changed or CHANGE in store.list(CHANGE):
        from sluice.state.upgrade.state_conversion import convert_if_changed  # noqa: PLC0415 - it imports the engine, which takes 1 s and is rarely needed

        convert_if_changed(pipeline, store, topics, accept=accept)


def _rescaled(plan: Plan, buckets: int, archive: SnapshotArchive | None) -> Plan:
    """The plan with another number of buckets, and its checkpoint at the position of the ledger."""
    rescaled = replace(plan, buckets=buckets)
    LOGGER.info("checkpoint %s: it gets %d buckets in place of %d", plan.checkpoint, buckets, plan.buckets)
    if not _restore(plan, archive, rescaled):  # no batch was ever written, so there is no state
        new = FolderStore(Path(plan.checkpoint, RESTORING), forced=plan.forced)
        checkpoint_identity.write(new, Identity(plan.pipeline.name, plan.fingerprint, buckets, plan.query))
        Path(new.location("buckets")).mkdir()
        put_bytes(new, COMPLETE, b"")
        adopt(Path(plan.checkpoint))
    return rescaled


def _archive(plan: Plan, *, anew: bool) -> SnapshotArchive | None:
    """The store of `state:`, claimed for this checkpoint; None without `state:`.

    A store that cannot be reached does not stop the start: the checkpoint in the folder is enough, if it fits. A store
    that refuses does, because its settings are wrong.
    """
    archive = SnapshotArchive.of(plan)
    if archive is not None:
        for topic in sorted(plan.compacted):
            LOGGER.warning(
                "state %s: topic %s is compacted, or the user lacks the permission DESCRIBE_CONFIGS to see whether it "
                "is; a restore that needs its records is refused",
                archive.location(),
                topic,
            )
        try:
            archive.claim(owner_of(plan), anew=anew)
        except StoreRefusedError as error:
            raise StoreUnavailableError(f"state {error}") from error
        except StoreError as error:
            LOGGER.warning("state %s; the service continues without it while the checkpoint folder exists", error)
    return archive


def _restore(
    plan: Plan, archive: SnapshotArchive | None, into: Plan | None = None, *, mismatch: str = "",
    only_check: bool = False,
) -> bool:  # fmt: skip
    """Restores the checkpoint, with the number of buckets of `into` if that is given. Returns False if the ledger has
    no batch. With `only_check`, only raises RestoreError if that is clearly impossible. `mismatch` is the reason.
    """
    from sluice.state import restore  # noqa: PLC0415 - it imports the engine, which takes 1 s and is rarely needed

    kafka, name = plan.pipeline.settings.kafka, plan.pipeline.name
    position = ledger.read_position(kafka, name, ledger.OPEN if only_check else "read_committed")
    if position is None:
        return False
    if position.query_id != plan.query:
        raise BegunElsewhereError(f"another checkpoint of {name!r} has taken over the ledger meanwhile")
    batch, plans = position.next_batch - 1, ledger.plans(kafka, name, plan.query)
    try:
        if only_check:
            restore.require_restorable(plan, batch, plans, archive)
            return True
        if mismatch:
            LOGGER.warning(RESTORED, plan.checkpoint, mismatch, batch)
        restore.restore(plan, batch, plans, archive, into)
    except restore.RestoreError as error:
        raise (restore.RestoreError(f"{error}. It has to be restored: {mismatch}") if mismatch else error) from error
    except StoreError as error:
        message = (
            f"checkpoint {plan.checkpoint}: it has to be restored, and the store of `state:` cannot be used: {error}"
        )
        raise StoreUnavailableError(message) from error
    return True


def _claimed(pipeline: Pipeline, store: CheckpointStore, position: LedgerPosition | None) -> Identity:
    """The identity of the checkpoint. If it was lost, it is made again from the last entry of the ledger.

    So is one of which no batch was ever written: another instance wrote the first batch, with a checkpoint of its own.
    """
    fingerprint = checkpoint_identity.fingerprint_of(pipeline)
    lost = None
    if position is not None and (_unused(store, position) or converted_elsewhere(pipeline, store)):
        entry = ledger.last_entry(pipeline.settings.kafka, pipeline.name)
    elif position is None and offset_log.batches(store)[0] is None:
        entry = ledger.first_part(pipeline.settings.kafka, pipeline.name, fenced=False)
    else:
        entry = None
    if entry is not None and entry.buckets:
        lost = Identity(pipeline.name, entry.fingerprint, entry.buckets, entry.query_id)
    return checkpoint_identity.claim(
        store, pipeline.name, fingerprint, required_buckets(pipeline), processors(),
        definition=checkpoint_identity.definition_of(pipeline), lost=lost,
    )  # fmt: skip


def converted_elsewhere(pipeline: Pipeline, store: CheckpointStore) -> bool:
    """Whether the checkpoint is an older copy of one that was converted to the changed pipeline file by then."""
    identity, fingerprint = checkpoint_identity.stored(store), checkpoint_identity.fingerprint_of(pipeline)
    if identity is None or identity.pipeline != pipeline.name or identity.fingerprint == fingerprint:
        return False
    entry = ledger.last_entry(pipeline.settings.kafka, pipeline.name)
    return entry is not None and (entry.query_id, entry.fingerprint) == (identity.query, fingerprint)


def _unused(store: CheckpointStore, position: LedgerPosition) -> bool:
    """Whether the folder has no identity, or one that differs from the ledger's and of which no batch was committed."""
    identity = checkpoint_identity.stored(store)
    return identity is None or (identity.query != position.query_id and offset_log.batches(store)[0] is None)


def _committed(plan: Plan, position: LedgerPosition | None) -> int | None:
    """The last committed batch of the checkpoint. Raises CheckpointError if Spark's files are damaged.

    With a ledger the damage does not matter: the files are written again. Nor does it before the first batch.
    """
    committed = offset_log.batches(plan.store)[0]
    if position is None and committed is None:
        offset_log.remove_first_plan_if_damaged(plan.store, with_beginning=not _begins_elsewhere(plan))
    if position is None:
        offset_log.verify(plan.store)
    return committed


def _begins_elsewhere(plan: Plan) -> bool:
    """Whether an input does not begin with its oldest record (`plan_first_batch`)."""
    return plan.pipeline.settings.start == "latest" or any(stream.table for stream in plan.inputs)


def _mismatch(plan: Plan, position: LedgerPosition | None) -> str:
    """What keeps the service from going on with the checkpoint as it is, in words; empty if nothing does."""
    if position is None:
        return ""
    if damage := _damage(plan):
        return damage
    committed, planned = offset_log.batches(plan.store)
    try:
        if ledger.fits(position, committed, planned, digest_of=partial(offset_log.digest, plan.store)):
            folders = () if committed is None else _folders(plan)
            lost = next((folder for folder in folders if not folder.is_dir()), None)
            return "" if lost is None else f"its folder buckets/{lost.name} is missing"
    except SparkFileError as error:
        return error.found
    if ledger.fits(position, committed, planned, digest_of=lambda _: None):
        return f"it planned other records for batch {position.next_batch - 1} than were written"
    return "it has no committed batch" if committed is None else f"its last committed batch is {committed}"


def _damage(plan: Plan) -> str:
    """Which file is damaged or missing, in words; empty if all that a start needs are whole. The files of buckets are
    read only after a batch that could not use them.
    """
    try:
        offset_log.verify(plan.store)
    except SparkFileError as error:
        return error.found
    except CheckpointError as error:
        return str(error)
    return _unreadable(plan) if UNREADABLE in plan.store.list(UNREADABLE) else ""


def _unreadable(plan: Plan) -> str:
    """Which file of a bucket keeps the query from going on, in words; empty if none does. A batch could not read one;
    since then another state server may have replaced it.
    """
    from sluice.state import restore  # noqa: PLC0415 - see _restore

    committed = offset_log.batches(plan.store)[0]
    reason = restore.unreadable(plan, 0 if committed is None else committed + 1)
    if not reason:
        plan.store.delete(UNREADABLE)
    return reason


def _folders(plan: Plan) -> Iterator[Path]:
    """The folders of the buckets, each of which exists after the first batch."""
    return (Path(plan.checkpoint, "buckets", str(number)) for number in range(plan.buckets))


def _reset(plan: Plan) -> None:
    """Overwrites the ledger with the position of the checkpoint."""
    offset_log.verify(plan.store)
    committed, _ = offset_log.batches(plan.store)
    last_plan = offset_log.known(plan.store, committed)
    ledger.reset_parts(plan.pipeline.settings.kafka, plan.pipeline.name, plan.buckets)
    ledger.reset(plan.pipeline.settings.kafka, plan.pipeline.name, plan.query, committed, last_plan)
