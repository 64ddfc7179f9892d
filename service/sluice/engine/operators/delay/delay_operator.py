"""The Delay operator: passes tuples and marks on later by the operator clock, in their order (DL1 to DL7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.json_columns import shown_values
from sluice.columns.tables import Data
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.delay import delay_kernel
from sluice.engine.operators.delay.delay_kernel import DelaySettings
from sluice.engine.operators.delay.delay_state import DelayState
from sluice.engine.operators.one_input import until_final
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TIMER, TUPLE, Items, concatenated
from sluice.engine.stream.rejected_tuples import joined, rejected
from sluice.model.spec import Delay
from sluice.model.types import Schema
from sluice.time_units import SECOND


class DelayOperator(Stateful[DelayState]):
    """Runs one `Delay`."""

    def __init__(self, spec: Delay, schema: Schema) -> None:
        """`schema` belongs to the input."""
        self.spec, self._attributes, self._schema = spec, schema, arrow_schema(schema)
        self._rule = DelaySettings(spec.by, spec.gap, spec.buffer)

    def initial(self) -> DelayState:
        return DelayState(self._schema)

    def load(self, data: Data) -> DelayState:
        return self.initial().read(data)

    def due(self, state: DelayState) -> int:
        """The time at which the next item leaves; MAX_TIME if none waits."""
        return state.due

    def inspect(self, state: DelayState, key: str | None) -> list[InspectedWindow]:
        """The tuples that wait, with the time in seconds at which the first of them leaves."""
        if not state.waiting:
            return []
        parts = [items.tuples for items, _ in state.pieces]
        columns = {
            name: [value for part in parts for value in shown_values(part.column(name), kind)]
            for name, kind in self._attributes
        }
        held = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return [InspectedWindow(self.spec.name, state.waiting, held, policy={"due": state.due / SECOND})]

    def feed(self, state: DelayState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The items that leave by `clock.end`, by stream, and the rejected tuples under REJECTS. The final mark lets
        all items leave at once (DL4).
        """
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        refused = self._add(state, items)
        leaving = reduce(concatenated, [_leaving(*group) for group in state.leave(end)], items.first(0))
        if last is not None:
            state.finished = True
            rest = [_at(*last, gone) for gone, _ in state.leave(MAX_TIME)]
            leaving = emit.final(reduce(concatenated, rest, leaving), *last)
        return {output.stream: leaving for output in self.spec.outputs} | joined([refused])

    def _add(self, state: DelayState, items: Items) -> Items | None:
        """Adds the items to the waiting ones. Gives the tuples for which there is no room as dead letters (DL5)."""
        count, is_tuple = len(items), items.kind == TUPLE
        full = state.waiting + int(np.count_nonzero(is_tuple)) > self.spec.buffer
        known = state.tuple_times() if full else np.zeros(0, np.int64)
        due, refused = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        waiting = np.concatenate([known, np.zeros(count, np.int64)])
        last = np.array([state.last_tuple, state.last_item])
        delay_kernel.times(self._rule, items.at, is_tuple, waiting, len(known), last, due, refused)
        state.last_tuple, state.last_item = last.tolist()
        state.add(items.only(~refused), due[~refused])
        reasons = [f"{self.spec.buffer} tuples wait already"] * int(np.count_nonzero(refused))
        return rejected(items.only(refused), self.spec.name, reasons) if reasons else None


def _leaving(items: Items, due: np.ndarray) -> Items:
    """Items that leave at these times. One that leaves when it came keeps its event; the clock causes the others."""
    return replace(items, event=np.where(items.at == due, items.event, TIMER), at=due)


def _at(event: int, at: int, items: Items) -> Items:
    """The items as the final mark lets them go."""
    return replace(items, event=np.full(len(items), event), at=np.full(len(items), at))
