"""The Delay operator: passes tuples and marks on later by the operator clock, in their order (DL1 to DL7)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.json_columns import shown_values
from sluice.columns.saved_columns import Data
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.delay import delay_kernel
from sluice.engine.operators.delay.delay_kernel import DelaySettings
from sluice.engine.operators.delay.delay_state import DelayState
from sluice.engine.operators.one_input import until_final
from sluice.engine.operators.operator import OperatorState, Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TIMER, TUPLE, Items, concatenated
from sluice.engine.stream.rejected_tuples import joined, rejected
from sluice.model.spec import Delay
from sluice.model.types import Schema
from sluice.time_units import SECOND


class _DelayState(OperatorState, Protocol):
    """The common members of the states with and without a key."""

    @property
    def due(self) -> int: ...


S = TypeVar("S", bound=_DelayState)


class Delaying(Stateful[S], ABC):
    """The base of the operators with and without a key."""

    def __init__(self, spec: Delay, schema: Schema) -> None:
        """`schema` belongs to the input."""
        self.spec, self._attributes, self._schema = spec, schema, arrow_schema(schema)
        self._rule = DelaySettings(spec.by, spec.gap, spec.buffer)

    def due(self, state: S) -> int:
        """The time at which the next item leaves; MAX_TIME if none waits."""
        return state.due

    def _waiting(self, parts: Sequence[pa.RecordBatch], due: int) -> list[InspectedWindow]:
        """The tuples that wait, with the time in seconds at which the first of them leaves; nothing if none waits."""
        columns = {
            name: [value for part in parts for value in shown_values(part.column(name), kind)]
            for name, kind in self._attributes
        }
        held = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return [InspectedWindow(self.spec.name, len(held), held, policy={"due": due / SECOND})] if held else []

    def _refused(self, items: Items, refused: np.ndarray, whose: str = "") -> Items | None:
        """The tuples among the items for which there is no room, as dead letters (DL5). `refused`: by item."""
        reasons = [f"{self.spec.buffer} tuples {whose}wait already"] * int(np.count_nonzero(refused))
        return rejected(items.only(refused), self.spec.name, reasons) if reasons else None


class DelayOperator(Delaying[DelayState]):
    """Runs one `Delay`."""

    def initial(self) -> DelayState:
        return DelayState(self._schema)

    def load(self, data: Data) -> DelayState:
        return self.initial().read(data)

    def inspect(self, state: DelayState, key: str | None) -> list[InspectedWindow]:
        del key
        return self._waiting([items.tuples for items, _ in state.pieces], state.due)

    def feed(self, state: DelayState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The items that leave at `clock.end` or before it, by stream, and the rejected tuples under REJECTS.

        The final mark lets all items leave at once (DL4).
        """
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        refused = self._add(state, items)
        leaving = reduce(concatenated, [_leaving(*group) for group in state.leave(end)], items.first(0))
        if last is not None:
            state.finished = True
            rest = [_at(*last, leaving_items) for leaving_items, _ in state.leave(MAX_TIME)]
            leaving = emit.final(reduce(concatenated, rest, leaving), *last)
        return {output.stream: leaving for output in self.spec.outputs} | joined([refused])

    def _add(self, state: DelayState, items: Items) -> Items | None:
        """Adds the items to the waiting ones. Gives the tuples for which there is no room as dead letters (DL5)."""
        count, is_tuple = len(items), items.kind == TUPLE
        full = state.waiting + int(np.count_nonzero(is_tuple)) > self.spec.buffer
        waiting_times = state.tuple_times() if full else np.zeros(0, np.int64)
        due, refused = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        waiting = np.concatenate([waiting_times, np.zeros(count, np.int64)])
        last = np.array([state.last_tuple, state.last_item])
        delay_kernel.times(self._rule, items.at, is_tuple, waiting, len(waiting_times), last, due, refused)
        state.last_tuple, state.last_item = last.tolist()
        state.add(items.only(~refused), due[~refused])
        return self._refused(items, refused)


def _leaving(items: Items, due: np.ndarray) -> Items:
    """Items that leave at these times. One that leaves when it came keeps its event; the clock causes the others."""
    return replace(items, event=np.where(items.at == due, items.event, TIMER), at=due)


def _at(event: int, at: int, items: Items) -> Items:
    """The items that leave when the final mark comes."""
    return replace(items, event=np.full(len(items), event), at=np.full(len(items), at))
