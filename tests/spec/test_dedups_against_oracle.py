"""A dedup gives what the oracle gives, however the events are cut into batches and the keys into states."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings

from sluice.columns.json_columns import python_values
from sluice.engine.graph import Graph
from sluice.engine.operators.dedup.dedup_state import DedupState
from sluice.model.engine_limits import EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player
from sluice.testing import on_stream, pipeline_of, run_case
from tests.spec import dedup_oracle
from tests.spec.comparing import differences
from tests.spec.dedup_strategies import cases
from tests.spec.every_cut import CLEANED_EARLY, dead_letters
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    expected, late = dedup_oracle.run(case)
    assert sorted(dead_letters(case)) == late
    for sizes in (None, *cuts):
        assert differences(run_case(case, sizes), expected, case) == [], f"cuts {sizes}"


@given(cases, cuts)
@settings(max_examples=45, derandomize=True)
def test_random_dedups_and_events(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check(case, [1] * len(case["input"]), batches)


@given(cases, divisions())
@settings(max_examples=40, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


# ---- many keys -------------------------------------------------------------------------------------------------------


def many(*, keep: str, within: str, keys: int, events: int = 600) -> Case:
    """Tuples of many keys, two a second, some of which are late by up to 12 s of event time."""
    choose, given_events = random.Random(7), []
    for n in range(events):
        time = 500 * n
        values = {"k": f"key {choose.randrange(keys)}", "x": n, "t": max(time - choose.randrange(12_000), 0)}
        given_events.append({"at": time / 1000, "tuple": values})
        if n % 9 == 8:
            given_events.append({"at": time / 1000, "watermark": max(time - 10_000, 0) / 1000})
    schema = {"k": "string", "x": "int64", "t": "int64"}
    operator: dict[str, Any] = {"kind": "dedup", "by": ["k"], "within": within, "keep": keep, "schema": schema}
    timed = {"event_time": "t", "event_time_resolution": "Milliseconds"}
    return {"operator": operator | timed, "input": given_events}


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("within", ["time(20)", "eventTime(3)", "eventTime(0.1)", "eventTime(40)"])
@pytest.mark.parametrize("keys", [1, 40])
def test_many_tuples(keep: str, within: str, keys: int):
    check(many(keep=keep, within=within, keys=keys), [100] * 5, [1] * 60)


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("within", ["time(1)", "eventTime(1)"])
def test_the_state_forgets_keys_whose_periods_are_over(keep: str, within: str):
    """Each key comes once. Without forgetting there would be 3,000 keys."""
    case = many(keep=keep, within=within, keys=1, events=3_000)
    for n, event in enumerate(case["input"]):
        if "tuple" in event:
            event["tuple"]["k"] = f"key {n}"
    pipeline = pipeline_of(case | {"limits": CLEANED_EARLY})
    player, sizes = Player(pipeline, {"input": 1}, python_values), []
    state = player.graph.initial()
    for batch in Cutter(pipeline.inputs).batches(list(numbered(case["input"])), 20):
        list(player.feed(state, batch))
        (own,) = state.operators
        assert isinstance(own, DedupState)
        sizes.append(max(own.sizes[0], own.rows["period"], own.rows["slot"]))
    assert max(sizes) < 200


def test_the_tuples_of_a_key_are_known_after_a_compaction():
    """A period in the middle of its length survives that other keys are forgotten."""
    events = [{"at": n / 10, "tuple": {"k": "a" if n % 5 == 0 else f"key {n}", "x": n}} for n in range(100)]
    operator = {"kind": "dedup", "by": ["k"], "within": "time(5)", "schema": {"k": "string", "x": "int64"}}
    records = run_case({"operator": operator, "input": events, "limits": CLEANED_EARLY}, [1] * 100)
    assert [r["tuple"]["x"] for r in records if r["tuple"]["k"] == "a"] == [0, 50]


def test_what_a_key_holds_is_shown():
    operator = {
        "kind": "dedup",
        "by": ["k"],
        "within": "time(5)",
        "keep": "last",
        "schema": {"k": "string", "x": "int64"},
    }
    events = [{"at": at, "tuple": {"k": "a", "x": at}} for at in (1, 2)]
    pipeline = pipeline_of({"operator": operator, "input": events})
    graph = Graph(pipeline, {"input": 1})
    player, state = Player(pipeline, {"input": 1}), graph.initial()
    list(player.feed(state, Cutter(pipeline.inputs).batch(list(numbered(map(on_stream, events))))))
    (found,) = graph.inspect(state, "a")
    assert found.held == [{"k": "a", "x": 2}]
    assert found.policy == {"periods": [{"start": 1.0, "end": 6.0}]}
    assert graph.inspect(state, "b") == []
