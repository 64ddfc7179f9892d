"""What is wrong after a schedule: compared with a calculation over lists, and with a state that had no faults."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from sluice.batch.inputs_again import inputs_again
from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity, offset_log
from sluice.checkpoint.checkpoint_folder import store_of
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Planned
from sluice.state.bucket import Bucket
from sluice.state.restore import unreadable
from tests.chaos.simulation import workload

if TYPE_CHECKING:
    from tests.chaos.simulation.schedule import Simulation
    from tests.chaos.simulation.simulated_broker import Record

MARK = "sluice-mark"
#: differences that are shown
SHOWN = 3


def violations(simulation: Simulation) -> list[str]:
    """In a task of the world, when all services have ended."""
    found = [*_outputs(simulation), *_ledger(simulation), *repetitions(simulation)]
    return found or ([*_states(simulation)] if simulation.setting.states else [])


def _committed(simulation: Simulation, topic: str) -> Iterator[tuple[int, Record]]:
    for (name, number), partition in simulation.kafka.partitions.items():
        if name == topic:
            for _, record in partition.visible(0, committed=True)[0]:
                yield number, record


def _seen(simulation: Simulation) -> workload.Outputs:
    seen: workload.Outputs = defaultdict(list)
    for stream in simulation.setting.operators:
        for _, record in _committed(simulation, stream):
            marks = [value for name, value in record.headers or () if name == MARK]
            value = json.loads(record.value or b"null")
            key = value["k"] if value else (record.key or b"").decode()
            if value:
                seen[stream, key].append(value)
            seen[stream, key] += [mark.decode() for mark in marks]
    for _, record in _committed(simulation, "dead"):
        seen["dead", ""].append(record.value)
    return seen


def _outputs(simulation: Simulation) -> Iterator[str]:
    seen, wanted = _seen(simulation), workload.expected(simulation.load.sent, simulation.setting.operators)
    seen["dead", ""].sort()
    wanted["dead", ""].sort()
    if "grow outputs" in simulation.happened:  # a key has moved to another topic partition
        for rows in [*seen.values(), *wanted.values()]:
            rows.sort(key=str)
    wrong = [place for place in sorted(seen.keys() | wanted.keys()) if seen[place] != wanted[place]]
    for stream, key in wrong[:SHOWN]:
        yield f"{stream} {key}: {_difference(seen[stream, key], wanted[stream, key])}"


def _difference(got: list[Any], want: list[Any]) -> str:
    pairs = enumerate(zip_longest(got, want))
    at = next(number for number, (one, other) in pairs if one != other)
    found, right = got[at : at + 2], want[at : at + 2]
    return f"{len(got)} outputs, {len(want)} expected; from the number {at} on: {found} in place of {right}"


def _ledger(simulation: Simulation) -> Iterator[str]:
    entries: dict[bytes, list[Entry]] = defaultdict(list)
    for _, record in _committed(simulation, ledger.TOPIC):
        if record.value and record.key and (record.key == b"sim" or record.key.count(b"/") == 1):
            entries[record.key].append(Entry.from_json(record.value))
    closed = entries.pop(b"sim", [])
    if [one.batch for one in closed] != list(range(len(closed))):
        yield f"the ledger has the batches {[one.batch for one in closed]}"
    for name, parts in entries.items():
        numbers = [one.batch for one in parts]
        if numbers != sorted(set(numbers)):
            yield f"the ledger of {name.decode()} has the parts {numbers}"
    yield from _offsets_that_go_back(closed)
    yield from _wrong_counts(simulation, closed)


def repetitions(simulation: Simulation) -> Iterator[str]:
    """Whether each transaction of a batch was to write the same records and timestamps, as far as it came."""
    if {"change buckets", "grow outputs"} & {*simulation.happened}:  # other orders, and other topic partitions
        return
    for (name, batch, digest), attempts in simulation.kafka.attempts.items():
        for place in {place for one in attempts for place in one if digest and place[0] != ledger.TOPIC}:
            records = sorted((one.get(place, []) for one in attempts), key=len)
            if wrong := [one for one in records if one != records[-1][: len(one)]]:
                yield f"batch {batch} of {name} is not the same each time in {place}: {wrong[0]}, {records[-1]}"


def _offsets_that_go_back(closed: list[Entry]) -> Iterator[str]:
    plans = [one.planned for one in closed if one.planned]
    for before, now in pairwise(plans):
        if any(now.offsets.get(place, 0) < offset for place, offset in before.offsets.items()):
            yield f"the offsets go back from {before.offsets} to {now.offsets}"


def _wrong_counts(simulation: Simulation, closed: list[Entry]) -> Iterator[str]:
    """Whether the tuples that the ledger counts are those that are visible."""
    for stream in simulation.setting.operators:
        counted = sum(one.report.written.get(stream, {}).get("tuple", 0) for one in closed)
        written = sum(1 for _, record in _committed(simulation, stream) if record.value)
        if counted != written:
            yield f"the ledger counts {counted} tuples of {stream}, {written} are visible"


def _states(simulation: Simulation) -> Iterator[str]:
    """The state that the checkpoint leads to, compared with one that was computed from all input without a fault."""
    if "change buckets" in simulation.happened:  # states that were divided have another order of rows
        return
    for partition in simulation.kafka.partitions.values():
        partition.start = 0
    for instance in [simulation.instances[simulation.active]]:
        pipeline = instance.pipeline
        store = store_of(pipeline)
        identity = checkpoint_identity.stored(store)
        if identity is None:
            return
        plan = Plan.of(pipeline, identity, workload.topics(), "check")
        committed = max(offset_log.batches_in(plan.store, offset_log.COMMITTED), default=None)
        if committed is None:
            return
        yield from _differing(simulation, plan, committed)


def _plans(simulation: Simulation, plan: Plan) -> dict[int, Planned]:
    """The plans of all batches, also the plans that the product has removed from the ledger."""
    before = ledger.plan_key(plan.pipeline.name, plan.query, 0)[:-1]
    keyed = [(record.key or b"", record.value) for _, record in _committed(simulation, ledger.TOPIC)]
    return {
        int(key.removeprefix(before)): Planned.of_fields(json.loads(value))
        for key, value in keyed
        if value and key.startswith(before)
    }


def _differing(simulation: Simulation, plan: Plan, committed: int) -> Iterator[str]:
    known = _plans(simulation, plan)
    past = list(inputs_again(plan, known[-1], [known[number] for number in range(committed + 1)]))
    if found := unreadable(plan, committed + 1):
        if "flip log" not in simulation.happened:
            yield f"the state after batch {committed} cannot be read: {found}"
        return
    for number in range(plan.buckets):
        reference = Bucket(replace(plan, checkpoint="/reference"), number)
        for one in past:
            reference.repeat(one)
        bucket = Bucket(plan, number)
        state: Any = bucket.at(committed + 1)
        if bucket.graph.save(state) != reference.graph.save(reference.content()[0]):
            yield f"the state of bucket {number} after batch {committed} is not that without faults"
