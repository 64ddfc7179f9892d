"""What an aggregate remembers between batches: records per partition, per cell and per stored tuple."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from service.engine.contents import CELL, ENDS, LINK
from service.engine.store import StateError, column, grown, load, save
from service.engine.strings import Strings
from service.engine.windows import FIRST, LAST, NOBODY, PARTITION, ROW, SCALARS, TICK

#: `TICK` while the timer has not started
NEVER = -(2**63)
PARTITIONS = {"partitions": PARTITION, "ends": ENDS}
CELLS = {"cells": CELL}
ROWS = {"rows": ROW, "links": LINK}
STRINGS = ("keys", "groups", "pairs", "strings")


class AggregateState:
    """Partition ids are codes of `keys`; cell ids are partition ids or, with `group_by`, codes of `pairs`.

    `widths` gives the number of words of `words` (per tuple), `back` and `stack` (per summary) and `sources` (one
    for 64 topic partitions).
    """

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.scalars = np.zeros(SCALARS, np.int64)
        self.scalars[[FIRST, LAST]] = NOBODY
        self.scalars[TICK] = NEVER
        self.partitions = np.zeros(0, PARTITION)
        self.ends = np.zeros(0, ENDS)
        self.sources, self.back, self.stack, self.words = (
            np.zeros((0, widths[name]), np.int64) for name in ("sources", "back", "stack", "words")
        )
        self.cells = np.zeros(0, CELL)
        self.rows = np.zeros(0, ROW)
        self.links = np.zeros(0, LINK)
        #: slots below `top` that hold no tuple
        self.free = np.zeros(0, np.int32)
        self.top = 0
        #: whether the final mark came
        self.finished = False
        self.keys, self.groups, self.pairs = Strings(), Strings(), Strings()
        #: the texts and lists among the words
        self.strings = Strings()
        #: entries of `keys` and `strings` after the last clean-up
        self.kept_keys = self.kept_strings = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through. A window that keeps no more than its summary stores no tuples.
        """
        return self.keys.count or min(1, len(self.ends)), self.top - len(self.free)

    def reserve_partitions(self, count: int) -> None:
        known = len(self.ends)
        self.partitions, self.sources, self.ends = (
            grown(table, count) for table in (self.partitions, self.sources, self.ends)
        )
        self.ends[known:] = NOBODY

    def reserve_cells(self, count: int) -> None:
        self.cells, self.back = grown(self.cells, count), grown(self.back, count)

    def reserve_rows(self, count: int) -> None:
        self.rows, self.links, self.words, self.stack = (
            grown(table, count) for table in (self.rows, self.links, self.words, self.stack)
        )

    def save(self) -> bytes | memoryview:
        partitions = max(1, self.keys.count)
        cells = max(partitions, self.pairs.count)
        tables = {name: getattr(self, name)[:partitions] for name in ("partitions", "ends", "sources")}
        tables |= {name: getattr(self, name)[:cells] for name in ("cells", "back")}
        tables |= {name: getattr(self, name)[: self.top] for name in ("rows", "links", "words", "stack")}
        for name in STRINGS:
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        rest = np.array([self.top, self.finished, self.kept_keys, self.kept_strings], np.int64)
        widths = np.array([table.shape[1] for table in self._wide()], np.int64)
        return save(tables | {"free": self.free, "scalars": self.scalars, "rest": rest, "widths": widths})

    @classmethod
    def load(cls, data: bytes, widths: Mapping[str, int]) -> AggregateState:
        """Raises StateError where `data` is not what the `save` of such an aggregate wrote."""
        state, saved = cls(widths), load(data)
        for name, dtype in (PARTITIONS | CELLS | ROWS | {"free": np.int32, "scalars": np.int64}).items():
            setattr(state, name, column(saved[name], dtype))
        sources, back, stack, words = column(saved["widths"], np.int64).tolist()
        if (back, stack, words) != (widths["back"], widths["stack"], widths["words"]):
            msg = "the saved state belongs to another aggregate"
            raise StateError(msg)
        state.sources = _widened(column(saved["sources"], np.int64, sources), widths["sources"])
        for name, width in (("back", back), ("stack", stack), ("words", words)):
            setattr(state, name, _rows(saved[name], width, len(state.cells if name == "back" else state.rows)))
        for name in STRINGS:
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        state.top, finished, state.kept_keys, state.kept_strings = column(saved["rest"], np.int64).tolist()
        state.finished = bool(finished)
        return state

    def _wide(self) -> tuple[np.ndarray, ...]:
        return self.sources, self.back, self.stack, self.words


def _rows(data: pa.Buffer, width: int, count: int) -> np.ndarray:
    return column(data, np.int64, width) if width else np.zeros((count, 0), np.int64)


def _widened(sources: np.ndarray, width: int) -> np.ndarray:
    """With at least `width` words a row: a stream may have gained topic partitions."""
    if sources.shape[1] >= width:
        return sources
    wider = np.zeros((len(sources), width), np.int64)
    wider[:, : sources.shape[1]] = sources
    return wider
