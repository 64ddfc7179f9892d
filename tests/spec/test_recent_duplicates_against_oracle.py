"""Dedups by count, by delta, and those that begin anew or forget at marks (Z9 to Z12), give what a slow calculation
gives, which looks through a plain mapping of what each key is remembered with.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import check_text
from sluice.engine.operators.dedup.dedup_state import DedupState
from sluice.engine.windows.event_time.event_records import ENDLESS
from sluice.model.engine_limits import EngineLimits
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player
from sluice.testing import pipeline_of, run_case
from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(["int64", "float64"]))
    within = draw(st.sampled_from(["count(1)", "count(3)", "delta(v, 0)", "delta(v, 2)", "time(2)"]))
    operator = {
        "kind": "dedup", "by": ["k"], "within": within, "schema": {"k": "string", "i": "int64", "v": kind},
        "reset_on_duplicate": draw(st.booleans()), "flush_on_mark": draw(st.booleans()),
    }  # fmt: skip
    at, value, events = 0.0, 0.0, list[dict[str, Any]]()
    for number in range(draw(st.sampled_from([3, 8, 20, 40]))):
        at += draw(st.sampled_from([0, 0, 0.5, 1, 2, 3]))
        value += (
            draw(st.sampled_from([-3, -1, 0, 0, 0.5, 1, 2, 4]))
            if kind == "float64"
            else draw(st.sampled_from([-3, -1, 0, 0, 1, 2, 4]))
        )
        row = {"k": draw(st.sampled_from("abc")), "i": number, "v": value if kind == "float64" else int(value)}
        events.append({"at": at} | draw(st.sampled_from([{"tuple": row}] * 6 + [{"punct": "window"}])))
    return {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2)}


def expected(case: Case) -> list[dict[str, Any]]:
    operator, remembered, records = case["operator"], dict[str, float](), []
    word, _, size = operator["within"].rstrip(")").replace("v, ", "").partition("(")
    count = 0
    for number, event in enumerate(case["input"]):
        if "punct" in event:
            records.append({"after": number, "punct": "window"})
            remembered = {} if operator["flush_on_mark"] else remembered
            continue
        row = event["tuple"]
        count += 1
        now = {"count": count, "delta": row["v"], "time": event["at"]}[word]
        if word == "delta":
            remembered = {key: value for key, value in remembered.items() if now - value <= float(size)}
        before = remembered.get(row["k"], float("-inf"))
        is_duplicate = now - before < float(size) if word == "time" else now - before <= float(size)
        if not is_duplicate:
            records.append({"after": number, "tuple": row})
        if not is_duplicate or operator["reset_on_duplicate"]:
            remembered[row["k"]] = now
    return records


@given(cases(), cuts)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_random_tuples(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=20, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


def test_values_that_begin_again_have_duplicates():
    """Only a value that comes later makes a key forgotten (Z10): the greatest value before it does not."""
    operator = {"kind": "dedup", "by": ["k"], "within": "delta(v, 2)"}
    rows = [("a", 1000), ("b", 1), ("b", 2), ("b", 3), ("a", 2), ("b", 9), ("b", 9), ("c", 7), ("b", 8)]
    events = [{"at": float(n), "tuple": {"k": key, "v": value}} for n, (key, value) in enumerate(rows)]
    found = run_case({"operator": operator, "input": events}, [1] * len(events))
    assert [record["after"] for record in found] == [0, 1, 5, 7]


def test_a_state_with_the_greatest_value_in_place_of_a_queue():
    """A state of an older version forgets, as it is loaded, the keys that were forgotten by the greatest value."""
    operator = {"kind": "dedup", "by": ["k"], "within": "delta(v, 2)"}
    rows = [{"k": key, "v": value} for key, value in [("a", 1), ("b", 4), ("a", 2), ("b", 3)]]
    events = [{"at": float(n), "stream": "input", "tuple": row} for n, row in enumerate(rows)]
    pipeline = pipeline_of({"operator": operator, "input": events})
    player, cutter, placed = Player(pipeline, {"input": 1}), Cutter(pipeline.inputs), list(numbered(events))
    state = player.graph.initial()
    list(player.feed(state, cutter.batch(placed[:2])))
    (older,) = state.operators
    assert isinstance(older, DedupState)
    older.partitions["due"], older.clocks[0] = ENDLESS, 4
    loaded = player.graph.load(player.graph.save(state))
    found = player.feed(loaded, cutter.batch(placed[2:]))
    assert [record["tuple"] for record in found] == [{"k": "a", "v": 2}]


def test_a_dedup_of_an_unknown_stream_has_one_message():
    """The period is read of the stream's attributes, which are unknown."""
    text = """
pipeline: p
streams: {in: {topic: in, schema: {v: int64}}, out: {topic: out}}
operators: [{name: d, dedup: inn, by: [v], within: "delta(v, 2)", output: [out]}]
"""
    (problem,) = check_text(text, "p", environment=None).problems
    assert (problem.path, problem.hint) == ("operators[0].dedup", "in")
