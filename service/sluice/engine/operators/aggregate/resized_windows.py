"""Puts the tuples of sliding count windows into windows of another size.

The tables of such a window depend on its size: a ring has as many places, a block as many tuples. So the stored tuples
enter empty windows again, oldest first. A smaller window keeps the newest of them. A larger one keeps all, and is not
full until as many tuples as it may hold have come. Counters and references of triggers, which outlive the tuples, are
copied.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from sluice.columns.state_tables import walked
from sluice.engine.contents import ring, window_inspection
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows.policies import NOTHING
from sluice.engine.windows.processing_time import ARRIVAL, FIRST, NUMBER, TICK
from sluice.engine.windows.processing_time.window_records import GROUP

#: the fields of a partition that outlive its tuples (S7)
KEPT_FIELDS = ("counter", "reference", "referenced")


class Resizable(Protocol):
    """The members of an aggregate that the conversion of its windows uses."""

    program: Program
    timer: Any

    def initial(self) -> AggregateState:
        """A state without tuples."""

    def admit(self, state: AggregateState, partition: np.ndarray, group: np.ndarray) -> np.ndarray:
        """The slots for tuples of these window partitions and groups."""

    def run_windows(self, state: AggregateState, arrivals: np.ndarray, now: int) -> Any:  # noqa: ANN401
        """Handles the arrivals."""


def resized(operator: Resizable, state: AggregateState, now: int) -> AggregateState:
    """The state of `operator` with the tuples of `state`, that of the same operator with a window of another size.

    `now` is the operator clock, at which all of them arrive. `state` must not be used afterwards.
    """
    target = operator.initial()
    target.keys, target.groups, target.pairs, target.strings = state.keys, state.groups, state.pairs, state.strings
    target.kept_keys, target.kept_strings, target.finished = state.kept_keys, state.kept_strings, state.finished
    order, _ = walked(state.scalars[[FIRST]], state.partitions["following"])
    slots = [places(state, p) for p in order.tolist()]
    partition = np.repeat(order, [len(of_partition) for of_partition in slots])
    _enter(operator, target, state, np.concatenate([np.zeros(0, np.int64), *slots]), partition, now)
    count = min(len(state.partitions), len(target.partitions))
    for name in KEPT_FIELDS:
        target.partitions[name][:count] = state.partitions[name][:count]
    if len(state.ages):
        target.ages[:count] = state.ages[:count]
    for number in (TICK, GROUP, NUMBER):
        target.scalars[number] = state.scalars[number]
    return target


def places(state: AggregateState, p: int) -> np.ndarray:
    """The places of the tuples of partition `p` in `state.tuples`, oldest first."""
    if state.ring:
        return ring.places(state.rings, p, state.ring)
    ends, links = (state.group_records[p], state.links) if state.packed else (state.partitions[p], state.chain)
    return window_inspection.chained(ends, links, state.block)


def _enter(
    operator: Resizable, target: AggregateState, state: AggregateState, stored: np.ndarray,
    partition: np.ndarray, now: int,
) -> None:  # fmt: skip
    """Inserts the tuples at these places of `state.tuples` into the empty windows of `target`, without a firing."""
    words = state.tuples.take(stored, axis=0)
    group = state.group_of[stored] if operator.program.group_by else partition
    slots = operator.admit(target, partition, group)
    target.words[slots if operator.program.by_slot else slice(len(stored)), : words.shape[1]] = words
    arrivals = np.zeros(len(stored), ARRIVAL)
    arrivals["at"], arrivals["event"], arrivals["kind"] = now, np.arange(len(stored)), TUPLE
    arrivals["slot"], arrivals["partition"] = slots, partition
    silent = copy(operator)
    clause = operator.program.clause._replace(trigger=NOTHING, period=0)
    silent.program, silent.timer = replace(operator.program, clause=clause), None
    silent.run_windows(target, arrivals, now)
