"""The versions of saved states: each kind of operator has its own."""

from __future__ import annotations

import pytest

from sluice.columns.saved_columns import Format, StateError
from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.aggregate.event_time_state import EventState
from sluice.engine.operators.sort.progressive_sort import SortState
from sluice.testing import pipeline_of

AGGREGATE = {"window": "sliding, count(3)", "output": {"n": "Count()"}}
PANES = {"window": "timeInterval, intervalDuration(1)", "event_time": "t", "output": {"n": "Count()"}}
SORT = {"kind": "sort", "window": "sliding, count(3)", "order_by": [("x", "asc")]}
JOIN = {
    "kind": "join", "left": "sliding, count(3)", "right": "sliding, count(3)", "algorithm": "inner",
    "output": {"x": "left.x"},
}  # fmt: skip
CUSTOM = {
    "kind": "custom",
    "window": "sliding, count(3)",
    "handler": "tests.spec.handler_classes:Contents",
    "schema": {"i": "int64"},
}


def graph_of(operator: dict[str, object]) -> Graph:
    pipeline = pipeline_of({"operator": operator, "input": []})
    return Graph(pipeline, {stream.name: 1 for stream in pipeline.inputs})


@pytest.mark.parametrize(
    ("operator", "state", "kind"),
    [
        (AGGREGATE, AggregateState, "aggregate"),
        (PANES, EventState, "aggregate over event time"),
        (SORT, SortState, "progressive sort"),
    ],
)
def test_another_version_is_refused_by_the_name_of_the_operator(operator, state, kind, monkeypatch):
    data = graph_of(operator).save(graph_of(operator).initial())
    monkeypatch.setattr(state, "FORMAT", Format(kind, 99))
    message = rf"operator case: the saved state has format {kind}, version \d; this .* format {kind}, version 99"
    with pytest.raises(StateError, match=message):
        graph_of(operator).load(data)


@pytest.mark.parametrize(
    ("module", "operator", "kind"),
    [
        ("sluice.engine.operators.join.join_state", JOIN, "join"),
        ("sluice.engine.library.window_events", CUSTOM, "handler"),
    ],
)
def test_so_is_one_of_a_join_or_a_handler(module, operator, kind, monkeypatch):
    data = graph_of(operator).save(graph_of(operator).initial())
    monkeypatch.setattr(f"{module}.FORMAT", Format(kind, 99))
    with pytest.raises(StateError, match=rf"operator case: .* format {kind}, version \d; .* format {kind}, version 99"):
        graph_of(operator).load(data)


def test_a_state_of_another_kind_is_refused():
    data = graph_of(AGGREGATE).save(graph_of(AGGREGATE).initial())
    with pytest.raises(StateError, match=r"format aggregate, version \d; this version reads format progressive sort"):
        graph_of(SORT).load(data)
