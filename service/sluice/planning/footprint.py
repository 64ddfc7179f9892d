"""How much state a window needs: bytes of a window partition, and bytes of each tuple that it stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from sluice.engine.graph import Graph
from sluice.engine.operators.aggregate.aggregate_operator import AggregateOperator
from sluice.engine.operators.aggregate.aggregate_state import AggregateState
from sluice.engine.operators.join.join_operator import JoinOperator
from sluice.engine.operators.sort.progressive_sort import ProgressiveOperator
from sluice.engine.operators.stored_tuples import Held
from sluice.model.spec import Pipeline


@runtime_checkable
class Measured(Protocol):
    """An operator that names the tables of its state: those with a row per window partition, and per tuple."""

    @property
    def tables(self) -> tuple[Sequence[str], Sequence[str]]: ...

    def initial(self) -> object: ...


class Footprint(NamedTuple):
    """In bytes, without the texts of keys and attributes, each of which is kept once."""

    partition: int
    tuple: int


def footprints(pipeline: Pipeline) -> dict[str, Footprint]:
    """By operator that remembers anything."""
    graph = Graph(pipeline, {})
    found = {operator.spec.name: _of(operator) for operator in graph.operators}
    return {name: footprint for name, footprint in found.items() if footprint is not None}


def _of(operator: object) -> Footprint | None:
    match operator:
        case AggregateOperator():
            state = operator.initial()
            partition = _widths(state, [*state.per_partition, *state.per_cell, "spread"])
            stored = _widths(state, state.per_slot) if operator.holding else 0
            unfilled = stored if state.packed else 0
            return Footprint(partition + unfilled, -(-stored // state.block) + _queued(state))
        case Measured():
            per_partition, per_tuple = operator.tables
            tables = operator.initial()
            return Footprint(_widths(tables, per_partition), _widths(tables, per_tuple))
        case JoinOperator():
            sides = [_held(side) for side in operator.initial().sides]
            return Footprint(*(max(of) for of in zip(*sides, strict=True)))
        case ProgressiveOperator():
            return _held(operator.initial())
    return None


def _held(state: Held) -> Footprint:
    return Footprint(_widths(state, state.per_partition), _widths(state, state.per_slot) + _queued(state))


def _queued(state: AggregateState | Held) -> int:
    return _width(state.queue) if state.queued else 0


def _widths(state: object, tables: Iterable[str]) -> int:
    return sum(_width(getattr(state, name)) for name in tables)


def _width(table: np.ndarray) -> int:
    return int(table.dtype.itemsize * np.prod(table.shape[1:], dtype=np.int64))
