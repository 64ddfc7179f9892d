"""The state of a Dedup: tables with a row per key, per period and, with `keep: last`, per stored tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.state_tables import (  # fmt: skip
    FreeSlots,
    Maps,
    PartOfKey,
    Table,
    Tables,
    distinct,
    moved_to,
    parts_of,
    words,
)
from sluice.columns.tables import Format, column
from sluice.engine.operators.compaction import should_compact
from sluice.engine.operators.dedup import dedup_records
from sluice.engine.operators.dedup.dedup_records import FREE_PERIOD, PERIODS
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import TournamentTree
from sluice.model.engine_limits import EngineLimits
from sluice.model.types import Kind, Type


@dataclass(frozen=True, slots=True)
class StoredWords:
    """What is stored of a tuple with `keep: last`: the types of its words (none with `keep: first`)."""

    types: tuple[Type, ...]
    limits: EngineLimits

    def tables(self) -> dict[str, Table]:
        """A row per key, per period and per stored tuple."""
        ends, neighbours = ("oldest", "youngest"), ("older", "younger", "leap")
        texts = [place for place, kind in enumerate(self.types) if kind.kind in (Kind.STRING, Kind.LIST)]
        return {
            "partitions": Table(
                "partition", dedup_records.PARTITION, refers=dict.fromkeys(ends, "period"),
                fresh={**dict.fromkeys(ends, NIL), "due": ENDLESS},
            ),
            "periods": Table("period", dedup_records.PERIOD, refers={
                **dict.fromkeys(neighbours, "period"), "owner": "partition", "slot": "slot",
            }),
            "words": words("slot", len(self.types), texts),
        }  # fmt: skip


class DedupState(Tables):
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
        known = stored.tables()
        self.declare(known, known)
        self.scalars = np.zeros(dedup_records.SCALARS, np.int64)
        self.scalars[FREE_PERIOD] = NIL
        self.clocks = np.full(1, NEVER, np.int64)
        self.agenda = TournamentTree(1)
        self.free = FreeSlots(np.int64)
        self.top = 0
        self.finished = False
        self.keys, self.strings = Interner(), Interner()
        #: the number of entries of all tables after the last compaction
        self.kept = 0

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": self.keys.count, "period": int(self.scalars[PERIODS]), "slot": self.top}

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of keys in memory (with and without periods) and of stored tuples."""
        return self.keys.count, self.top - len(self.free)

    def reserve_batch(self, tuples: int) -> None:
        """Makes room for all keys and slots, and for `tuples` more periods."""
        rows = self.rows
        self.reserve("partition", rows["partition"])
        self.reserve("slot", rows["slot"])
        self.reserve("period", rows["period"] + tuples)
        self.agenda.enter(self.partitions[: rows["partition"]])

    def plan(self) -> None:
        """Builds the queue of the times at which keys are due."""
        self.agenda = TournamentTree(1)
        self.agenda.enter(self.partitions[: self.rows["partition"]])

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        return super().columns() | {"free": self.free.slots}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        self.free.give(column(saved["free"], np.int64))
        self.plan()

    # ---- from one state to another ----------------------------------------------------------------------------------

    @property
    def compactable(self) -> bool:
        """Whether most entries may be unused."""
        return should_compact(self._stored.limits, self._entries, self.kept)

    def compact_all(self) -> None:
        """Removes keys without periods and unused entries. The periods that are over must have been removed before.

        O(1) amortised, if called only where `compactable`.
        """
        self.__dict__.update(self._gathered([self]).__dict__)
        self.kept = self._entries

    @property
    def _entries(self) -> int:
        return sum(self.rows.values()) + self.strings.count

    def split(self, parts: int, part_of_key: PartOfKey) -> list[DedupState]:
        open_ones = self._open_partitions()
        of = parts_of(self.keys, part_of_key)[open_ones] if len(open_ones) else np.zeros(0, np.int64)
        return [self._gathered([self], open_ones[of == part]) for part in range(parts)]

    def merge(self, others: Sequence[DedupState]) -> DedupState:
        return self._gathered([self, *others])

    def _open_partitions(self) -> np.ndarray:
        return np.flatnonzero(self.partitions["size"][: self.rows["partition"]] > 0)

    def _gathered(self, states: Sequence[DedupState], partitions: np.ndarray | None = None) -> DedupState:
        """A new state with the given partitions of other states; None: all partitions that have periods."""
        made = DedupState(self._stored)
        made.finished = states[0].finished
        made.clocks = np.max([state.clocks for state in states], axis=0)
        for state in states:
            chosen = state._open_partitions() if partitions is None else partitions  # noqa: SLF001
            if len(chosen):
                maps = made._numbered(state, chosen)
                for space, count in made.rows.items():
                    made.reserve(space, count)
                made.take(state, maps)
        made.plan()
        return made

    def _numbered(self, state: DedupState, partitions: np.ndarray) -> Maps:
        """The new numbers in this state for the rows of these partitions of another state."""
        known, rows = self.keys.count, state.rows
        numbers = distinct(self.keys.intern_arrow(state.keys.take(partitions)), known)
        partition = moved_to(partitions, numbers, rows["partition"])
        owners = state.periods["owner"][: rows["period"]]
        periods = np.flatnonzero((owners != NIL) & (partition[owners] != NIL))
        period = moved_to(periods, self.scalars[PERIODS] + np.arange(len(periods)), rows["period"])
        slot = np.full(state.top, NIL, np.int64)
        if self._stored.types:
            slots = state.periods["slot"][periods]
            slot[slots] = self.top + np.arange(len(slots))
            self.top += len(slots)
        self.scalars[PERIODS] += len(periods)
        return {"partition": partition, "period": period, "slot": slot}
