"""What operators with one input do with a batch: the base classes of aggregates and dedups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sluice.columns.scratch_buffers import Scratch
from sluice.engine.operators.operator import OperatorState, Stateful
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, Items
from sluice.engine.stream.rejected_tuples import joined, readable, rejected_late, without
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.model.expressions import Expression
from sluice.model.spec import Aggregate, Dedup
from sluice.time_units import UNSET


class HasFinishedFlag(Protocol):
    """A state with a flag for the final mark."""

    finished: bool


class FinishedState(OperatorState, HasFinishedFlag, Protocol):
    """The part of a state that the base classes read."""


S = TypeVar("S", bound=FinishedState)
#: the outputs by stream, and the tuples that were rejected
Handled = tuple[dict[str, Items], list[Items | None]]
#: a batch up to its final mark: the items, the values that the operator reads of their tuples, their times in ticks,
#: further columns of the arrivals by name, and the tuples that were rejected
Usable = tuple[Items, pa.RecordBatch, np.ndarray, dict[str, np.ndarray], list[Items | None]]


def until_final(state: HasFinishedFlag, items: Items, clock: Clock) -> tuple[Items, tuple[int, int] | None, int]:
    """Cuts the items off at the final mark. Gives the items before it, its (event, time) or None, and the time until
    which timers fire.

    The windows do not get the final mark, so it flushes none of them (P10). Nothing is emitted after it (P14).
    """
    if state.finished:
        return items.first(0), None, UNSET
    ends = np.flatnonzero(items.kind == FINAL)
    if not len(ends):
        return items, None, clock.end
    last = (int(items.event[ends[0]]), int(items.at[ends[0]]))
    return items.first(int(ends[0])), last, last[1]


def with_times(
    ticks: Ticks, sized: str, items: Items, values: pa.RecordBatch, operator: str
) -> tuple[Items, pa.RecordBatch, np.ndarray, Items | None]:
    """Rejects the tuples without a usable time. Gives the other items, their part of `values`, their times in ticks,
    and the rejected tuples or None.
    """
    times, bad = ticks.times(items)
    if bad is None:
        return items, values, times, None
    null = items.tuples.column(ticks.attribute).is_null().filter(pa.array(bad)).to_pylist()
    reasons = [f"{ticks.attribute} is null" if absent else ticks.refusal(sized) for absent in null]
    items, values, rejects = without(bad, items, values, operator, reasons)
    return items, values, times[~bad], rejects


class BatchOperator(Stateful[S], ABC):
    """Cuts a batch at the final mark, computes what the operator reads of its tuples, and appends the final mark to the
    outputs. The operator has no state: `feed` changes the state that is its argument.
    """

    spec: Aggregate | Dedup
    #: the expressions over a tuple that the operator needs
    reads: Sequence[Expression]

    def __init__(self) -> None:
        self._scratch = Scratch()

    def feed(self, state: S, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs by stream that these items cause, and the clock until `clock.end` (inclusive); and the rejected
        tuples under REJECTS.
        """
        (items,) = inputs
        items, last, end = until_final(state, items, clock)
        items, values, unread = readable(items, self.reads, self.spec.name)
        outputs, rejects = self._handle(state, items, values, end, last)
        if last is not None:
            state.finished = True
            outputs = {stream: emit.final(output, *last) for stream, output in outputs.items()}
        return outputs | joined([unread, *rejects])

    @abstractmethod
    def _handle(
        self, state: S, items: Items, values: pa.RecordBatch, end: int, last: tuple[int, int] | None
    ) -> Handled:
        """Handles the items and the clock until `end`. `last`: (event, time) of the final mark behind the items."""


class TimedOperator(BatchOperator[S]):
    """Rejects the tuples that have no usable time or are late."""

    #: the times by which the operator works
    ticks: Ticks
    #: that which has a size in ticks, for messages
    sized = "window"

    def _handle(
        self, state: S, items: Items, values: pa.RecordBatch, end: int, last: tuple[int, int] | None
    ) -> Handled:
        items, values, times, more, unusable = self._usable(items, values)
        arrivals = self.arrive(state, items, values, times, more)
        outputs, late, unmade = self._pass(state, items, arrivals, end, last)
        rejects = rejected_late(items, self.spec.name, late, arrivals["time"][late["item"]], self.reason)
        return outputs, [*unusable, rejects, *unmade]

    def _usable(self, items: Items, values: pa.RecordBatch) -> Usable:
        items, values, times, untimed = with_times(self.ticks, self.sized, items, values, self.spec.name)
        return items, values, times, {}, [untimed]

    @abstractmethod
    def arrive(
        self, state: S, items: Items, values: pa.RecordBatch, times: np.ndarray, more: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Stores the tuples. Gives the arrivals: a record for each item."""

    @abstractmethod
    def _pass(
        self, state: S, items: Items, arrivals: np.ndarray, end: int, last: tuple[int, int] | None
    ) -> tuple[dict[str, Items], np.ndarray, list[Items | None]]:
        """The outputs by stream, the late tuples, and the tuples for which an output has no value."""

    @abstractmethod
    def reason(self, time: int, behind: int) -> str:
        """Why a tuple with the time `time` that is `behind` ticks late is rejected."""
