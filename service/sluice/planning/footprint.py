"""The memory of a window's state: bytes for each window partition, for each stored tuple, and for each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.event_join.event_join_operator import EventJoinOperator
from sluice.engine.operators.join.join_operator import JoinOperator
from sluice.engine.operators.join.join_state import SIDES
from sluice.engine.operators.sort.progressive_sort import ProgressiveOperator
from sluice.engine.operators.sort.sort_operator import EventSortOperator, SortOperator
from sluice.engine.operators.stored_tuples import StoredTuples
from sluice.model.spec import Pipeline


class Rows(Protocol):
    """A state of declared tables."""

    def footprint(self, *spaces: str) -> int: ...


@runtime_checkable
class Measured(Protocol):
    """An operator that names the row spaces of its state: spaces of a window partition, of a tuple, and of a time."""

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]: ...

    def initial(self) -> Rows: ...


class Footprint(NamedTuple):
    """Bytes for each window partition, for each stored tuple, and for each time that a window over event time keeps.

    The tuples of one slice of a pane, or with slidingTime of one event time, share a time. The texts of keys and
    attributes are not counted; each distinct text is stored once.
    """

    partition: int
    tuple: int
    time: int = 0


def footprints(pipeline: Pipeline) -> dict[str, Footprint]:
    """The footprint of each operator that has a state, by the operator's name."""
    graph = Graph(pipeline, {})
    by_name = {operator.spec.name: _of(operator) for operator in graph.operators}
    return {name: footprint for name, footprint in by_name.items() if footprint is not None}


def _of(operator: object) -> Footprint | None:
    match operator:
        case AggregateOperator():
            state = operator.initial()
            partition = state.footprint("partition", "group", "part")
            stored = state.footprint("slot") if operator.holding else 0
            unfilled = stored if state.packed else 0
            return Footprint(partition + unfilled, -(-stored // state.block) + state.footprint("queue"))
        case Measured():
            tables = operator.initial()
            return Footprint(*(tables.footprint(*spaces) for spaces in operator.spaces))
        case SortOperator() | EventSortOperator():
            return _of(operator.windows)
        case JoinOperator() | EventJoinOperator():
            return _of_join(operator)
        case ProgressiveOperator():
            return _stored(operator.initial())
    return None


def _of_join(operator: JoinOperator | EventJoinOperator) -> Footprint:
    """The larger one of the two sides."""
    if isinstance(operator, EventJoinOperator):
        state = operator.initial()
        return Footprint(state.footprint("key"), max(state.footprint(side) for side in SIDES))
    sides = [_stored(side) for side in operator.initial().sides]
    return Footprint(*(max(sizes) for sizes in zip(*sides, strict=True)))


def _stored(state: StoredTuples) -> Footprint:
    return Footprint(state.footprint("partition"), state.footprint("slot", "queue"))
