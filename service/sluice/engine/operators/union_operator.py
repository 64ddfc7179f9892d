"""The Union operator: several streams with the same attributes as one stream (R1 to R5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa

from sluice.columns.saved_columns import Data, Format, Saved, SavedColumns, StateError, column, load
from sluice.columns.state_tables import PartOfKey
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.operator import Stateful
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, MAX_TIME, WATERMARK, Items, concatenated
from sluice.engine.stream.union_sources import source_of
from sluice.engine.windows.event_time.event_records import NEVER
from sluice.model.spec import Union

#: format of the saved state
FORMAT = Format("union", 1)


@dataclass(slots=True)
class UnionState:
    """By input: its watermark in nanoseconds, and whether it is final."""

    watermarks: np.ndarray
    finals: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """A union stores no tuples."""
        return 0, 0

    def save(self) -> Saved:
        return SavedColumns({"watermarks": self.watermarks, "finals": self.finals}, FORMAT)

    def split(self, parts: int, part_of_key: PartOfKey) -> list[UnionState]:
        """Copies: every part gets all watermarks and final marks."""
        return [UnionState(self.watermarks.copy(), self.finals.copy()) for _ in range(parts)]

    def merge(self, others: Sequence[UnionState]) -> UnionState:
        """Any of the states: all of them got the same watermarks and final marks."""
        return self


class UnionOperator(Stateful[UnionState]):
    """Runs one `Union`.

    Items keep their order: by the operator clock, then by the event that caused them, then by input (R2).
    """

    def __init__(self, spec: Union, schema: pa.Schema, timed: Sequence[bool]) -> None:
        """`schema` is that of the output. `timed`: which inputs have an event time."""
        self.spec, self._schema, self._timed = spec, schema, timed

    def initial(self) -> UnionState:
        count = len(self.spec.inputs)
        return UnionState(np.full(count, NEVER, np.int64), np.zeros(count, np.int64))

    def load(self, data: Data) -> UnionState:
        saved = load(data, FORMAT)
        state = UnionState(*(column(saved[name], np.int64) for name in ("watermarks", "finals")))
        if len(state.watermarks) != len(self.spec.inputs):
            msg = "the saved state belongs to another operator"
            raise StateError(msg)
        return state

    def due(self, state: UnionState) -> int:
        """MAX_TIME: time alone never makes a Union emit."""
        return MAX_TIME

    def inspect(self, state: UnionState, key: str | None) -> list[InspectedWindow]:
        return []

    def feed(self, state: UnionState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The items of all inputs as items of the output stream."""
        parts = [self._part(number, items) for number, items in enumerate(inputs)]
        port = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(ranks_of_items(parts), kind="stable")
        items, port = reduce(concatenated, parts).take(order), port[order]
        items = self._with_watermarks(state, items, port)
        return {output.stream: items for output in self.spec.outputs}

    def _part(self, number: int, items: Items) -> Items:
        """The items of an input with the attributes in the order of the output, and their topic partitions there."""
        source = source_of(items.source, number, len(self.spec.inputs))
        return replace(items, source=source, tuples=items.tuples.select(self._schema.names).cast(self._schema))

    def _with_watermarks(self, state: UnionState, items: Items, port: np.ndarray) -> Items:
        """Replaces the watermarks of the inputs by their minimum, which is dropped if it does not increase (R3), and
        keeps the final mark of the last input that becomes final (R4).
        """
        kept = np.ones(len(items), np.bool_)
        watermark = items.watermark.copy()
        for position in np.flatnonzero((items.kind == WATERMARK) | (items.kind == FINAL)).tolist():
            number = port[position]
            if items.kind[position] == FINAL:
                state.finals[number] = 1
                kept[position] = bool(state.finals.all())
                continue
            before = self._least(state)
            state.watermarks[number] = max(int(state.watermarks[number]), int(watermark[position]))
            watermark[position] = self._least(state)
            kept[position] = self._least(state) > before
        return replace(items, watermark=watermark).only(kept)

    def _least(self, state: UnionState) -> int:
        """The watermark of the output: the minimum over the inputs with an event time."""
        timed = zip(state.watermarks.tolist(), self._timed, strict=True)
        return min((watermark for watermark, is_timed in timed if is_timed), default=NEVER)


def ranks_of_items(parts: Sequence[Items]) -> np.ndarray:
    """For the items of all parts, one part after the other, numbers that sort them by time and event (R2).

    The numbers of a part never decrease, so a stable sort keeps its order.
    """
    at, event = (np.concatenate([getattr(part, name) for part in parts]) for name in ("at", "event"))
    order = np.lexsort((event, at))
    new = (np.diff(at[order]) != 0) | (np.diff(event[order]) != 0)
    rank = np.empty(len(at), np.int64)
    rank[order] = np.concatenate([np.zeros(min(1, len(at)), np.int64), np.cumsum(new)])
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return np.concatenate([np.maximum.accumulate(part_ranks) for part_ranks in np.split(rank, ends)])
