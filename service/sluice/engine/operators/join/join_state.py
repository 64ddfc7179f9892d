"""The state of a Join: for each side the window, the stored tuples, and which of them have matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Data, Format, Saved, SavedColumns, column, grown, load
from sluice.columns.state_tables import Maps, PartOfKey, Table, added_keys, keep_texts, moved_to, parts_of, walked
from sluice.engine.operators import compaction
from sluice.engine.operators.join.join_kernel import BUCKET, FREED, NAME, NOTHING, REACHED, STORED_TUPLE
from sluice.engine.operators.stored_tuples import StoredTuples
from sluice.engine.windows.policies import KernelClause
from sluice.engine.windows.processing_time import FIRST, LAST, LIVE, STORED, time_queue
from sluice.model.engine_limits import EngineLimits
from sluice.time_units import UNSET

SIDES = ("left", "right")
FORMAT = Format("join", 2)


class SideState(StoredTuples):
    """The state of one side of a join.

    Slot NOTHING, the first one, has the default tuple. `keys` interns the keys of the window's partitions. The row
    space "key" has a row for each key of the join's equalities; both sides use the same numbers for these keys.
    """

    OWN_TABLES: ClassVar[Mapping[str, Table]] = {
        "stored_tuples": Table(
            "slot", STORED_TUPLE, refers={"older": "slot", "younger": "slot", "bucket": "key", "key": "key"}
        ),
        "buckets": Table("key", BUCKET, refers={"oldest": "slot", "youngest": "slot"}),
    }
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {**StoredTuples.ARRAYS, "state": np.dtype(np.int64)}

    stored_tuples: np.ndarray
    buckets: np.ndarray

    def __init__(self, layout: WordColumns, clause: KernelClause, limits: EngineLimits) -> None:
        super().__init__(layout, clause, limits, reserved=NOTHING + 1)
        self.reserve("key", 1)
        #: the entries FROZEN, FREED and REACHED: see join_kernel.Side.state
        self.state = np.zeros(3, np.int64)
        self.state[REACHED] = UNSET

    @property
    def rows(self) -> Mapping[str, int]:
        return {**super().rows, "key": len(self.buckets)}

    def leave(self, freed: np.ndarray) -> None:
        """Frees the slots of the tuples that left in a batch: the first FREED entries of `freed`."""
        self.release(freed[: self.state[FREED]])
        self.state[FREED] = 0

    def stored(self) -> np.ndarray:
        """The slots of the stored tuples, without the slot of the default tuple."""
        return self.stored_slots()[NOTHING + 1 :]

    def gather(self, chosen: Sequence[tuple[SideState, np.ndarray, np.ndarray]]) -> None:
        """Copies tuples from other states of this side. `chosen` has states, their slots, and the maps of their keys.

        A window partition moves with its tuples. On a side without partitions each tuple expires by its own time, so
        its tuples may go to several states; each of these states gets the one partition.
        """
        sources = []
        for state, slots, key in chosen:
            partition = self._partitions(state, slots)
            slot = moved_to(slots, self.top + np.arange(len(slots)), state.top)
            slot[NOTHING] = NOTHING
            self.top += len(slots)
            sources.append((state, {"partition": partition, "slot": slot, "key": key}))
        self.reserve("partition", max(1, self.keys.count))
        self.reserve("slot", self.top)
        self.state[:] = chosen[0][0].state
        self.take_windows(sources)
        self.kept_keys = self.keys.count
        if not self.keys.count and self.queued:
            self._chain_by_arrival()

    def _partitions(self, state: SideState, slots: np.ndarray) -> np.ndarray:
        """The new numbers in this state for the partitions of another state that hold these tuples."""
        if not state.keys.count:
            return np.zeros(1, np.int64) if len(slots) else np.full(1, NIL, np.int64)
        heads = np.where(state.partitions["size"] > 0, state.partitions["oldest"], NIL)[: state.keys.count]
        members, partition = walked(heads, state.chain["younger"])
        is_moved = np.zeros(state.top, np.bool_)
        is_moved[slots] = True
        partitions = np.unique(partition[is_moved[members]])
        return moved_to(partitions, self.keys.intern_arrow(state.keys.take(partitions)), state.keys.count)

    def entries(self, source: SideState, maps: Maps) -> np.ndarray:
        """The queue entries of the tuples that move: some tuples of a partition may move and others not."""
        entries = super().entries(source, maps)
        moving: np.ndarray = entries[entries["slot"] != NIL]
        return moving

    def _chain_by_arrival(self) -> None:
        """Links the tuples of the only partition anew, in the order of the queue."""
        slots = time_queue.in_order(self.queue, self.scalars)["slot"]
        ends = np.concatenate([[NIL], slots, [NIL]])
        self.chain["older"][slots], self.chain["younger"][slots] = ends[:-2], ends[2:]
        partition = self.partitions[:1]
        partition["oldest"], partition["youngest"], partition["size"] = ends[1], ends[-2], len(slots)
        partition["following"] = partition["preceding"] = NIL
        self.scalars[[FIRST, LAST]] = 0 if len(slots) else NIL
        self.scalars[STORED], self.scalars[LIVE] = int(len(slots) > 0), len(slots)


class JoinState:
    """The state of a Join: both sides, and two interners that they share: of equality keys, and of texts and lists."""

    def __init__(
        self, layouts: tuple[WordColumns, WordColumns], clauses: tuple[KernelClause, KernelClause], limits: EngineLimits
    ) -> None:
        self.limits = limits
        self.sides = tuple(SideState(*side, limits) for side in zip(layouts, clauses, strict=True))
        self.keys, self.strings = Interner(), Interner()
        self.kept_keys = self.kept_strings = 0
        #: scratch memory: the numbers of keys within a batch
        self.names = np.zeros(1, NAME)
        self.batch = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """The sums of the sizes of both sides."""
        partitions, tuples = zip(*(side.sizes for side in self.sides), strict=True)
        return sum(partitions), sum(tuples)

    def reserve_keys(self) -> None:
        count = max(1, self.keys.count)
        for side in self.sides:
            side.reserve("key", count)
        self.names = grown(self.names, count)

    def save(self) -> Saved:
        tables = {"numbers": np.array([self.kept_keys, self.kept_strings], np.int64)}
        for name, side in zip(SIDES, self.sides, strict=True):
            tables |= {f"{name}.{table}": values for table, values in side.columns().items()}
        for name in ("keys", "strings"):
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        return SavedColumns(tables, FORMAT)

    def read(self, data: Data) -> JoinState:
        """Replaces the contents by what `save` gave. Raises StateError if the data is not of such a join."""
        saved = load(data, FORMAT)
        for name, side in zip(SIDES, self.sides, strict=True):
            prefix = f"{name}."
            side.restore(
                {table.removeprefix(prefix): part for table, part in saved.items() if table.startswith(prefix)}
            )
        for name in ("keys", "strings"):
            setattr(self, name, Interner.load({part: saved[f"{name}.{part}"] for part in Interner.PARTS}))
        self.kept_keys, self.kept_strings = column(saved["numbers"], np.int64).tolist()
        self.reserve_keys()
        return self

    def clean(self) -> None:
        """Removes unused partitions, keys and texts, if enough were added since the last compaction."""
        tuples = sum(side.top for side in self.sides)
        for side in self.sides:
            side.remove_empty_partitions()
        if compaction.should_compact(self.limits, self.keys.count, self.kept_keys, tuples):
            self._forget_keys()
        if compaction.should_compact(self.limits, self.strings.count, self.kept_strings, tuples):
            keep_texts(self.strings, [table for side in self.sides for table in side.texts()])
            self.kept_strings = self.strings.count

    def _forget_keys(self) -> None:
        count = self.keys.count
        kept = np.unique(np.concatenate([side.stored_tuples["key"][side.stored()] for side in self.sides]))
        kept = kept[kept != NIL]
        self.keys.keep(kept)
        for side in self.sides:
            side.compact("key", kept, count)
        self.names["batch"] = 0
        self.kept_keys = self.keys.count

    # ---- split and merge --------------------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[JoinState]:
        """Divides the tuples by the keys of the equalities. Without equalities all tuples are in part 0."""
        part_of = np.append(parts_of(self.keys, part_of_key), 0)  # the last entry is for NIL
        return [self._gathered([(self, part_of == part)]) for part in range(parts)]

    def merge(self, others: Sequence[JoinState]) -> JoinState:
        return self._gathered([(state, np.ones(state.keys.count + 1, np.bool_)) for state in (self, *others)])

    def _gathered(self, chosen: Sequence[tuple[JoinState, np.ndarray]]) -> JoinState:
        """A new state with the tuples of other states whose keys are chosen by a mask.

        The mask of a state has an entry for each key; its last entry is for tuples without a key.
        """
        layouts, clauses = tuple(side.layout for side in self.sides), tuple(side.clause for side in self.sides)
        target = JoinState((layouts[0], layouts[1]), (clauses[0], clauses[1]), self.limits)
        slots = [[stored[is_moved_key[side.stored_tuples["key"][stored]]] for side in state.sides
                  for stored in (side.stored(),)]
                 for state, is_moved_key in chosen]  # fmt: skip
        keys = [target._keys_of(state, stored) for (state, _), stored in zip(chosen, slots, strict=True)]
        target.reserve_keys()
        for number, side in enumerate(target.sides):
            side.strings = target.strings
            for state, _ in chosen:
                state.sides[number].strings = state.strings
            side.gather([
                (state.sides[number], stored[number], key)
                for (state, _), stored, key in zip(chosen, slots, keys, strict=True)
            ])  # fmt: skip
        target.kept_keys, target.kept_strings = target.keys.count, target.strings.count
        return target

    def _keys_of(self, state: JoinState, slots: Sequence[np.ndarray]) -> np.ndarray:
        """The new numbers in this state for the keys of these tuples, the slots of both sides of another state.

        Without equalities all tuples have the first row. Raises StateError if this state has one of the keys already.
        """
        count = max(1, len(state.sides[0].buckets))
        if not state.keys.count:
            return moved_to(np.zeros(int(any(map(len, slots))), np.int64), 0, count)
        sides = zip(state.sides, slots, strict=True)
        codes = np.unique(np.concatenate([side.stored_tuples["key"][stored] for side, stored in sides]))
        codes = codes[codes != NIL]
        return moved_to(codes, added_keys(self.keys, state.keys, codes), count)
