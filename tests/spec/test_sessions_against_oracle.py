"""Sessions are what the oracle says, however the events are cut into batches and the keys into states."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from sluice.columns.json_columns import python_values
from sluice.engine.operators.session.session_state import SessionState
from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.replayer.player import Player
from sluice.testing import limited, on_stream, pipeline_of, run_case
from tests.spec import session_oracle
from tests.spec.comparing import differences, with_groups_in_any_order
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut, dead_letters
from tests.spec.session_strategies import cases
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    expected, dropped = session_oracle.run(case)
    check_every_cut(case, expected, *cuts)
    assert sorted(dead_letters(case)) == dropped


@pytest.mark.parametrize("listed", [LIMITS.listed, 4], ids=["whole", "in parts"])
@given(cases, cuts)
@settings(max_examples=38, derandomize=True)
def test_random_sessions_and_events(listed: int, case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check(case, [1] * len(case["input"]), batches, limits=replace(CLEANED_EARLY, listed=listed))


# ---- keys that move from state to state ------------------------------------------------------------------------------


def part_of_key(key: bytes) -> int:
    return sum(key) % 3


def run_apart(case: Case) -> list[dict[str, Any]]:
    """As `run_case`; before each event the state is split into three, and these are merged in another order."""
    pipeline = limited(pipeline_of(case), CLEANED_EARLY)
    events = list(numbered(map(on_stream, case["input"])))
    player = Player(pipeline, topic_partitions(events, ["input"]), python_values)
    state, cutter = player.graph.initial(), Cutter(pipeline.inputs)
    records: list[dict[str, Any]] = []
    for event in events:
        records += player.feed(state, cutter.batch([event]))
        (own,) = state.operators
        assert isinstance(own, SessionState)
        first, *others = own.split(3, part_of_key)
        state.operators = [others[1].merge([first, others[0]])]
    records = [record for record in records if "dead_letter" not in record]
    return [{key: value for key, value in r.items() if (key, value) != ("stream", "output")} for r in records]


@given(cases)
@settings(max_examples=42, derandomize=True)
def test_states_that_are_split_and_merged(case: Case):
    assert differences(run_apart(case), run_case(case), with_groups_in_any_order(case)) == []


@given(cases, divisions())
@settings(max_examples=40, derandomize=True)
def test_parts_of_a_pipeline_that_go_on_apart(case: Case, division: Division):
    check_case(case, division)


def test_each_part_of_a_split_state_goes_on_alone():
    """The keys of one part give what they give together with the others."""
    case = many(event_time=True, keys=9, group_by=["g"], emit="final")
    pipeline = pipeline_of(case)
    events = list(numbered(map(on_stream, case["input"])))
    player, cutter = Player(pipeline, topic_partitions(events, ["input"]), python_values), Cutter(pipeline.inputs)
    state = player.graph.initial()
    found = list(player.feed(state, cutter.batch(events[:300])))
    (own,) = state.operators
    assert isinstance(own, SessionState)
    saved = player.graph.save(state)
    for part, some in enumerate(own.split(3, part_of_key)):
        state = player.graph.load(saved)
        state.operators = [some]
        rest = [
            event
            for event in events[300:]
            if "tuple" not in event[1] or sum(event[1]["tuple"]["k"].encode()) % 3 == part
        ]
        found += player.feed(state, Cutter(pipeline.inputs).batch(rest))
    whole = run_case(case)
    assert sorted(map(repr, of_key(found))) == sorted(map(repr, of_key(whole)))


def of_key(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record["tuple"] for record in records if "tuple" in record]


# ---- many sessions ---------------------------------------------------------------------------------------------------


def many(*, event_time: bool, keys: int, group_by: list[str], emit: str, gap: str = "3.0") -> Case:
    """Keys with many open sessions, some of which late tuples join."""
    choose, events = random.Random(5), []
    for n in range(450):
        time = 500 * n
        late = choose.randrange(40_000) if event_time and choose.random() < 0.4 else 0
        values = {"k": f"key {choose.randrange(keys)}", "g": choose.randrange(3), "x": n, "t": max(time - late, 0)}
        events.append({"at": time / 1000, "tuple": values})
        if n % 7 == 6:
            events.append({"at": time / 1000, "watermark": max(time - 30_000, 0) / 1000})
    grace = ", grace(20.0)" if event_time else ""
    operator: dict[str, Any] = {
        "kind": "aggregate", "window": f"session, inactivityGap({gap}){grace}", "partition_by": ["k"],
        "group_by": group_by, "aggregate_incomplete_windows": False, "emit": emit,
        "schema": {"k": "string", "g": "int64", "x": "int64", "t": "int64"},
        "output": {
            "k": "Last(k)", "from": "sessionStart()", "to": "sessionEnd()", "n": "Count()", "sum": "Sum(x)",
            "first": "First(x)", "most": "ArgMax(x, k)", "all": "Collect(x)",
        },
    }  # fmt: skip
    if event_time:
        return {"operator": operator | {"event_time": "t", "event_time_resolution": "Milliseconds"}, "input": events}
    return {"operator": operator, "input": [event for event in events if "tuple" in event]}


@pytest.mark.parametrize("emit", ["final", "updates"])
@pytest.mark.parametrize("group_by", [[], ["g"]])
@pytest.mark.parametrize(("event_time", "keys"), [(True, 1), (True, 12), (False, 12)])
def test_many_sessions(event_time: bool, keys: int, group_by: list[str], emit: str):  # noqa: FBT001
    check(many(event_time=event_time, keys=keys, group_by=group_by, emit=emit), [150] * 3, [1] * 60)
