"""Compares a pipeline file with the pipeline for which its checkpoint was made, without changing anything.

Each stage of a pipeline has a checkpoint of its own. They are compared together, because a start changes all of them or
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.checkpoint_folder import RESTORING, RETIRED, adopt, placed_stages, store_of
from sluice.checkpoint.checkpoint_identity import (
    DEFINITION,
    FILE,
    CheckpointError,
    Definition,
    Identity,
    definition_of,
    fingerprint_of,
)
from sluice.checkpoint.checkpoint_store import CheckpointStore, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.model.changes.change_table import lines
from sluice.model.changes.definition_reader import pipeline_of
from sluice.model.changes.operator_changes import Change, Changes, StateOutcome, changes_of
from sluice.model.changes.operator_data import has_state
from sluice.model.fingerprint import plain
from sluice.model.spec import Operator, Pipeline, Stream, Union
from sluice.model.spreading import required_buckets, spread_by
from sluice.state.checksummed_blocks import LOGGER


class ChangedFileError(CheckpointError):
    """The pipeline file has changed so that the service cannot go on with the checkpoint, or not without a loss.

    `folder` is that of the checkpoint, if the cause lasts as long as neither the file nor the checkpoint is changed.
    """

    def __init__(self, message: str, folder: Path | None = None) -> None:
        super().__init__(message)
        self._folder, self._files = folder, _owner_files(folder)

    def lasts(self) -> bool:
        return self._folder is not None and _owner_files(self._folder) == self._files


def _owner_files(folder: Path | None) -> dict[Path, tuple[int, int]]:
    """The files of a checkpoint that say of which pipeline and of which stages it is, each with what differs after it
    was written again. A start that goes on with another pipeline file writes them.
    """
    files: dict[Path, tuple[int, int]] = {}
    for part in () if folder is None else (folder, *folder.glob("*/")):
        for name in (FILE, DEFINITION, RETIRED):
            with suppress(FileNotFoundError):
                stat = (part / name).stat()
                files[part / name] = (stat.st_ino, stat.st_mtime_ns)
    return files


@dataclass(frozen=True, slots=True)
class ChangedStage:
    """A stage whose checkpoint was made for another pipeline: that pipeline, and what becomes of each state.

    reformed        the topics of inputs whose records the stage now reads in another form
    created_again   the topics of inputs that were deleted and created again: the stage reads them from their beginnings
    """

    old: Pipeline
    identity: Identity
    changes: Changes
    reformed: frozenset[str] = frozenset()
    created_again: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FormerStage:
    """A stage that has a checkpoint in `folder`, and that the pipeline file does not have any more, or has with another
    folder.

    retired   whether its loss was accepted at an earlier start
    """

    pipeline: Pipeline
    folder: Path
    retired: bool


def changed_stage(stage: Pipeline, store: CheckpointStore) -> ChangedStage | None:
    """Compares a stage with its checkpoint. None if there is none, or if it was made for this very pipeline.

    Raises CheckpointError if the checkpoint belongs to a pipeline of another name, or does not say of which pipeline.
    """
    identity = checkpoint_identity.stored(store)
    if identity is None or identity.pipeline != stage.name or identity.fingerprint == fingerprint_of(stage):
        return None
    definition = checkpoint_identity.definition_in(store)
    if definition is None:
        return None
    old = pipeline_of(definition, stage.settings)
    reformed = _reformed(definition, old, stage)
    of_records = (
        *_of_inputs(stage, reformed), *_of_exchanges(old, stage, reformed), *_of_waiting(old, stage, identity),
    )  # fmt: skip
    return ChangedStage(old, identity, Changes((*of_records, *changes_of(old, stage).all)), reformed)


def compared_stage(stage: Pipeline, store: CheckpointStore) -> ChangedStage | None:
    """Like `changed_stage`. If an operator would be emptied, checks in Kafka whether its inputs can be read again."""
    changed = changed_stage(stage, store)
    if changed is None or changed.changes.refused or not changed.changes.named(StateOutcome.EMPTIED):
        return changed
    from sluice.state.upgrade.input_replay import with_rebuilt  # noqa: PLC0415 - it imports the engine, which takes 1 s

    return replace(changed, changes=with_rebuilt(changed.changes, stage, changed.identity.query, changed.reformed))


def file_changes(pipeline: Pipeline) -> Changes | None:
    """What becomes of the state of each operator of the pipeline file; None if it has no checkpoint.

    Raises CheckpointError if the checkpoint belongs to another pipeline.
    """
    new_stages = {stage.name: stage for stage in placed_stages(pipeline)}
    present = {
        name: present_stage
        for name, stage in new_stages.items()
        if (present_stage := _present_stage(stage)) is not None
    }
    former = _former_stages(pipeline, new_stages)
    return _together(new_stages, present, former) if present or former else None


def _present_stage(stage: Pipeline) -> ChangedStage | None:
    """A stage that has a checkpoint, also if it has not changed; None if it has none."""
    store = store_of(stage)
    if checkpoint_identity.stored(store) is None:
        return None
    stage = checkpoint_identity.in_stored_order(stage, store)
    changed = compared_stage(stage, store)
    if changed is not None:
        return changed
    identity = checkpoint_identity.known(store, stage.name, fingerprint_of(stage), definition_of(stage))
    return ChangedStage(stage, identity, changes_of(stage, stage))


def require_accepted(pipeline: Pipeline, *, accept: bool) -> None:
    """Raises ChangedFileError if the file has changed so that the state of an operator would be lost and that is not
    accepted, or so that the service cannot go on with the checkpoint. Finishes a replacement that was killed.

    The caller has locked the checkpoints of all stages.
    """
    for stage in placed_stages(pipeline):
        adopt(checkpoint_identity.folder_of(stage))
    changes = file_changes(pipeline)
    if changes is None:
        return
    require(changes, pipeline, accept=accept)
    new_stages = {stage.name: stage for stage in placed_stages(pipeline)}
    for stage in new_stages.values():
        store_of(stage).delete(RETIRED)
    for former in _former_stages(pipeline, new_stages).values():
        put_bytes(FolderStore(former.folder), RETIRED, b"")


def require(changes: Changes, pipeline: Pipeline, *, accept: bool) -> None:
    """Raises ChangedFileError unless the service may go on with these changes."""
    if not changes.refused and (accept or not changes.loses):
        return
    LOGGER.warning("what becomes of the state in %s:", pipeline.checkpoint)
    for line in lines(changes):
        LOGGER.warning("%s", line)
    if changes.refused:
        changed = ", ".join(
            f"{change.name}: {change.reason}" for change in changes.all if change.word is StateOutcome.REFUSED
        )
        raise ChangedFileError(
            f"checkpoint {pipeline.checkpoint}: the pipeline file has changed since it was made, and the service "
            f"cannot go on with it ({changed}). Start with the pipeline file that it was made for. Or start anew, with "
            "both --checkpoint ANOTHER_FOLDER and --reset-ledger: outputs of records that are read again are then "
            "written again",
            checkpoint_identity.folder_of(pipeline),
        )
    changed = ", ".join(f"{change.name} {change.word}" for change in changes.all if change.loses)
    raise ChangedFileError(
        f"checkpoint {pipeline.checkpoint}: the pipeline file has changed since it was made, and state would be lost "
        f"({changed}). To go on without this state, start with --accept. Or start with the pipeline file that it was "
        "made for",
        checkpoint_identity.folder_of(pipeline),
    )


#: the fields of a stream on which the bytes of its records depend
CODED = ("schema", "value", "key", "headers", "record_timestamp", "defaults")


def _reformed(definition: Definition, old: Pipeline, new: Pipeline) -> frozenset[str]:
    """The topics that both pipelines read, in different forms. `definition` is the definition of `old`."""
    before = {stream.topic: definition["streams"][stream.name] for stream in old.inputs}
    now = {str(stream.topic): plain(stream) for stream in new.inputs if stream.topic in before}
    return frozenset(
        topic for topic, form in now.items() if any(before[topic].get(field) != form.get(field) for field in CODED)
    )


def _of_inputs(new: Pipeline, reformed: frozenset[str]) -> Iterator[Change]:
    for stream in new.inputs:
        if stream.topic in reformed and not stream.exchange:
            reason = "its records get another form: records that are not read yet must have it, too"
            yield Change(stream.name, StateOutcome.KEPT, reason)


def _of_exchanges(old: Pipeline, new: Pipeline, reformed: frozenset[str]) -> Iterator[Change]:
    """What cannot go on because records that the earlier pipeline wrote wait between two stages."""
    before = [stream.topic for stream in old.inputs if stream.exchange]
    now = [stream.topic for stream in new.inputs if stream.exchange]
    left = ", ".join(sorted(str(topic) for topic in before if topic not in now))
    for stream in new.inputs:
        if stream.exchange and stream.topic in reformed:
            reason = "records of the earlier form may still be in the topic between the two stages"
            yield Change(stream.name, StateOutcome.REFUSED, reason)
        elif stream.exchange and stream.topic not in before and left:
            reason = f"its topic has changed, and records may still be in the topic between the two stages, {left}"
            yield Change(stream.name, StateOutcome.REFUSED, reason)


def _of_waiting(old: Pipeline, new: Pipeline, identity: Identity) -> Iterator[Change]:
    """What cannot go on because records of the earlier form wait for other records."""
    if new.settings.merge == "timestamp" and old.settings.merge == "timestamp":
        inputs = [[_waiting_rows(pipeline, stream) for stream in pipeline.inputs] for pipeline in (old, new)]
        moved = buckets_of(new, identity) != identity.buckets or (
            identity.buckets > 1 and spread_by(old) != spread_by(new)
        )
        if inputs[0] != inputs[1] or moved:
            cause = "the inputs have changed" if inputs[0] != inputs[1] else "tuples go to other buckets"
            reason = f"{cause}, and records wait for those of other topic partitions (merge: timestamp)"
            yield Change("merge", StateOutcome.REFUSED, reason)


def _waiting_rows(pipeline: Pipeline, stream: Stream) -> object:
    """What the rows of an input stream depend on that wait in the reorder buffer: the number of their input and their
    columns.
    """
    return stream.name, stream.topic, stream.row_schema, stream.event_time is None, stream.name in pipeline.keyed


def buckets_of(pipeline: Pipeline, identity: Identity) -> int:
    """The number of buckets that the changed pipeline has."""
    return required_buckets(pipeline) or identity.buckets


def _former_stages(pipeline: Pipeline, new_stages: Mapping[str, Pipeline]) -> dict[str, FormerStage]:
    """The stages that have a checkpoint of this pipeline's, but not where the file has one, by name."""
    folder = checkpoint_identity.folder_of(pipeline)
    folders = {checkpoint_identity.folder_of(stage) for stage in new_stages.values()}
    former = {}
    for path in [folder, *sorted(folder.glob("*/"))]:
        if path in folders or path.name == RESTORING or not (path / FILE).is_file():
            continue
        store = FolderStore(path)
        identity, definition = checkpoint_identity.stored(store), checkpoint_identity.definition_in(store)
        if identity is not None and definition is not None and f"{identity.pipeline}.".startswith(f"{pipeline.name}."):
            stage = pipeline_of(definition, pipeline.settings)
            former[identity.pipeline] = FormerStage(stage, path, (path / RETIRED).exists())
    return former


