"""The KeyedMap operator: a map whose outputs read earlier tuples of the same key (PV1 to PV10).

The earlier values of all tuples of a batch are gathered at once, from the batch and from the state. They are columns
beside the attributes, over which the expressions of the outputs are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import WordColumns, or_null
from sluice.columns.interner import Interner
from sluice.columns.key_bytes import key_codes, one_key
from sluice.columns.saved_columns import Data
from sluice.engine.aggregates.class_calls import load_classes
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.map_operator import let_through, written
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.previous.previous_state import PreviousState
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TUPLE, Items
from sluice.engine.stream.rejected_tuples import joined, readable
from sluice.model.expressions import Attribute, Call, Expression, steps_back
from sluice.model.spec import KeyedMap
from sluice.model.unparse import expression
from sluice.time_units import MAX_TIME as ENDLESS


class Runs(NamedTuple):
    """The tuples of a batch in order of their keys, those of one key in order of arrival.

    order    the numbers of the tuples in this order; the other fields have an entry for each
    key      the number of the key
    place    the position among the tuples of the key in this batch, from 0
    before   how many earlier tuples the tuple has, those in the state included
    """

    order: np.ndarray
    key: np.ndarray
    place: np.ndarray
    before: np.ndarray


class KeyedMapOperator(Stateful[PreviousState]):
    """Runs one `KeyedMap` (PV1). Marks keep their positions between the tuples (PV4)."""

    def __init__(self, spec: KeyedMap) -> None:
        self.spec = spec
        load_classes(e for output in spec.outputs for _, e in output.attributes)
        self._columns = WordColumns([value.type for value in spec.values])
        self._names = {call: f"#{number}" for number, call in enumerate(spec.calls)}
        self._places = {call: spec.values.index(call.arguments[0]) for call in spec.calls}
        self._forget = ENDLESS if spec.forget_after is None else spec.forget_after

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per key, and with rows per stored tuple; no rows per time."""
        return ("partition",), ("slot",), ()

    def initial(self) -> PreviousState:
        return PreviousState(self._columns, self.spec.longest, self.spec.limits)

    def load(self, data: Data) -> PreviousState:
        return self.initial().read(data)

    def due(self, state: PreviousState) -> int:
        """MAX_TIME: time alone never makes a map emit."""
        return MAX_TIME

    def inspect(self, state: PreviousState, key: str | None) -> list[InspectedWindow]:
        """The values of the last tuples of this key, oldest first."""
        number = window_inspection.code_of(state.keys, key if self.spec.partition_by else "")
        if number < 0:
            return []
        partition, size = state.partitions[number], state.longest
        places = (partition["next"] - partition["size"] + np.arange(partition["size"])) % size
        rows = state.words[number * size + places]
        names = [expression(value) for value in self.spec.values]
        held = window_inspection.tuples(names, self._columns, rows, state.strings)
        return [InspectedWindow(self.spec.name, len(held), held)]

    def feed(self, state: PreviousState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The output items by stream, and the rejected tuples under REJECTS (PV8)."""
        (items,) = inputs
        items, failed = let_through(self.spec, items)
        items, values, unread = readable(items, (*self.spec.partition_by, *self.spec.values), self.spec.name)
        tuples = self._with_earlier(state, items, values) if items.tuples.num_rows else self._without_rows(items)
        self._forget_keys(state, clock.end)
        outputs, rejected = written(self.spec, items, tuples, self._lowered)
        return outputs | joined([failed, unread, *rejected])

    def _lowered(self, expression: Expression) -> Expression:
        """The expression with the columns of earlier values in place of the calls of `previous`."""
        if not isinstance(expression, Call):
            return expression
        if expression in self._names:
            return Attribute(self._names[expression], expression.type)
        return Call(expression.function, tuple(map(self._lowered, expression.arguments)), expression.type)

    # ---- earlier values ---------------------------------------------------------------------------------------------

    def _without_rows(self, items: Items) -> pa.RecordBatch:
        nothing = np.zeros((0, self._columns.width), np.int64)
        return self._joined(
            items, [self._columns.column(place, nothing, Interner()) for place in self._places.values()]
        )

    def _joined(self, items: Items, earlier: Sequence[pa.Array]) -> pa.RecordBatch:
        names = [*items.tuples.schema.names, *self._names.values()]
        return pa.RecordBatch.from_arrays([*items.tuples.columns, *earlier], names=names)

    def _with_earlier(self, state: PreviousState, items: Items, values: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples with a column for each call of `previous`. Stores the tuples."""
        keys = [values.column(place) for place in range(len(self.spec.partition_by))]
        key = key_codes(keys, state.keys) if keys else np.repeat(one_key(state.keys), values.num_rows)
        state.make_room()
        words = np.empty((values.num_rows, self._columns.width), np.int64)
        self._columns.write(words, slice(None), values.columns[len(keys) :], state.strings)
        at = items.at[items.kind == TUPLE]
        runs = self._runs(state, key, at)
        earlier = [self._earlier(state, runs, words, call) for call in self._names]
        self._store(state, runs, words, at)
        return self._joined(items, earlier)

    def _runs(self, state: PreviousState, key: np.ndarray, at: np.ndarray) -> Runs:
        order = np.argsort(key, kind="stable")
        keys, times, numbers = key[order], at[order], np.arange(len(key))
        first = np.append(True, keys[1:] != keys[:-1])
        partitions = state.partitions[keys]
        place = numbers - np.maximum.accumulate(np.where(first, numbers, 0))
        last = np.where(first, partitions["last"], np.append(0, times[:-1]))
        begins = (times - last >= self._forget) & ~(first & (partitions["size"] == 0))
        begin = np.maximum.accumulate(np.where(first | begins, numbers, 0))  # the last beginning of a history before
        at_start = place == numbers - begin  # it is that of the key in this batch: then the state may have more
        before = numbers - begin + np.where(at_start & ~begins[begin], partitions["size"], 0)
        return Runs(order, keys, place, np.minimum(before, state.longest))

    def _earlier(self, state: PreviousState, runs: Runs, words: np.ndarray, call: Call) -> pa.Array:
        """The values of one call, by tuple: from the batch if the earlier tuple is in it, else from the state. Null if
        there is none (PV2), or if the earlier value is null (PV7).
        """
        steps, numbers = steps_back(call), np.arange(len(runs.order))
        has_earlier, inside = runs.before >= steps, runs.place >= steps
        rows = words[runs.order[np.where(has_earlier & inside, numbers - steps, numbers)]]
        stored = np.flatnonzero(has_earlier & ~inside)
        keys = runs.key[stored]
        slot = (state.partitions["next"][keys] + runs.place[stored] - steps) % state.longest
        rows[stored] = state.words[keys * state.longest + slot]
        number_of = np.empty(len(numbers), np.int64)
        number_of[runs.order] = numbers
        return or_null(self._columns.column(self._places[call], rows[number_of], state.strings), has_earlier[number_of])

    def _store(self, state: PreviousState, runs: Runs, words: np.ndarray, at: np.ndarray) -> None:
        """Stores the last tuples of each key."""
        size, last = state.longest, np.append(runs.key[1:] != runs.key[:-1], True)
        count = np.repeat(runs.place[last], np.diff(np.flatnonzero(last), prepend=-1)) + 1
        kept = np.flatnonzero(count - runs.place <= size)
        of_kept = runs.key[kept]
        slots = of_kept * size + (state.partitions["next"][of_kept] + runs.place[kept]) % size
        state.words[slots] = words[runs.order[kept]]
        ends = np.flatnonzero(last)
        keys, held = runs.key[ends], np.minimum(runs.before[ends] + 1, size)
        state.stored += int((held - state.partitions["size"][keys]).sum())
        state.partitions["next"][keys] = (state.partitions["next"][keys] + runs.place[ends] + 1) % size
        state.partitions["size"][keys] = held
        state.partitions["last"][keys] = at[runs.order[ends]]

    def _forget_keys(self, state: PreviousState, now: int) -> None:
        """Frees the memory of the keys that begin anew with their next tuple (PV9)."""
        last = state.partitions["last"][: state.keys.count]
        forgotten = np.zeros(len(last), np.bool_) if self.spec.forget_after is None else now - last >= self._forget
        state.compact_all(forgotten)
