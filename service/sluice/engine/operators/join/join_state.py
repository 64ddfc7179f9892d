"""What a join remembers between batches: of each side the window, its tuples, and who of them met somebody."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sluice.columns.interner import Strings
from sluice.columns.tables import Data, Saved, column, grown, load, save
from sluice.engine.operators import compaction
from sluice.engine.operators.join.join_kernel import BUCKET, FREED, FROZEN, HELD, NAME, NOTHING, REACHED
from sluice.engine.operators.stored_tuples import Held
from sluice.engine.windows.policies import Clause
from sluice.model.types import Type
from sluice.time_units import UNSET

SIDES = ("left", "right")
Types = tuple[Type, ...]


class SideState(Held):
    """One side. Slot NOTHING, the first one, holds the default tuple."""

    PER_SLOT: ClassVar = Held.PER_SLOT | {"held": HELD}
    OTHER: ClassVar = Held.OTHER | {"buckets": BUCKET, "state": np.int64}
    SLOTS: ClassVar = Held.SLOTS | {"held": ("older", "younger"), "buckets": ("oldest", "youngest")}

    def __init__(self, types: Types, clause: Clause) -> None:
        super().__init__(types, clause, reserved=NOTHING + 1)
        self.buckets = np.zeros(1, BUCKET)
        #: FROZEN, FREED and REACHED
        self.state = np.zeros(3, np.int64)
        self.state[REACHED] = UNSET

    held: np.ndarray

    def leave(self, freed: np.ndarray) -> None:
        """`freed` has the slots of what left in a batch."""
        self.release(freed[: self.state[FREED]])
        self.state[FREED] = 0


class JoinState:
    """Both sides, and what they share: the keys that must be equal, and the texts and lists among the words."""

    def __init__(self, types: tuple[Types, Types], clauses: tuple[Clause, Clause]) -> None:
        self.sides = tuple(map(SideState, types, clauses))
        self.keys, self.strings = Strings(), Strings()
        self.kept_keys = self.kept_strings = 0
        #: scratch: the keys of a batch by number
        self.names = np.zeros(1, NAME)
        self.batch = 0

    @property
    def finished(self) -> bool:
        """Whether both final marks came."""
        return all(side.state[FROZEN] for side in self.sides)

    @property
    def sizes(self) -> tuple[int, int]:
        """As of each side, added up."""
        partitions, tuples = zip(*(side.sizes for side in self.sides), strict=True)
        return sum(partitions), sum(tuples)

    def reserve_keys(self) -> None:
        count = max(1, self.keys.count)
        for side in self.sides:
            side.buckets = grown(side.buckets, count)
        self.names = grown(self.names, count)

    def save(self) -> Saved:
        tables = {"rest": np.array([self.kept_keys, self.kept_strings], np.int64)}
        for name, side in zip(SIDES, self.sides, strict=True):
            tables |= {f"{name}.{table}": values for table, values in side.tables().items()}
        for name in ("keys", "strings"):
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        return save(tables)

    @classmethod
    def load(cls, data: Data, types: tuple[Types, Types], clauses: tuple[Clause, Clause]) -> JoinState:
        """Raises StateError where `data` is not what the `save` of such a join wrote."""
        state, saved = cls(types, clauses), load(data)
        for name, side in zip(SIDES, state.sides, strict=True):
            own = f"{name}."
            side.restore({table.removeprefix(own): part for table, part in saved.items() if table.startswith(own)})
        for name in ("keys", "strings"):
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        state.kept_keys, state.kept_strings = column(saved["rest"], np.int64).tolist()
        state.reserve_keys()
        return state

    def clean(self) -> None:
        """Forgets what no window holds, where much came since."""
        tuples = sum(side.top for side in self.sides)
        for side in self.sides:
            side.forget_partitions()
        if compaction.outgrown(self.keys.count, self.kept_keys, tuples):
            self._forget_keys()
        if compaction.outgrown(self.strings.count, self.kept_strings, tuples):
            old, self.strings = self.strings, Strings()
            for side in self.sides:
                side.intern_anew(old, self.strings)
            self.kept_strings = self.strings.count

    def _forget_keys(self) -> None:
        count = self.keys.count
        stored = [compaction.stored(side)[NOTHING + 1 :] for side in self.sides]
        codes = [side.held["key"][slots] for side, slots in zip(self.sides, stored, strict=True)]
        kept = np.unique(np.concatenate(codes))
        renamed = self.keys.keep(kept)
        for side, slots in zip(self.sides, stored, strict=True):
            compaction.move(side.buckets, kept, count)
            for code in ("key", "bucket"):
                side.held[code][slots] = compaction.rename(side.held[code][slots], renamed)
        self.names["batch"] = 0
        self.kept_keys = self.keys.count
