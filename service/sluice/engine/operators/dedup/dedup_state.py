"""The state of a Dedup: tables with a row per key, per period and, with `keep: last`, per stored tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sluice.columns.encoding import WordColumns
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import Maps, Table, added_keys, moved_to, words_of
from sluice.engine.operators.dedup import dedup_records
from sluice.engine.operators.dedup.dedup_records import FREE_PERIOD, PERIODS
from sluice.engine.operators.keyed_state import PartitionedState
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.model.engine_limits import EngineLimits


@dataclass(frozen=True, slots=True)
class StoredWords:
    """The stored columns of a tuple with `keep: last`; none with `keep: first`."""

    columns: WordColumns
    limits: EngineLimits

    def tables(self) -> dict[str, Table]:
        """A row per key, per period and per stored tuple."""
        ends, neighbours = ("oldest", "youngest"), ("older", "younger", "leap")
        return {
            "partitions": Table(
                "partition", dedup_records.PARTITION, refers=dict.fromkeys(ends, "period"),
                fresh={**dict.fromkeys(ends, NIL), "due": ENDLESS},
            ),
            "periods": Table("period", dedup_records.PERIOD, refers={
                **dict.fromkeys(neighbours, "period"), "owner": "partition", "slot": "slot",
            }),
            "words": words_of("slot", self.columns),
        }  # fmt: skip


class DedupState(PartitionedState):
    """The state of one Dedup.

    The number of a partition is the code of its key in `keys`. `clocks` is the watermark, or the time of the operator
    clock. `top` slots were ever used, and `free` has the unused ones of these.
    """

    FORMAT: ClassVar[Format] = Format("dedup", 1)
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "finished", "kept")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = dict.fromkeys(("scalars", "clocks"), np.dtype(np.int64))
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "strings")

    partitions: np.ndarray
    periods: np.ndarray
    words: np.ndarray

    def __init__(self, stored: StoredWords) -> None:
        self._stored = stored
        self.declare(stored.tables())
        self.scalars = np.zeros(dedup_records.SCALARS, np.int64)
        self.scalars[FREE_PERIOD] = NIL
        self.clocks = np.full(1, NEVER, np.int64)
        self.begin()

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": self.keys.count, "period": int(self.scalars[PERIODS]), "slot": self.top}

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of keys in memory (with and without periods) and of periods; each counts as one tuple. O(1)."""
        return self.keys.count, int(self.held[0])

    def plan(self) -> None:
        """Builds what is not saved: the queue of the times at which keys are due, and the number of periods."""
        super().plan()
        self.held[0] = self.queued["size"].sum()

    def reserve_batch(self, tuples: int) -> None:
        """Makes room for all keys and slots, and for `tuples` more periods."""
        rows = self.rows
        self.reserve("partition", rows["partition"])
        self.reserve("slot", rows["slot"])
        self.reserve("period", rows["period"] + tuples)
        self.agenda.enter(self.queued)

    @property
    def limits(self) -> EngineLimits:
        return self._stored.limits

    def open_keys(self) -> np.ndarray:
        return np.flatnonzero(self.partitions["size"][: self.rows["partition"]] > 0)

    def new(self, states: Sequence[DedupState]) -> DedupState:
        new_state = DedupState(self._stored)
        new_state.finished = states[0].finished
        new_state.clocks = np.max([state.clocks for state in states], axis=0)
        return new_state

    def numbered(self, state: DedupState, partitions: np.ndarray) -> Maps:
        numbers, rows = added_keys(self.keys, state.keys, partitions), state.rows
        partition = moved_to(partitions, numbers, rows["partition"])
        owners = state.periods["owner"][: rows["period"]]
        periods = np.flatnonzero((owners != NIL) & (partition[owners] != NIL))
        period = moved_to(periods, self.scalars[PERIODS] + np.arange(len(periods)), rows["period"])
        slot = np.full(state.top, NIL, np.int64)
        if self._stored.columns.types:
            slots = state.periods["slot"][periods]
            slot[slots] = self.top + np.arange(len(slots))
            self.top += len(slots)
        self.scalars[PERIODS] += len(periods)
        return {"partition": partition, "period": period, "slot": slot}
