"""Converts the state of a pipeline to that of a changed pipeline, operator by operator.

An operator that is kept goes on with its state. Every other operator gets the state of an operator that has run since
the first batch without any tuple: its timers and its watermarks have advanced, and its windows are empty.

    old state    origin, clock, watermarks     average   totals    highest
                          |                       |                (dropped)
    new state    origin, clock, watermarks     average   totals    sessions
                                                kept     fresh      fresh
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data, Saved
from sluice.engine.graph import AnyOperator, Graph, GraphState
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.event_join.event_join_records import LEFT_FINAL, LEFT_REACHED, RIGHT_REACHED
from sluice.engine.operators.event_join.event_join_state import EventJoinState
from sluice.engine.operators.join.join_kernel import FROZEN, REACHED
from sluice.engine.operators.join.join_state import JoinState
from sluice.engine.operators.operator import OperatorState
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, WATERMARK
from sluice.engine.stream.rejected_tuples import REJECTS
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.model.changes.operator_changes import Kept
from sluice.time_units import UNSET


def converted(old: Graph, state: GraphState, new: Graph, kept: Kept) -> GraphState:
    """The state with which the graph `new` goes on from a state of the graph `old`, which must not be used afterwards.

    Raises StateError if a state that is kept belongs to an operator of another kind.
    """
    before = {
        operator.spec.name: operator_state
        for operator, operator_state in zip(old.operators, state.operators, strict=True)
    }
    new_state = new.initial()
    new_state.origin, new_state.now = state.origin, state.now
    new_state.finals = {now: set(state.finals[was]) for now, was in kept.finals.items() if was in state.finals}
    new_state.progress = {now: state.progress[was] for now, was in kept.progress.items() if was in state.progress}
    new_state.buffered = {
        now: state.buffered[was] if now in kept.buffers else new.marks_alone(now, state.buffered[was])
        for now, was in kept.aligned.items()
        if was in state.buffered
    }
    restarted = {
        now for now, was in kept.progress.items() if old.is_final(state, was) and not new.is_final(new_state, now)
    }  # fmt: skip
    for stream in restarted:  # its watermark was the last one before its final mark
        new_state.progress.pop(stream)
    fresh = []
    for index, operator in enumerate(new.operators):
        name = operator.spec.name
        earlier = before[name] if name in kept.operators else None
        if earlier is None or _is_over(earlier, [new.is_final(new_state, stream) for stream in operator.spec.inputs]):
            fresh.append(index)
        elif name in kept.resized:
            new_state.operators[index] = _resized(operator, earlier, new_state.now)
        else:
            new_state.operators[index] = operator.load(_bytes(earlier.save()))
    if new_state.origin != UNSET:
        _bring_up(new, new_state, fresh)
    for operator, operator_state in zip(new.operators, new_state.operators, strict=True):
        if isinstance(operator_state, JoinState | EventJoinState):
            _go_on_with_marks(operator_state, operator.spec.inputs, new, new_state, set(kept.progress) - restarted)
    return new_state


def _is_over(state: OperatorState, finals: Sequence[bool]) -> bool:
    """Whether an operator is final, so that nothing in its windows ever comes out, although its inputs, which have
    these final marks, go on: operators before it read other topics now. It begins anew.
    """
    return not isinstance(state, JoinState) and bool(getattr(state, "finished", False)) and not all(finals)


def _go_on_with_marks(
    state: JoinState | EventJoinState,
    inputs: Sequence[str],
    graph: Graph,
    new_state: GraphState,
    same_streams: AbstractSet[str],
) -> None:
    """Forgets the marks that a join has got from a stream that is not among the `same_streams`: its final mark, if it
    is not final now, with the last watermark before it, and watermarks of another event time.
    """
    for port, stream in enumerate(inputs):
        goes_on = not graph.is_final(new_state, stream)
        if isinstance(state, JoinState):
            side = state.sides[port].state
            side[FROZEN] &= not goes_on
            if stream not in same_streams:
                side[REACHED] = new_state.progress[stream].watermark if stream in new_state.progress else NEVER
        elif state.scalars[LEFT_FINAL + port] and goes_on:
            state.scalars[LEFT_FINAL + port] = 0
            state.scalars[LEFT_REACHED + port] = state.scalars[[LEFT_REACHED, RIGHT_REACHED]].min()


def _resized(operator: AnyOperator, state: OperatorState, now: int) -> OperatorState:
    assert isinstance(operator, AggregateOperator)  # noqa: S101 - `window_sizes.counts_tuples`
    assert isinstance(state, AggregateState)  # noqa: S101 - the state of this operator
    return operator.resized(state, now)


def _bring_up(graph: Graph, state: GraphState, fresh: Iterable[int]) -> None:
    """Feeds the fresh operators, upstream first, with no tuple, but with the clock, the watermarks and the final marks
    of their inputs. What they emit goes nowhere, except for watermarks.
    """
    clock = Clock(state.origin, state.now)
    for index in fresh:
        operator = graph.operators[index]
        inputs = [graph.marks_of(state, name) for name in operator.spec.inputs]
        for stream, items in operator.feed(state.operators[index], inputs, clock).items():
            if stream != REJECTS and stream not in state.progress:
                graph.with_watermarks(state, stream, items.only(np.isin(items.kind, (WATERMARK, FINAL))), clock, {})


def _bytes(saved: Saved) -> Data:
    sink = pa.BufferOutputStream()
    saved.write(sink)
    return memoryview(sink.getvalue())
