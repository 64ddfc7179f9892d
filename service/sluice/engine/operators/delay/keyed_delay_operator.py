"""The Delay operator with a key: the tuples of each key wait in a line of their own, and marks do not wait (DL8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluice.columns.key_bytes import canonical, key_codes
from sluice.columns.saved_columns import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.delay import delay_kernel
from sluice.engine.operators.delay.delay_operator import Delaying
from sluice.engine.operators.delay.keyed_delay_state import KeyedDelayState, Waiting
from sluice.engine.operators.one_input import until_final
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import MAX_TIME, TIMER, TUPLE, Items, concatenated
from sluice.engine.stream.rejected_tuples import joined, readable


class KeyedDelayOperator(Delaying[KeyedDelayState]):
    """Runs one `Delay` with `partition_by` (DL8)."""

    def initial(self) -> KeyedDelayState:
        return KeyedDelayState(self._schema)

    def load(self, data: Data) -> KeyedDelayState:
        return self.initial().read(data)

    def inspect(self, state: KeyedDelayState, key: str | None) -> list[InspectedWindow]:
        number = window_inspection.code_of(state.keys, key)
        if number < 0 or not state.counts[number]:
            return []
        parts = [piece.only(piece.key == number).tuples for piece in state.pieces]
        return self._waiting(parts, int(state.times_of(number)[0]))

    def feed(self, state: KeyedDelayState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The items that leave by `clock.end`, by stream, and the rejected tuples under REJECTS. The final mark lets
        all tuples leave at once, in order of the bytes of their keys.
        """
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, values, unread = readable(items, self.spec.partition_by, self.spec.name)
        key = key_codes(values.columns, state.keys)
        state.make_room()
        due, refused = self._times(state, items.at[items.kind == TUPLE], key)
        full = self._refused(items, _of_tuples(items, refused), "of its key ")
        at_once = self._add(state, items, key, due, refused)
        leaving = _in_order(self._leaving(state, state.leave(end)), at_once)
        if last is not None:
            state.finished = True
            rest = self._leaving(state, state.leave(MAX_TIME), by_key=True)
            count = len(rest)
            rest = replace(rest, event=np.full(count, last[0]), at=np.full(count, last[1]))
            leaving = emit.final(concatenated(leaving, rest), *last)
        state.forget(self.spec.gap, end)
        return {output.stream: leaving for output in self.spec.outputs} | joined([unread, full])

    def _times(self, state: KeyedDelayState, at: np.ndarray, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """When each tuple leaves, and the tuples for which their key has no room (DL5)."""
        due, refused = np.zeros(len(at), np.int64), np.zeros(len(at), np.bool_)
        full = np.flatnonzero(np.bincount(key, minlength=len(state.counts)) + state.counts > self.spec.buffer)
        before = state.last[full]
        delay_kernel.times_by_key(self._rule, at, key, state.last, due)
        for number, last in zip(full.tolist(), before.tolist(), strict=True):
            of_key = np.flatnonzero(key == number)
            if len(of_key):
                self._with_full_line(state, number, last, (at, due, refused), of_key)
        return due, refused

    def _with_full_line(
        self, state: KeyedDelayState, number: int, last: int, columns: tuple[np.ndarray, ...], of_key: np.ndarray
    ) -> None:
        """Computes the times of the tuples `of_key` of a key once more, without the tuples that find no room."""
        at, due, refused = columns
        waiting_times = state.times_of(number)
        line, lasts = np.concatenate([waiting_times, np.zeros(len(of_key), np.int64)]), np.array([last, last])
        times, without = np.zeros(len(of_key), np.int64), np.zeros(len(of_key), np.bool_)
        are_tuples = np.ones(len(of_key), np.bool_)
        delay_kernel.times(self._rule, at[of_key], are_tuples, line, len(waiting_times), lasts, times, without)
        due[of_key], refused[of_key] = times, without
        state.last[number] = lasts[delay_kernel.LAST_TUPLE]

    def _add(
        self, state: KeyedDelayState, items: Items, key: np.ndarray, due: np.ndarray, refused: np.ndarray
    ) -> Items:
        """Adds the tuples that wait. Gives the items that leave when they came."""
        is_tuple = items.kind == TUPLE
        leaves = due == items.at[is_tuple]
        waits = ~leaves & ~refused
        tuples, source = items.tuples.filter(pa.array(waits)), items.source[is_tuple][waits].astype(np.int64)
        state.add(Waiting.sorted(tuples, due[waits], source, key[waits]))
        return items.only(~is_tuple | _of_tuples(items, leaves & ~refused))

    def _leaving(self, state: KeyedDelayState, waiting: Waiting, *, by_key: bool = False) -> Items:
        """The tuples as items that the clock causes. Tuples of one time, or all, are in order of their keys."""
        key, keys = emit.named(waiting.key, state.keys)
        rank = np.empty(len(keys), np.int64)
        rank[canonical(keys)] = np.arange(len(keys))
        order = np.lexsort((waiting.due * (not by_key), rank[key])[:: -1 if not by_key else 1])
        count = len(order)
        return Items(
            np.full(count, TIMER, np.int64), waiting.due[order], np.full(count, TUPLE, np.int8),
            waiting.source[order].astype(np.int32), key[order].astype(np.int32), keys,
            waiting.tuples.take(pa.array(order)),
        )  # fmt: skip


def _of_tuples(items: Items, chosen: np.ndarray) -> np.ndarray:
    """A mask of the items, from the mask `chosen` of their tuples."""
    mask: np.ndarray = items.kind == TUPLE
    mask[mask] = chosen
    return mask


def _in_order(timed: Items, passing: Items) -> Items:
    """Both in the order of their times: what the clock causes is before an item that comes at the same time."""
    all_items = concatenated(timed, passing)
    return all_items.take(np.lexsort((np.arange(len(all_items)) >= len(timed), all_items.at)))
