"""A pipeline that is changed between two batches: operators that stay, come and go.

    before the change    a, gone
    after it             fresh, a

`a` must give what it gives in a pipeline that never changes. `fresh` must give what an operator gives that was there
from the beginning and got no tuple before the change: the test removes these tuples, and runs that operator alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph
from sluice.engine.graph_conversion import converted
from sluice.engine.stream.items import TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import REJECTS
from sluice.model.changes.operator_changes import StateOutcome, changes_of, kept_of
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import with_origin
from sluice.testing import about_input, about_table, limited, on_stream, operator_of, schema_of
from tests.spec import (
    dedup_strategies,
    early_strategies,
    event_join_strategies,
    event_strategies,
    invariants,
    quiet_strategies,
    session_strategies,
    table_strategies,
    test_calendar_panes_against_oracle,
    test_empty_panes_against_oracle,
    test_key_sessions_against_oracle,
    test_key_times_against_oracle,
    test_previous_against_oracle,
    test_ranks_against_oracle,
    test_recent_duplicates_against_oracle,
    test_rest_at_the_end,
    test_since_first_against_oracle,
)
from tests.spec.buckets import plan_of
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.join_strategies import join_cases, sort_cases
from tests.spec.strategies import Case, cases
from tests.spec.test_split_and_merge import MOST_BATCHES, size_of

UNMATCHED = ("unmatched_left", "unmatched_right")


pytestmark = pytest.mark.usefixtures("states_are_checked")


def pipeline_with(case: Case, *names: str) -> Pipeline:
    """The case's operator several times, under these names. Each writes to streams of its own."""
    operator = case["operator"]
    inputs = ("left", "right") if operator.get("kind") == "join" else ("input",)
    written = [f"{stream}_{name}" for name in names for stream in outputs_of(operator)]
    file = {
        "pipeline": "case",
        "streams": {
            name: {"topic": name, "schema": schema_of(operator, case["input"], name)}
            | about_input(operator)
            | about_table(operator, name)
            for name in inputs
        }
        | {name: {"topic": name} for name in written},
        "operators": [{"name": name} | writing_to(operator_of(operator), name) for name in names],
    }
    return limited(with_origin(load_text(orjson.dumps(file).decode(), "case", environment=None), None), CLEANED_EARLY)


def outputs_of(operator: dict[str, Any]) -> list[str]:
    return ["output", *(name for name in UNMATCHED if operator.get(name))]


def writing_to(operator: dict[str, Any], name: str) -> dict[str, Any]:
    output = operator["output"]
    renamed: Any = [f"output_{name}"] if isinstance(output, list) else {f"output_{name}": output["output"]}
    return operator | {"output": renamed} | {one: f"{one}_{name}" for one in UNMATCHED if one in operator}


