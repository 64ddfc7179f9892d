"""What must hold of the window events of an aggregate, whatever the input: checked with each batch of a random test.

`checked` puts the checks around the window events, for as long as a test runs, and switches on the product's own checks
of states (`sluice.engine.state_invariants`). They are plain Python and slow, so no service has the former.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sluice.engine.graph import Graph, GraphState
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.state_invariants import check_ranges, check_states
from sluice.engine.windows.processing_time import CLEAR, EVICT, INSERT, LOSE
from sluice.invariants import VARIABLE
from tests.spec import watermark_oracle


def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks every state and all watermarks after each batch, and all window events of aggregates."""
    feed, window_events = Graph.feed, AggregateOperator.window_events

    def checked_feed(self: Graph, state: Any, *given: Any) -> Any:
        before = watermark_oracle.watermarks(state)
        outputs = feed(self, state, *given)
        watermark_oracle.check(self, before, watermark_oracle.watermarks(state), outputs)
        return outputs

    def checked_events(self: AggregateOperator, state: AggregateState, *given: Any) -> Iterator[Any]:
        counts = EventCounts(state)
        for events, firings in window_events(self, state, *given):
            counts.check(events)
            yield events, firings
        sizes = state.partitions["size"]
        assert {p: size for p, size in counts.sizes.items() if size} == {p: sizes[p] for p in np.flatnonzero(sizes)}

    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(Graph, "feed", checked_feed)
    monkeypatch.setattr(AggregateOperator, "window_events", checked_events)


def check_graph_state(state: GraphState) -> None:
    """For states that were just put together: every field that refers to rows does so inside of the table as well."""
    check_states(state.operators)
    check_ranges(state.operators)


# ---- window events ---------------------------------------------------------------------------------------------------


class EventCounts:
    """The tuples of each partition by the window events of a batch: each leaves at most once (EVICT, LOSE or CLEAR)."""

    def __init__(self, state: AggregateState) -> None:
        """`state`: as it is before the first event."""
        sizes = state.partitions["size"]
        self.sizes = {p: int(sizes[p]) for p in np.flatnonzero(sizes).tolist()}
        self.by_slot = state.holding and not state.packed and not state.ring
        self.came: set[int] = set()
        self.left: set[int] = set()
        self.lost: Counter[int] = Counter()

    def check(self, events: np.ndarray) -> None:
        for slot, partition, code in events.tolist():
            inside = self.sizes.get(partition, 0)
            if code == INSERT:
                assert not self.by_slot or slot not in self.came, f"slot {slot} is inserted twice"
                self.came.add(slot)
                self.sizes[partition] = inside + 1
            elif code in (EVICT, LOSE):
                assert not self.by_slot or slot not in self.left, f"slot {slot} leaves twice"
                self.left.add(slot)
                assert inside > self.lost[partition], f"partition {partition} has no tuple that could leave"
                if code == LOSE:
                    self.lost[partition] += 1
                else:
                    self.sizes[partition] = inside - 1
            elif code == CLEAR:
                assert self.lost[partition] in (0, inside), f"partition {partition} loses only some of its tuples"
                self.lost[partition] = self.sizes[partition] = 0
