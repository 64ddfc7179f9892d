"""Rebuilds the states of changed operators from the input topics, as far back as Kafka and the ledger reach.

The batches that the earlier pipeline has read are read again, and the changed pipeline computes its states from them.
Its outputs go nowhere. The states of the rebuilt operators are those of operators that were there from the beginning
and got no tuple before the first of these batches.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sluice.batch.commit import PLANS_KEPT
from sluice.batch.inputs_again import PastInput, inputs_again
from sluice.batch.query_plan import Plan
from sluice.engine.graph import GraphState
from sluice.kafka import ledger, topics
from sluice.kafka.batch_report import Planned
from sluice.kafka.range_reader import beginnings
from sluice.kafka.requests import clients
from sluice.model.changes.operator_changes import Change, Changes, StateOutcome
from sluice.model.changes.operator_data import input_topics
from sluice.model.kafka_properties import require_servers
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.state.bucket import Bucket
from sluice.time_units import SECOND, UNSET

#: when the ledger begins anew, for messages
BEGINS_ANEW = "as it does at each change of the file and with --reset-ledger"


@dataclass(frozen=True, slots=True)
class InputReplay:
    """The batches that can be read again.

    first   the first of them
    batch   the last batch in the ledger
    plans   their plans, and the plan of the batch before them
    limit   why no earlier batches can be read again, for messages; empty if there are none
    """

    first: int
    batch: int
    plans: Mapping[int, Planned]
    limit: str = ""

    @property
    def complete(self) -> bool:
        """Whether it begins with the first record."""
        return self.first == 0

    @property
    def topics(self) -> set[str]:
        """The topics that the batches have read, and that the changed pipeline reads."""
        return {topic for topic, _ in self.plans[self.batch].offsets}

    @property
    def since(self) -> str:
        """When it begins, for messages."""
        return "the first record" if self.complete else _moment(self.plans[self.first - 1], self.first)


def _moment(before: Planned, batch: int) -> str:
    """When a batch began: when the one before it was planned."""
    return f"{datetime.fromtimestamp(before.time / SECOND, UTC):%Y-%m-%dT%H:%M:%SZ} (batch {batch})"


def input_replay(stage: Pipeline, query: str) -> InputReplay | None:
    """What can be read again for a query; None if nothing can. Raises ServersError if the stage names no broker."""
    replay = _searched(stage, query)
    return None if isinstance(replay, str) else replay


def _searched(stage: Pipeline, query: str) -> InputReplay | str:
    """What can be read again for a query, or why nothing can."""
    kafka, name = stage.settings.kafka, stage.name
    require_servers(kafka, f"pipeline {name}")
    position = ledger.read_position(kafka, name, ledger.OPEN)
    batch, input_topics = -1 if position is None else position.next_batch - 1, topics.known_inputs(stage)
    # `delivery: at_least_once` may leave the plan of a later batch, which runs again after the change
    plans = {n: _only(plan, input_topics) for n, plan in ledger.plans(kafka, name, query).items() if n <= batch}
    if batch not in plans:
        return "the ledger has no plan of the last batch"
    topic_partitions = list(plans[batch].offsets)
    if not topic_partitions:
        return "the earlier file did not read them"
    if compacted := sorted({topic for topic, _ in topic_partitions if input_topics[topic].compacted}):
        return f"Kafka compacts {', '.join(compacted)}, or the user lacks the permission DESCRIBE_CONFIGS to see that"
    with clients(kafka, "admin") as requests:
        oldest = beginnings(requests, topic_partitions)
    first = batch + 1
    while first - 2 in plans and all(
        plans[first - 2].offsets.get(place, 0) >= oldest[place] for place in topic_partitions
    ):
        first -= 1
    if first > batch:
        return _nothing_left(stage, plans, batch)
    return InputReplay(first, batch, plans, "" if first == 0 else _limit(stage, plans, first))


def _nothing_left(stage: Pipeline, plans: Mapping[int, Planned], batch: int) -> str:
    if batch - 1 not in plans and stage.settings.state is None:
        since = _moment(plans[batch], batch)
        return f"no batch has read records since {since}, when the ledger began anew, {BEGINS_ANEW}"
    return _limit(stage, plans, batch + 1)


def _limit(stage: Pipeline, plans: Mapping[int, Planned], first: int) -> str:
    """Why the batches before `first` cannot be read again."""
    if first - 2 in plans:
        return "Kafka has deleted records of earlier batches"
    if stage.settings.state is not None:
        return (
            "the ledger has no plans of earlier batches: it keeps those since the last change of the file and, with "
            "`state:`, since a snapshot in the store"
        )
    if max(plans) - min(plans) + 1 >= PLANS_KEPT:
        return f"the ledger keeps the plans of the newest {PLANS_KEPT:,} batches only"
    return f"the ledger began anew then, {BEGINS_ANEW}, and a rebuild cannot go back beyond that"


def _only(plan: Planned, topics: Container[str]) -> Planned:
    """The plan without topics that the changed pipeline does not read."""
    return plan._replace(offsets={place: offset for place, offset in plan.offsets.items() if place[0] in topics})


def with_rebuilt(changes: Changes, stage: Pipeline, query: str, reformed: AbstractSet[str] = frozenset()) -> Changes:
    """The changes, in which operators that would be emptied and whose inputs can be read again are rebuilt.

    reformed   the topics whose records the stage now reads in another form. Not all records in the earlier form can be
               read again
    """
    emptied = [operator for operator in stage.operators if operator.name in changes.named(StateOutcome.EMPTIED)]
    if not emptied:
        return changes
    replay = _searched(stage, query)
    topics_of = {operator.name: input_topics(stage, operator) for operator in emptied}

    def decided(change: Change) -> Change:
        if change.name not in topics_of:
            return change
        if isinstance(replay, str):
            return _emptied(change, replay)
        topics = topics_of[change.name]
        if new := sorted(topics - replay.topics):
            return _emptied(change, f"the earlier file did not read {', '.join(new)}")
        return _rebuilt(change, replay, topics & reformed)

    return Changes(tuple(map(decided, changes.all)))


def _emptied(change: Change, why: str) -> Change:
    return replace(change, reason=f"{change.reason}; its inputs cannot be read again: {why}")


def _rebuilt(change: Change, replay: InputReplay, reformed: AbstractSet[str]) -> Change:
    reason = f"{change.reason}; its inputs are read again since {replay.since}"
    if replay.limit:
        reason += f". Tuples of earlier records are missing: {replay.limit}"
    if reformed:
        reason += f", and records of {', '.join(sorted(reformed))} that do not have the new form are missing"
    return replace(change, word=StateOutcome.REBUILT, reason=reason, loses=not replay.complete or bool(reformed))


def rebuild(
    plan: Plan, names: frozenset[str], states: Sequence[GraphState], replay: InputReplay, old: Pipeline
) -> None:
    """Gives the operators with these names in the states of all buckets of `plan` the states that follow from the
    inputs. One batch must fit into memory. `old` is the earlier pipeline.
    """
    plan = _with_earlier_watermarks(plan, old)
    buckets = [Bucket(plan, number) for number in range(plan.buckets)]
    past_plans = [replay.plans[number] for number in range(replay.first, replay.batch + 1)]
    for past in inputs_again(plan, replay.plans[replay.first - 1], past_plans):
        for bucket, state in zip(buckets, states, strict=True):
            _start_clock(bucket, past, state.origin)
            bucket.repeat(past)
    for bucket, state in zip(buckets, states, strict=True):
        _take(bucket, names, state)


def _with_earlier_watermarks(plan: Plan, old: Pipeline) -> Plan:
    """The plan with the watermarks of its inputs as the earlier pipeline has computed them.

    An operator that is kept has fired by these watermarks. An operator behind it gets each of its results once, before
    the change or after it, only if the rebuild counts those as given for which these watermarks have come.
    """
    before = {stream.topic: stream.event_time for stream in old.inputs}
    streams = dict(plan.pipeline.streams)
    for stream in plan.pipeline.inputs:
        now, earlier = stream.event_time, before.get(stream.topic)
        if now and earlier and (now.attribute, now.tick) == (earlier.attribute, earlier.tick):
            streams[stream.name] = replace(stream, event_time=earlier)
    pipeline = replace(plan.pipeline, streams=streams)
    # with other settings the tuples may belong to other buckets than their states
    same_buckets = plan.buckets == 1 or spread_by(pipeline) == spread_by(plan.pipeline)
    return replace(plan, pipeline=pipeline) if same_buckets else plan


def _start_clock(bucket: Bucket, past: PastInput, origin: int) -> None:
    """Lets the operator clock of a state without one begin with this input, and its timers count from `origin`."""
    state, _ = bucket.content()
    first = next(bucket.parts(past), None) if state.origin == UNSET else None
    if first is not None:
        state.origin, state.now = origin, first.clock.start


def _take(bucket: Bucket, names: frozenset[str], into: GraphState) -> None:
    state, _ = bucket.content()
    graph = bucket.graph
    for index, operator in enumerate(graph.operators):
        if operator.spec.name not in names:
            continue
        into.operators[index] = state.operators[index]
        for output in operator.spec.outputs:
            if output.stream in state.progress:
                into.progress[output.stream] = state.progress[output.stream]
    for stream, progress in state.progress.items():  # of an input with another event time
        into.progress.setdefault(stream, progress)
