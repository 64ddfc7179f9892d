"""Sliding windows whose size changes between two batches give what the oracle gives whose window is resized there.

count(5) becomes count(3)    the newest 3 tuples stay
count(3) becomes count(5)    all tuples stay; the window is full when it has 5
time(s) becomes time(t)      a tuple leaves when it is older than t
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.columns.json_columns import python_values
from sluice.engine.graph_conversion import converted
from sluice.model.changes.operator_changes import Word, changes_of, kept_of
from sluice.replayer.event_file import Cutter, numbered, topic_partitions
from sluice.replayer.player import Player
from sluice.testing import limited, on_stream, pipeline_of
from tests.spec import invariants, oracle
from tests.spec.comparing import Record, differences, with_groups_in_any_order
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.strategies import Case, events, operators

pytestmark = pytest.mark.usefixtures("states_are_checked")


LIMITS = st.sampled_from([CLEANED_EARLY, replace(CLEANED_EARLY, min_block=1, block=2)])
COUNTS = st.tuples(st.integers(1, 6), st.integers(1, 6)).filter(lambda sizes: sizes[0] != sizes[1])
TIMES = st.tuples(*[st.sampled_from(["0.5", "1", "1.5", "2", "7.25"])] * 2).filter(lambda sizes: sizes[0] != sizes[1])


@st.composite
def resized_cases(draw: st.DrawFn, policy: str, sizes: st.SearchStrategy[tuple[Any, Any]]) -> tuple[Case, str, Any]:
    """A case with a sliding window that evicts by this policy, the window after the change, and its size."""
    old, new = draw(sizes)
    case = {"operator": draw(operators()), "input": draw(events())}
    window = case["operator"]["window"]
    trigger = re.findall(r"(?:count|time|delta)\([^)]*\)", window)[1:2] if window.startswith("sliding") else []
    ends = re.findall(r"partitioned|partition\w+\([^)]*\)|tupleCount\([^)]*\)", window)
    before, after = (", ".join(["sliding", f"{policy}({size})", *trigger, *ends]) for size in (old, new))
    case["operator"] |= {"window": before, "aggregate_evicted_partitions": False}
    case["operator"]["output"] = {n: c for n, c in case["operator"]["output"].items() if c != "flushReason()"}
    return case, after, new


def resized_run(case: Case, after: str, cut: int, size: int) -> list[Record]:
    """The engine: the pipeline changes before event `cut`; each batch has `size` events at most."""
    old, new = (limited(pipeline_of({**case, "operator": case["operator"] | {"window": window}}), case["limits"])
                for window in (case["operator"]["window"], after))  # fmt: skip
    placed = list(numbered(map(on_stream, case["input"])))
    counts = topic_partitions(placed, [stream.name for stream in old.inputs])
    players = [Player(one, counts, python_values) for one in (old, new)]
    (word,) = {one.word for one in changes_of(old, new).all}
    assert word in (Word.TRIMMED, Word.FILLING)
    cutter, records, state = Cutter(old.inputs), list[Record](), players[0].graph.initial()
    for part, player in ((placed[:cut], players[0]), (placed[cut:], players[1])):
        if player is players[1]:
            state = converted(players[0].graph, state, player.graph, kept_of(old, new))
            invariants.check_graph_state(state)
        for begin in range(0, len(part), size):
            records += player.feed(state, cutter.batch(part[begin : begin + size]))
            state = player.graph.load(player.graph.save(state))
    return [{key: value for key, value in r.items() if (key, value) != ("stream", "output")} for r in records]


def resized_oracle(case: Case, after: Any, cut: int) -> list[Record]:
    """The oracle, whose windows are resized in place."""
    partitions = 1 + max((event.get("topic_partition", 0) for event in case["input"]), default=0)
    operator = oracle.Operator(case["operator"], partitions)
    found = []
    for number, event in enumerate(case["input"]):
        if number == cut:
            resize(operator.aggregate.window, after)
        found += [{"after": number} | record for record in operator.handle(event)]
    return found


def resize(window: Any, size: Any) -> None:
    if isinstance(window.eviction, oracle.TimeEviction):
        window.eviction.span = oracle.nanoseconds(size)
        return
    window.eviction.size = size
    for p in window.partitions.values():
        p.snapshot = p.snapshot[-size:]
        p.full = len(p.snapshot) == size


@pytest.mark.parametrize(("policy", "sizes"), [("count", COUNTS), ("time", TIMES)])
@given(st.data(), st.integers(0, 40), st.tuples(st.sampled_from([1, 3, 50]), LIMITS))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_a_window_is_resized(policy: str, sizes: Any, data: st.DataObject, cut: int, how: tuple[int, Any]):
    size, limits = how
    case, after, new_size = data.draw(resized_cases(policy, sizes))
    case |= {"limits": limits}
    expected = resized_oracle(case, new_size, min(cut, len(case["input"])))
    found = resized_run(case, after, cut, size)
    assert differences(found, expected, with_groups_in_any_order(case)) == []
