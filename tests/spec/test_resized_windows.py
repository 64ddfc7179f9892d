"""Sliding windows whose size changes between two batches give what the oracle gives whose window is resized there.

count(5) becomes count(3)    the newest 3 tuples stay
count(3) becomes count(5)    all tuples stay; the window is full when it has 5
time(s) becomes time(t)      a tuple leaves when it is older than t
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.engine.graph_conversion import converted
from sluice.model.changes.operator_changes import StateOutcome, changes_of, kept_of
from sluice.model.engine_limits import EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.replayer.player import Player
from sluice.testing import limited, on_stream, pipeline_of
from tests.spec import invariants, join_oracle, oracle
from tests.spec.comparing import Record, differences, with_groups_in_any_order
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.join_strategies import join_events, joins, sorts
from tests.spec.strategies import Case, events, narrowed, operators
from tests.spec.test_joins_against_oracle import by_stream

pytestmark = pytest.mark.usefixtures("states_are_checked")


LIMITS = st.sampled_from([CLEANED_EARLY, replace(CLEANED_EARLY, min_block=1, block=2)])
COUNTS = st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda sizes: sizes[0] != sizes[1])
TIMES = st.tuples(*[st.sampled_from(["0.5", "1", "1.5", "2", "7.25"])] * 2).filter(lambda sizes: sizes[0] != sizes[1])


#: what a window clause may have behind its policies
ENDS = r"partitioned|partition\w+\([^)]*\)|tupleCount\([^)]*\)"


@dataclass(frozen=True)
class Resized:
    """A case, the key of its operator that has the window, and the window and its size after the change."""

    case: Case
    key: str
    after: str
    size: Any


def windows(clause: str, policy: str, sizes: tuple[Any, Any], *triggers: str) -> list[str]:
    """Sliding windows of both sizes, with the ends of this clause."""
    return [", ".join(["sliding", f"{policy}({size})", *triggers, *re.findall(ENDS, clause)]) for size in sizes]


@st.composite
def aggregates(draw: st.DrawFn, policy: str, sizes: st.SearchStrategy[tuple[Any, Any]]) -> Resized:
    of, operator = draw(sizes), draw(operators())
    window = operator["window"]
    triggers = re.findall(r"(?:count|time|delta)\([^)]*\)", window)[1:2] if window.startswith("sliding") else []
    before, after = windows(window, policy, of, *triggers)
    operator |= {"window": before, "aggregate_evicted_partitions": False}
    operator["output"] = {n: c for n, c in operator["output"].items() if c != "flushReason()"}
    operator = narrowed(operator)
    given_events = draw(events(operator["schema"].keys()))
    return Resized({"operator": operator, "input": given_events}, "window", after, of[1])


@st.composite
def larger_sorts(draw: st.DrawFn) -> Resized:
    """A sort does not become smaller: it emits one tuple with each arrival."""
    of, operator = sorted(draw(COUNTS)), draw(sorts())
    before, after = windows(operator["window"], "count", of)
    given_events = draw(events(operator["schema"].keys()))
    case = {"operator": operator | {"window": before, "limit": None}, "input": given_events}
    return Resized(case, "window", after, of[1])


@st.composite
def joins_with_a_resized_side(draw: st.DrawFn, policy: str) -> Resized:
    """A side that evicts by count does not become smaller, because it evicts one tuple with each arrival."""
    of = sorted(draw(COUNTS)) if policy == "count" else draw(TIMES)
    operator, side = draw(joins()), draw(st.sampled_from(["left", "right"]))
    before, after = windows(operator[side], policy, of)
    return Resized({"operator": operator | {side: before}, "input": draw(join_events())}, side, after, of[1])


def resized_run(of: Resized, cut: int, size: int, limits: EngineLimits) -> list[Record]:
    """The engine: the pipeline changes before event `cut`; each batch has `size` events at most."""
    case, operator = of.case, of.case["operator"]
    old, new = (
        limited(pipeline_of({**case, "operator": one}), limits) for one in (operator, operator | {of.key: of.after})
    )
    placed = list(numbered(map(on_stream, case["input"])))
    counts = topic_partitions(placed, [stream.name for stream in old.inputs])
    players = [Player(one, counts, python_values) for one in (old, new)]
    (word,) = {one.word for one in changes_of(old, new).all}
    assert word in (StateOutcome.TRIMMED, StateOutcome.FILLING)
    cutter, records, state = Cutter(old.inputs), list[Record](), players[0].graph.initial()
    for part, player in ((placed[:cut], players[0]), (placed[cut:], players[1])):
        if player is players[1]:
            state = converted(players[0].graph, state, player.graph, kept_of(old, new))
            invariants.check_graph_state(state)
        for begin in range(0, len(part), size):
            records += player.feed(state, cutter.batch(part[begin : begin + size]))
            state = player.graph.load(player.graph.save(state))
    return records


def resized_oracle(of: Resized, cut: int) -> list[Record]:
    """The oracle, whose windows are resized in place."""
    case, found = of.case, []
    operator = oracle_of(case)
    for number, event in enumerate(case["input"]):
        if number == cut:
            resize(operator, of)
        found += [{"after": number} | record for record in operator.handle(event)]
    return found


def oracle_of(case: Case) -> Any:
    operator, partitions = case["operator"], dict[str, int]()
    for event in case["input"]:
        port = event.get("port", "input")
        partitions[port] = max(partitions.get(port, 1), event.get("topic_partition", 0) + 1)
    if operator.get("kind") == "join":
        return join_oracle.Join(operator, dict.fromkeys(join_oracle.OTHER, 1) | {
            port: count for port, count in partitions.items() if port in join_oracle.OTHER
        })  # fmt: skip
    kind = join_oracle.SortOperator if operator.get("kind") == "sort" else oracle.Operator
    return kind(operator, partitions.get("input", 1))


def resize(operator: Any, of: Resized) -> None:
    if isinstance(operator, join_oracle.Join):
        side = operator.sides[of.key]
        side.size = oracle.nanoseconds(of.size) if side.policy == "time" else of.size
        return
    window = operator.aggregate.window
    if isinstance(window, join_oracle.Progressive):
        window.size = of.size
        return
    if isinstance(window.eviction, oracle.TimeEviction):
        window.eviction.span = oracle.nanoseconds(of.size)
        return
    window.eviction.size = of.size
    for p in window.partitions.values():
        p.snapshot = p.snapshot[-of.size :]
        p.full = len(p.snapshot) == of.size


RESIZED = {
    "aggregate by count": aggregates("count", COUNTS),
    "aggregate by time": aggregates("time", TIMES),
    "sort": larger_sorts(),
    "join by count": joins_with_a_resized_side("count"),
    "join by time": joins_with_a_resized_side("time"),
}


@pytest.mark.parametrize("kind", RESIZED)
@given(st.data(), st.integers(0, 40), st.sampled_from([1, 3, 50]), LIMITS)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_a_window_is_resized(kind: str, data: st.DataObject, cut: int, size: int, limits: EngineLimits):
    of = data.draw(RESIZED[kind])
    expected = by_stream(resized_oracle(of, min(cut, len(of.case["input"]))))
    found = by_stream(resized_run(of, cut, size, limits))
    case = with_groups_in_any_order(of.case) if kind.startswith("aggregate") else of.case
    for stream in found.keys() | expected.keys():
        assert differences(found.get(stream, []), expected.get(stream, []), case) == [], stream
