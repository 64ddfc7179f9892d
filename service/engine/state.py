"""What an aggregate remembers between batches: records per partition, per cell and per stored tuple."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np

from service.engine import windows
from service.engine.contents import CELL, ENDS
from service.engine.free import Free
from service.engine.linked import NOBODY
from service.engine.multisets import TABLE, Table
from service.engine.packing import COUNTS, IDLE, PARTS
from service.engine.program import Program
from service.engine.store import Data, Saved, StateError, column, grown, load, save
from service.engine.strings import Strings
from service.engine.trees import NODE
from service.engine.windows import LIVE, TICK, queue
from service.times import UNSET

#: tables of records: the window's, and those of its contents
PER_PARTITION = windows.PER_PARTITION | {"ends": ENDS}
PER_CELL = {"cells": CELL}
PER_SLOT = windows.PER_SLOT | {"cell_of": np.dtype(np.int32), "links": windows.CHAIN, "trees": NODE}
#: tables of words, as many in each row as `widths` says: per partition, per cell, and per slot or block
PER_SLOT_WORDS = ("words", "blocks", "stack")
WORDS = ("sources", "back", "spread", *PER_SLOT_WORDS)
STRINGS = ("keys", "groups", "pairs", "strings")


def needed(program: Program) -> set[str]:
    """The names of the tables that are not always empty.

    The tuples of a cell have links of their own where it is not the whole partition, and where the window's do not
    serve: a tumbling one has none, and where tuples leave by value, wherever they stand, they no longer say who stood
    beside them. Where they are packed, their blocks have.
    """
    names = windows.needed(program.clause)
    by_value = "order" in names
    linked = program.group_by or by_value or program.packed if program.clause.sliding else program.listing
    more = {
        "cell_of": program.group_by, "links": linked, "trees": by_value,
        "blocks": program.packed, "words": not program.packed, "stack": True,
    }  # fmt: skip
    return names | {name for name, wanted in more.items() if wanted}


class AggregateState:
    """Partition ids are codes of `keys`; cell ids are partition ids or, with `group_by`, codes of `pairs`.

    `series` says what is counted. `widths` gives the words in a row of `words` (per tuple) and `blocks` (of several),
    of `back` and `stack` (per summary) and `spread` (of several), and of `sources` (one for 64 topic partitions),
    `needed` the tables that are not always empty.

    What is said of slots holds for blocks where tuples are packed, `block` in each. Then `words` are those of a batch.
    """

    SLOTS: ClassVar[dict[str, tuple[str, ...]]] = windows.SLOTS | {
        "links": ("younger", "older"), "trees": ("above", "older", "younger"), "cells": ("oldest", "youngest", "root"),
    }  # fmt: skip

    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    ends: np.ndarray
    cells: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    cell_of: np.ndarray
    links: np.ndarray
    trees: np.ndarray
    sources: np.ndarray
    back: np.ndarray
    spread: np.ndarray
    words: np.ndarray
    blocks: np.ndarray
    stack: np.ndarray

    def __init__(self, widths: Mapping[str, int], needed: Collection[str], series: np.ndarray, block: int) -> None:
        self.block, self.packed, self.queued = block, "blocks" in needed, "queue" in needed
        self.scalars = windows.scalars()
        self.scalars[TICK] = UNSET  # while the timer has not started
        for name, dtype in (PER_PARTITION | PER_CELL | PER_SLOT | windows.OTHER).items():
            setattr(self, name, np.zeros(0, dtype))
        for name in WORDS:
            setattr(self, name, np.zeros((0, widths[name]), np.int64))
        self.per_partition = [*(name for name in windows.PER_PARTITION if name in needed), "ends", "sources"]
        #: parts of `spread` that no cell has, and how many there are of all that (packing.py)
        self.idle, self.used = np.zeros(0, np.int32), np.zeros(COUNTS, np.int64)
        self.per_slot = [name for name in (*PER_SLOT, *WORDS) if name in needed]
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
        self.counted = Table(series)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through. A window that keeps no more than its summary stores no tuples.
        """
        tuples = int(self.scalars[LIVE]) if self.packed else self.top - len(self.free)
        return self.keys.count or min(1, len(self.ends)), tuples

    @property
    def stored(self) -> np.ndarray:
        """The words of tuples by slot, or by place, of those below `top`."""
        if not self.packed:
            return self.words[: self.top]
        return self.blocks[: self.top].reshape(self.top * self.block, self.words.shape[1])

    def reserve_partitions(self, count: int) -> None:
        known = len(self.ends)
        self._reserve(self.per_partition, count)
        self.ends[known:] = NOBODY

    def reserve_cells(self, count: int) -> None:
        self._reserve(["cells", "back"], count)
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
            self.queue = queue.roomy(self.queue, self.scalars, count)

    def save(self) -> Saved:
        partitions = max(1, self.keys.count)
        cells = max(partitions, self.pairs.count)
        tables = {name: getattr(self, name) for name in PER_PARTITION}
        tables |= {name: getattr(self, name)[:partitions] for name in self.per_partition}
        tables |= {name: getattr(self, name)[:cells] for name in ("cells", "back")}
        tables |= {"spread": self.spread[: self.used[PARTS]], "idle": self.idle[: self.used[IDLE]]}
        tables |= {name: getattr(self, name)[: self._saved_rows(name)] for name in (*PER_SLOT, *PER_SLOT_WORDS)}
        tables["queue"] = queue.in_order(self.queue, self.scalars)
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
    def load(
        cls, data: Data, widths: Mapping[str, int], needed: Collection[str], series: np.ndarray, block: int
    ) -> AggregateState:
        """Raises StateError where `data` is not what the `save` of such an aggregate wrote."""
        state, saved = cls(widths, needed, series, block), load(data)
        for name, dtype in (PER_PARTITION | PER_CELL | PER_SLOT | windows.OTHER | {"scalars": np.int64}).items():
            setattr(state, name, column(saved[name], dtype))
        state.queue = queue.restored(state.queue, state.scalars)
        state.free.give(column(saved["free"], np.int32))
        state.top, finished, state.kept_keys, state.kept_strings = column(saved["rest"], np.int64).tolist()
        state.finished = bool(finished)
        state.idle, state.used = column(saved["idle"], np.int32), column(saved["used"], np.int64)
        rows = {"sources": len(state.partitions), "back": len(state.cells), "spread": int(state.used[PARTS])}
        rows |= {name: state._saved_rows(name) for name in PER_SLOT_WORDS}
        for name, width in zip(WORDS, column(saved["widths"], np.int64).tolist(), strict=True):
            if width != widths[name] and name != "sources":
                msg = "the saved state belongs to another aggregate"
                raise StateError(msg)
            setattr(state, name, column(saved[name], np.int64).reshape(rows[name], width))
        state.idle = grown(state.idle, len(state.spread))
        state.sources = _widened(state.sources, widths["sources"])
        state.counted.restore(*(column(saved[f"counted.{name}"], kind) for name, kind in TABLE.items()))
        for name in STRINGS:
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        return state

    def _saved_rows(self, name: str) -> int:
        """Of a table with a row per slot: none where its rows are those of a batch."""
        return self.top if name in self.per_slot else 0

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