def _together(
    new_stages: Mapping[str, Pipeline], present: Mapping[str, ChangedStage], former: Mapping[str, FormerStage]
) -> Changes:
    """The changes of all stages, of which some are new and some are gone."""
    before = {
        **{name: gone.old for name, gone in present.items()}, **{name: gone.pipeline for name, gone in former.items()},
    }  # fmt: skip
    kept: list[Change] = []
    for name, stage in new_stages.items():
        kept += present[name].changes.all if name in present else _of_new_stage(stage, before)
    moved = _moved(new_stages, before)
    changes = [*(change for change in kept if change.name not in moved), *moved.values()]
    changed_names = {change.name for change in changes}
    changes += [
        Change(
            operator.name,
            StateOutcome.REMOVED,
            f"the stage {name} is gone",
            loses=has_state(operator) and not stage.retired,
        )
        for name, stage in former.items()
        for operator in _named(stage.pipeline)
        if operator.name not in changed_names
    ]
    return Changes(tuple(changes))


def _moved(new_stages: Mapping[str, Pipeline], before: Mapping[str, Pipeline]) -> dict[str, Change]:
    """The operators that are in another stage than before."""
    owner = {operator.name: name for name, pipeline in before.items() for operator in _named(pipeline)}
    reason = (
        "it was in the stage {} and is in the stage {}, and each stage has its own position in the inputs. Operators "
        "change their stage by `exchange`, by other keys, by their order in the file, and by `buckets: 1`"
    )
    return {
        operator.name: Change(operator.name, StateOutcome.REFUSED, reason.format(owner[operator.name], name))
        for name, stage in new_stages.items()
        for operator in _named(stage)
        if owner.get(operator.name, name) != name
    }


def _of_new_stage(stage: Pipeline, before: Mapping[str, Pipeline]) -> Iterator[Change]:
    """A new stage begins where `start` says. It is refused if it would write the same outputs once more."""
    read = {stream.topic for pipeline in before.values() for stream in pipeline.inputs}
    written = {stream.topic for pipeline in before.values() for stream in pipeline.outputs}
    reads_again = any(stream.topic in read for stream in stage.inputs)
    for operator in _named(stage):
        topics = [stage.streams[output.stream].topic for output in operator.outputs]
        twice = next((topic for topic in topics if reads_again and topic in written), None)
        if twice is None:
            yield Change(
                operator.name, StateOutcome.NEW, "its stage is new, and reads its inputs from where `start` says"
            )
        else:
            reason = f"its stage is new, and would read its inputs and write into the topic {twice} once more"
            yield Change(operator.name, StateOutcome.REFUSED, reason)


def _named(pipeline: Pipeline) -> list[Operator]:
    return [operator for operator in pipeline.operators if not isinstance(operator, Union)]