@dataclass(frozen=True)
class When:
    """The batches, and before which of them the pipeline changes."""

    size: int
    change: int
    #: whether the state is saved and loaded before and after the change
    saved: bool

    def of_run(self, events: int) -> When:
        """This change in a run of so many events, before a batch that it has."""
        size = size_of(self.size, events)
        return replace(self, size=size, change=self.change % max(1, -(-events // size)))


whens = st.builds(When, st.sampled_from([1, 2, 5]), st.integers(0, MOST_BATCHES - 1), st.booleans())


def shown(items: Items | None) -> list[Any]:
    """The items without watermarks: time, kind, topic partition, key, tuple."""
    if items is None:
        return []
    tuples, keys = iter(items.tuples.to_pylist()), items.keys.to_pylist()
    rows = []
    columns = (column.tolist() for column in (items.at, items.kind, items.source, items.key))
    for at, kind, source, key in zip(*columns, strict=True):
        tuple_ = repr(next(tuples)) if kind == TUPLE else None  # NaN is equal to nothing, but its text is
        if kind != WATERMARK:
            rows.append((at, kind, source, keys[key] if key >= 0 else None, tuple_))
    return rows


def batches_of(pipeline: Pipeline, case: Case, when: When) -> tuple[dict[str, int], list[Any]]:
    placed = list(numbered(list(map(on_stream, case["input"]))))
    return dict(plan_of(pipeline, placed, 1).topic_partitions), list(Cutter(pipeline.inputs).batches(placed, when.size))


def changed_run(case: Case, when: When, *fresh: str) -> dict[str, list[Any]]:
    """By stream what comes out of the pipeline that changes: of the operators `fresh` after the change."""
    old, new = pipeline_with(case, "a", "gone"), pipeline_with(case, *fresh, "a")
    words = {one.name: one.word for one in changes_of(old, new).all}
    assert words == dict.fromkeys(fresh, StateOutcome.NEW) | {"a": StateOutcome.KEPT, "gone": StateOutcome.REMOVED}
    counts, batches = batches_of(old, case, when)
    graph = Graph(old, counts)
    state = graph.initial()
    found: dict[str, list[Any]] = {}
    for number, batch in enumerate(batches):
        if number == when.change:
            after = Graph(new, counts)
            state = graph.load(graph.save(state)) if when.saved else state
            state = converted(graph, state, after, kept_of(old, new))
            invariants.check_graph_state(state)
            graph, state = after, after.load(after.save(state)) if when.saved else state
        made = graph.feed(state, batch.inputs, Clock(int(batch.at[0]), int(batch.at[-1])))
        for stream, items in made.items():
            if stream != REJECTS:
                found.setdefault(stream, []).extend(shown(items))
    return found


def undisturbed(case: Case, when: When) -> dict[str, list[Any]]:
    """By stream what `a` gives in a pipeline that has it from the beginning to the end."""
    pipeline = pipeline_with(case, "a")
    counts, batches = batches_of(pipeline, case, when)
    graph = Graph(pipeline, counts)
    state = graph.initial()
    found: dict[str, list[Any]] = {}
    for batch in batches:
        for stream, items in graph.feed(state, batch.inputs, Clock(int(batch.at[0]), int(batch.at[-1]))).items():
            if stream != REJECTS:
                found.setdefault(stream, []).extend(shown(items))
    return found


def without_tuples_before(case: Case, when: When) -> dict[str, list[Any]]:
    """By stream what `fresh` gives after the change, if it is there from the beginning and gets no tuple before."""
    pipeline = pipeline_with(case, "fresh")
    counts, batches = batches_of(pipeline, case, when)
    seen: list[tuple[list[Items], Clock]] = []
    graph = Graph(pipeline, counts, observer=lambda _, items, clock: seen.append((items, clock)))
    state = graph.initial()
    (alone,) = Graph(pipeline, counts).operators
    own = alone.initial()
    found: dict[str, list[Any]] = {}
    for number, batch in enumerate(batches):
        graph.feed(state, batch.inputs, Clock(int(batch.at[0]), int(batch.at[-1])))
        items, clock = seen.pop()
        if number < when.change:
            items = [one.only(one.kind != TUPLE) for one in items]
        made = alone.feed(own, items, clock)
        if number >= when.change:
            for stream, some in made.items():
                if stream != REJECTS:
                    found.setdefault(stream, []).extend(shown(some))
    return found


def check(case: Case, when: When) -> None:
    when = when.of_run(len(case["input"]))
    found = changed_run(case, when, "fresh")
    assert of_operator("a", found) == of_operator("a", undisturbed(case, when))
    assert of_operator("fresh", found) == of_operator("fresh", without_tuples_before(case, when))


def of_operator(name: str, found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {stream: rows for stream, rows in found.items() if stream.endswith(f"_{name}") and rows}


def of_a_handler(case: Case) -> Case:
    """The same windows, with an operator in Python."""
    own = {name: case["operator"][name] for name in ("window", "partition_by", "schema")}
    handler = own | {"kind": "custom", "handler": "tests.spec.handler_classes:Contents"}
    return {"operator": handler, "input": case["input"]}


CASES = {
    "aggregate": cases(),
    "event time": event_strategies.cases,
    "sort": sort_cases(),
    "event time sort": event_strategies.sort_cases,
    "join": join_cases(),
    "event join": event_join_strategies.cases,
    "dedup": dedup_strategies.cases,
    "session": session_strategies.cases,
    "early": early_strategies.cases,
    "quiet": quiet_strategies.cases,
    "handler": cases().map(of_a_handler),
    "earlier tuples": test_previous_against_oracle.cases(),
    "ranks": test_ranks_against_oracle.cases(),
    "empty panes": test_empty_panes_against_oracle.cases(),
    "panes of a zone": test_calendar_panes_against_oracle.cases(),
    "times of keys": test_key_times_against_oracle.cases(),
    "sessions of keys": test_key_sessions_against_oracle.cases(),
    "dedup by tuples": test_recent_duplicates_against_oracle.cases(),
    "since the first": test_since_first_against_oracle.cases(),
    "a rest": test_rest_at_the_end.cases(),
}


@pytest.mark.parametrize("kind", CASES)
@given(st.data(), whens)
@settings(max_examples=12, derandomize=True, deadline=None)
def test_operators_stay_come_and_go(kind: str, data: st.DataObject, when: When):
    check(data.draw(CASES[kind]), when)


@given(table_strategies.cases(), whens)
@settings(max_examples=28, derandomize=True, deadline=None)
def test_a_table_stays_with_its_join(case: Case, when: When):
    """A join with a table cannot come later: its table would have no rows."""
    when = when.of_run(len(case["input"]))
    assert of_operator("a", changed_run(case, when)) == of_operator("a", undisturbed(case, when))
