"""The checks of invariants find what is wrong: each of these states is damaged in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sluice.columns.intrusive_list import NIL
from sluice.engine.graph import Clock, Graph, GraphState
from sluice.engine.state_invariants import check_ranges
from sluice.engine.windows.processing_time import CLEAR, EVENT, EVICT, INSERT, LIVE, LOSE
from sluice.model.errors import InvariantError
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.testing import on_stream, pipeline_of
from tests.spec.invariants import EventCounts, check_graph_state

SLIDING = {"window": "sliding, count(3), count(1), partitioned", "partition_by": ["k"], "output": {"all": "Collect(n)"}}
QUEUE = SLIDING | {"window": "sliding, time(9), count(1), partitioned"}
GROUPS = SLIDING | {"group_by": ["g"]}
PANES = {"window": "timeInterval, intervalDuration(2)", "event_time": "n", "output": {"all": "Collect(n)"}}
SORT = {"kind": "sort", "window": "sliding, count(3), partitioned", "partition_by": ["k"], "order_by": [("n", "asc")]}
JOIN = {
    "kind": "join", "left": "sliding, count(3)", "right": "sliding, count(3)", "algorithm": "inner",
    "equality_left": ["k"], "equality_right": ["k"], "output": {"n": "left.n", "m": "right.n"},
}  # fmt: skip


def state_of(operator: dict[str, Any]) -> GraphState:
    """The state after four tuples of two keys, on each port of a join."""
    ports = ("left", "right") if operator.get("kind") == "join" else ("input",)
    rows = [{"k": "ab"[n % 2], "g": "u", "n": n} for n in range(4)]
    events = [{"at": float(n), "port": port, "tuple": row} for n, row in enumerate(rows) for port in ports]
    pipeline = pipeline_of({"operator": operator, "input": events})
    graph = Graph(pipeline, {stream.name: 1 for stream in pipeline.inputs})
    (batch,) = Cutter(pipeline.inputs).batches(numbered(map(on_stream, events)), 100)
    state = graph.initial()
    graph.feed(state, batch.inputs, Clock(0, int(batch.at[-1])))
    return state


def damage(table: str, field: str, row: int, value: int) -> Callable[[Any], None]:
    def of(state: Any) -> None:
        getattr(state, table)[field][row] = value

    return of


def side(of: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda state: of(state.sides[0])


def with_number(state: Any) -> None:
    state.scalars[LIVE] += 1


DAMAGES = [
    (SLIDING, with_number, "sizes add up"),
    (SLIDING, damage("partitions", "size", 0, 1), "sizes add up"),
    (SLIDING, damage("partitions", "preceding", 1, NIL), "lists are linked"),
    (SLIDING, damage("chain", "older", 2, 3), "lists are linked"),
    (SLIDING, damage("chain", "younger", 0, NIL), "sizes add up"),
    (SLIDING, damage("group_records", "size", 0, 1), "sizes add up"),
    (SLIDING, lambda state: state.free.give(np.array([1])), "slots are used once"),
    (QUEUE, damage("queue", "partition", 0, NIL), "sizes add up"),
    (GROUPS, damage("ends", "oldest", 0, NIL), "lists are linked"),
    (PANES, damage("nodes", "time", 1, -1), "held in order"),
    (PANES, damage("partitions", "size", 0, 3), "sizes add up"),
    (PANES, lambda state: state.node_blocks.fill(0), "sizes add up"),
    (SORT, with_number, "sizes add up"),
    (JOIN, side(damage("buckets", "count", 0, 3)), "sizes add up"),
    (JOIN, side(damage("stored_tuples", "older", 4, NIL)), "lists are linked"),
]


@pytest.mark.parametrize(("operator", "damaged", "name"), DAMAGES)
def test_damage_is_found(operator: dict[str, Any], damaged: Callable[[Any], None], name: str):
    state = state_of(operator)
    check_graph_state(state)
    damaged(state.operators[0])
    with pytest.raises(InvariantError, match=name):
        check_graph_state(state)


@pytest.mark.parametrize(
    "events",
    [
        [(9, 0, INSERT), (9, 0, INSERT)],
        [(0, 0, EVICT), (0, 0, EVICT)],
        [(0, 0, EVICT), (2, 0, EVICT), (9, 0, EVICT)],
        [(0, 0, LOSE), (0, 0, CLEAR)],
        [(0, 0, CLEAR), (0, 0, EVICT)],
    ],
)
def test_events_that_do_not_match_are_found(events: list[tuple[int, int, int]]):
    """Key a has the tuples in the slots 0 and 2."""
    counts = EventCounts(state_of(SLIDING).operators[0])
    with pytest.raises(AssertionError):
        counts.check(np.array(events, EVENT))


OPTIONAL = SORT | {"schema": {"k": "string", "g": "string", "n": "int64?"}}


@pytest.mark.parametrize("operator", [OPTIONAL, SLIDING | {"schema": OPTIONAL["schema"]}])
def test_a_word_of_presence_that_is_neither_is_found(operator: dict[str, Any]):
    state = state_of(operator).operators[0]
    check_ranges([state])
    table = next(name for name, table in state.declared.items() if table.flags)
    getattr(state, table)[0, state.declared[table].flags[0]] = 2
    with pytest.raises(InvariantError, match="present or null"):
        check_ranges([state])
