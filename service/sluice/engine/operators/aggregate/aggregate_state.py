"""What an aggregate remembers between batches: records per partition, per cell and per stored tuple."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np

from sluice.columns.interner import Strings
from sluice.columns.intrusive_list import NOBODY
from sluice.columns.pairing_heap import NODE
from sluice.columns.slot_allocator import Free
from sluice.columns.tables import Data, Saved, StateError, column, grown, load, save
from sluice.engine.contents.blocks import COUNTS, IDLE, PARTS
from sluice.engine.contents.group_contents import CELL, ENDS
from sluice.engine.contents.multisets import TABLE, Table
from sluice.engine.contents.ring import RING
from sluice.engine.operators.aggregate.aggregate_program import Program, widths
from sluice.engine.windows import processing_time
from sluice.engine.windows.processing_time import LIVE, TICK, time_queue
from sluice.time_units import UNSET

#: tables of records: the window's, and those of its contents
PER_PARTITION = processing_time.PER_PARTITION | {"ends": ENDS, "rings": RING}
PER_CELL = {"cells": CELL}
PER_SLOT = processing_time.PER_SLOT | {"cell_of": np.dtype(np.int32), "links": processing_time.CHAIN, "nodes": NODE}
#: tables of words, as many in each row as `widths` says: per partition, per cell, and per slot or block
PER_PARTITION_WORDS, PER_CELL_WORDS, PER_SLOT_WORDS = ("sources", "ringed"), ("back",), ("words", "blocks", "stack")
WORDS = (*PER_PARTITION_WORDS, *PER_CELL_WORDS, "spread", *PER_SLOT_WORDS)
STRINGS = ("keys", "groups", "pairs", "strings")


def needed(program: Program) -> set[str]:
    """The names of the tables that are not always empty.

    The tuples of a cell have links of their own where it is not the whole partition, and where the window's do not
    serve: a tumbling one has none, and where tuples leave by value, wherever they stand, they no longer say who stood
    beside them. Where they are packed, their blocks have. Rings need nothing else.
    """
    names = processing_time.needed(program.clause) | {"sources"}
    if program.ring:
        return names | {"rings", "ringed"}
    by_value = "order" in names
    linked = program.group_by or by_value or program.packed if program.clause.sliding else program.listing
    more = {
        "ends": program.group_by, "cell_of": program.group_by, "links": linked, "nodes": by_value,
        "blocks": program.packed, "words": not program.packed,
    }  # fmt: skip
    return names | {"cells", "back", "stack"} | {name for name, wanted in more.items() if wanted}


class AggregateState:
    """Partition ids are codes of `keys`; cell ids are partition ids or, with `group_by`, codes of `pairs`.

    What is said of slots holds for blocks where tuples are packed, `block` in each. Then, and where they are in rings,
    `words` are those of a batch.
    """

    SLOTS: ClassVar[dict[str, tuple[str, ...]]] = processing_time.SLOTS | {
        "links": ("younger", "older"), "nodes": ("next", "below"), "cells": ("oldest", "youngest", "root"),
    }  # fmt: skip

    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    ends: np.ndarray
    rings: np.ndarray
    ringed: np.ndarray
    cells: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    cell_of: np.ndarray
    links: np.ndarray
    nodes: np.ndarray
    sources: np.ndarray
    back: np.ndarray
    spread: np.ndarray
    words: np.ndarray
    blocks: np.ndarray
    stack: np.ndarray

    def __init__(self, program: Program, sources: int) -> None:
        """`sources` is the number of topic partitions."""
        names, row = needed(program), widths(program, sources)
        self.block, self.ring, self.packed, self.queued = program.block, program.ring, program.packed, "queue" in names
        self.scalars = processing_time.scalars()
        self.scalars[TICK] = UNSET  # while the timer has not started
        for name, dtype in (PER_PARTITION | PER_CELL | PER_SLOT | processing_time.OTHER).items():
            setattr(self, name, np.zeros(0, dtype))
        for name in WORDS:
            setattr(self, name, np.zeros((0, row[name]), np.int64))
        self.per_partition = [name for name in (*PER_PARTITION, *PER_PARTITION_WORDS) if name in names]
        self.per_cell = [name for name in (*PER_CELL, *PER_CELL_WORDS) if name in names]
        #: parts of `spread` that no cell has, and how many there are of all that (packing.py)
        self.idle, self.used = np.zeros(0, np.int32), np.zeros(COUNTS, np.int64)
        self.per_slot = [name for name in (*PER_SLOT, *PER_SLOT_WORDS) if name in names]
        #: slots below `top` that hold no tuple
        self.free = Free(np.int32)
        self.top = 0
        #: whether the final mark came
        self.finished = False
        self.keys, self.groups, self.pairs = Strings(), Strings(), Strings()
        #: the texts and lists among the words
        self.strings = Strings()
        #: entries of `keys` and `strings` after the last clean-up
        self.kept_keys = self.kept_strings = 0
        #: how often each value is in each cell
        self.counted = Table(program.series)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through. A window that keeps no more than its summary stores no tuples.
        """
        tuples = int(self.scalars[LIVE]) if self.packed or self.ring else self.top - len(self.free)
        return self.keys.count or min(1, len(self.partitions)), tuples

    @property
    def rows(self) -> np.ndarray:
        """The words of tuples by slot, or by place."""
        if self.ring:
            return self.ringed.reshape(len(self.ringed) * self.ring, self.words.shape[1])
        if self.packed:
            return self.blocks.reshape(len(self.blocks) * self.block, self.words.shape[1])
        return self.words

    @property
    def stored(self) -> np.ndarray:
        """Those below `top`."""
        return self.rows if self.ring else self.rows[: self.top * self.block]

    def reserve_partitions(self, count: int) -> None:
        known = len(self.ends)
        self._reserve(self.per_partition, count)
        self.ends[known:] = NOBODY

    def reserve_cells(self, count: int) -> None:
        self._reserve(self.per_cell, count)
        if self.packed and len(self.spread) < count:  # no more than one for each, and most of them may never be used
            self.spread = grown(self.spread[: self.used[PARTS]], count)
            self.idle = grown(self.idle, len(self.spread))

    def reserve_slots(self, count: int) -> None:
        self._reserve(self.per_slot, count)

    def reserve_words(self, count: int) -> None:
        """Those of a batch, where slots have none."""
        self._reserve(["words"], count)

    def reserve_queue(self, count: int) -> None:
        if self.queued:
            self.queue = time_queue.roomy(self.queue, self.scalars, count)

    def save(self) -> Saved:
        partitions = max(1, self.keys.count)
        cells = max(partitions, self.pairs.count)
        tables = {name: getattr(self, name)[:0] for name in (*PER_PARTITION, *PER_CELL, *PER_SLOT, *WORDS)}
        for names, count in ((self.per_partition, partitions), (self.per_cell, cells), (self.per_slot, self.top)):
            tables |= {name: getattr(self, name)[:count] for name in names}
        tables |= {"spread": self.spread[: self.used[PARTS]], "idle": self.idle[: self.used[IDLE]]}
        tables["queue"] = time_queue.in_order(self.queue, self.scalars)
        for name in STRINGS:
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        tables |= {f"counted.{name}": values for name, values in self.counted.save().items()}
        rest = np.array([self.top, self.finished, self.kept_keys, self.kept_strings], np.int64)
        widths = np.array([getattr(self, name).shape[1] for name in WORDS], np.int64)
        return save(
            tables
            | {"free": self.free.slots, "scalars": self.scalars, "used": self.used, "rest": rest, "widths": widths}
        )

    @classmethod
    def load(cls, data: Data, program: Program, sources: int) -> AggregateState:
        """Raises StateError where `data` is not what the `save` of such an aggregate wrote."""
        state, saved = cls(program, sources), load(data)
        for name, dtype in (
            PER_PARTITION | PER_CELL | PER_SLOT | processing_time.OTHER | {"scalars": np.int64}
        ).items():
            setattr(state, name, column(saved[name], dtype))
        state.queue = time_queue.restored(state.queue, state.scalars)
        state.free.give(column(saved["free"], np.int32))
        state.top, finished, state.kept_keys, state.kept_strings = column(saved["rest"], np.int64).tolist()
        state.finished = bool(finished)
        state.idle, state.used = column(saved["idle"], np.int32), column(saved["used"], np.int64)
        rows = {"spread": int(state.used[PARTS])} | dict.fromkeys(state.per_slot, state.top)
        rows |= dict.fromkeys(state.per_partition, len(state.partitions))
        rows |= dict.fromkeys(state.per_cell, len(state.cells))
        for name, width in zip(WORDS, column(saved["widths"], np.int64).tolist(), strict=True):
            if width != getattr(state, name).shape[1] and name != "sources":
                msg = "the saved state belongs to another aggregate"
                raise StateError(msg)
            setattr(state, name, column(saved[name], np.int64).reshape(rows.get(name, 0), width))
        state.idle = grown(state.idle, len(state.spread))
        state.sources = _widened(state.sources, widths(program, sources)["sources"])
        state.counted.restore(*(column(saved[f"counted.{name}"], kind) for name, kind in TABLE.items()))
        for name in STRINGS:
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        return state

    def _reserve(self, names: Collection[str], count: int) -> None:
        for name in names:
            setattr(self, name, grown(getattr(self, name), count))


def _widened(sources: np.ndarray, width: int) -> np.ndarray:
    """With at least `width` words a row: a stream may have gained topic partitions."""
    if sources.shape[1] >= width:
        return sources
    wider = np.zeros((len(sources), width), np.int64)
    wider[:, : sources.shape[1]] = sources
    return wider
