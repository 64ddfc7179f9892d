"""What an aggregate over event time remembers between batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sluice.columns.interner import Strings
from sluice.columns.intrusive_list import NOBODY
from sluice.columns.slot_allocator import Free
from sluice.columns.tables import Data, Saved, StateError, column, grown, load, save
from sluice.engine.contents import slices
from sluice.engine.windows.event_time import event_records, timeline_blocks
from sluice.engine.windows.event_time.event_records import ENDLESS, FIRST_PANE, NEVER, PANES
from sluice.engine.windows.event_time.timeline_blocks import SHIFT, TOP
from sluice.engine.windows.event_time.timer_queue import Agenda

#: tables of records, but for `nodes`, which are what the window keeps of a time
RECORDS = {
    "partitions": event_records.PARTITION, "panes": event_records.PANE,
    "node_blocks": np.dtype(np.int8), "slice_blocks": np.dtype(np.int8),
    "cells": slices.CELL, "slices": slices.SLICE, "links": slices.LINK, "ends": slices.ENDS,
}  # fmt: skip
#: tables of words, as many in each row as `widths` says
WORDS = ("back", "sums", "stack", "words")
NUMBERS = ("scalars", "node_room", "slice_room", "clocks", "totals")
STRINGS = ("keys", "places", "groups", "pairs", "strings")


class EventState:
    """Partition ids are codes of `keys`, or of `places` where each topic partition has its own; cell ids are partition
    ids or, with `group_by`, codes of `pairs`. `clocks` is how far event time is, kept like all else (KIP D6).
    """

    partitions: np.ndarray
    nodes: np.ndarray
    node_blocks: np.ndarray
    slice_blocks: np.ndarray
    panes: np.ndarray
    cells: np.ndarray
    slices: np.ndarray
    links: np.ndarray
    ends: np.ndarray
    back: np.ndarray
    sums: np.ndarray
    stack: np.ndarray
    words: np.ndarray

    def __init__(self, widths: Mapping[str, int], nodes: np.dtype) -> None:
        """`widths`: words in each row of the tables of WORDS; `clocks`: how many times go forward apart. `nodes`: what
        is known of a time.
        """
        self._records = RECORDS | {"nodes": nodes}
        for name, dtype in self._records.items():
            setattr(self, name, np.zeros(0, dtype))
        for name in WORDS:
            setattr(self, name, np.zeros((0, widths[name]), np.int64))
        self.scalars = np.zeros(event_records.SCALARS, np.int64)
        self.node_room, self.slice_room = timeline_blocks.scalars(), timeline_blocks.scalars()
        self.clocks = np.full(widths["clocks"], NEVER, np.int64)
        self.agenda = Agenda(widths["clocks"])
        #: slots below `top` that hold no tuple
        self.free = Free(np.int64)
        #: of all partitions together: the times of slices, then how many tuples each of them has (totals.py)
        self.totals = np.zeros(0, np.int64)
        self.top = 0
        #: tuples that came in so far: the next one's number
        self.arrived = 0
        self.finished = False
        self.keys, self.places, self.groups, self.pairs = Strings(), Strings(), Strings(), Strings()
        #: the texts and lists among the words
        self.strings = Strings()
        #: entries of the tables of keys and of `strings` after the last clean-up
        self.kept_keys = self.kept_strings = 0

    @property
    def used(self) -> dict[str, int]:
        """The rows of each table that mean something."""
        partitions = max(1, self.keys.count, self.places.count)
        cells = max(partitions, self.pairs.count)
        nodes, times = int(self.node_room[TOP]), int(self.slice_room[TOP])
        return {
            "partitions": partitions, "ends": partitions, "nodes": nodes,
            "node_blocks": nodes >> SHIFT, "slice_blocks": times >> SHIFT,
            "panes": int(self.scalars[FIRST_PANE] + self.scalars[PANES]), "cells": cells, "back": cells,
            "slices": times, "sums": times, "stack": times, "links": self.top, "words": self.top,
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """How many partitions are known, which is at least those that hold something, and how many tuples are stored.

        O(1): no table is looked through. A window whose functions list no tuples stores none.
        """
        return max(self.keys.count, self.places.count) or min(1, len(self.ends)), self.top - len(self.free)

    def reserve_partitions(self, count: int) -> None:
        known = len(self.partitions)
        if count <= known:
            return
        self._reserve(("partitions", "ends"), count)
        fresh = self.partitions[known:]
        for name in ("oldest", "youngest", "open", "fresh"):
            fresh[name] = NOBODY
        fresh["due"], fresh["fire"], fresh["epoch"] = ENDLESS, ENDLESS, NEVER
        fresh["key"] = np.arange(known, len(self.partitions))
        self.ends[known:] = NOBODY

    def reserve_cells(self, count: int) -> None:
        self._reserve(("cells", "back"), count)

    def reserve_rows(self, count: int) -> None:
        self._reserve(("links", "words"), count)

    def reserve_times(self, more: int) -> None:
        """Room for so many new times, and for a pane."""
        nodes = timeline_blocks.needed(int(self.node_room[TOP]), more)
        times = max(nodes, timeline_blocks.needed(int(self.slice_room[TOP]), more))
        for names, count in ((("nodes",), nodes), (("slices", "sums", "stack"), times)):
            self._reserve(names, count)
        self._reserve(("node_blocks", "slice_blocks"), (times >> SHIFT) + 1)
        self._reserve(("panes",), self.used["panes"] + 1)

    def _reserve(self, names: tuple[str, ...], count: int) -> None:
        for name in names:
            setattr(self, name, grown(getattr(self, name), count))

    def plan(self) -> None:
        """Makes the agenda of what the partitions say."""
        self.agenda = Agenda(len(self.clocks))
        self.agenda.enter(self.partitions[: self.used["partitions"]])

    def save(self) -> Saved:
        used = self.used
        tables = {name: getattr(self, name)[: used[name]] for name in (*self._records, *WORDS)}
        for name in STRINGS:
            tables |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        rest = [self.top, self.arrived, self.finished, self.kept_keys, self.kept_strings]
        rest += [getattr(self, name).shape[1] for name in WORDS]
        tables |= {name: getattr(self, name) for name in NUMBERS}
        return save(tables | {"free": self.free.slots, "rest": np.array(rest, np.int64)})

    @classmethod
    def load(cls, data: Data, widths: Mapping[str, int], nodes: np.dtype) -> EventState:
        """Raises StateError where `data` is not what the `save` of such an aggregate wrote."""
        state, saved = cls(widths, nodes), load(data)
        if saved.keys() != {
            *state._records,
            *WORDS,
            *NUMBERS,
            "free",
            "rest",
            *(f"{name}.{part}" for name in STRINGS for part in Strings.PARTS),
        }:
            msg = "the saved state belongs to another operator"
            raise StateError(msg)
        for name, dtype in state._records.items():
            setattr(state, name, column(saved[name], dtype))
        for name in NUMBERS:
            setattr(state, name, column(saved[name], np.int64))
        state.free.give(column(saved["free"], np.int64))
        state.top, state.arrived, finished, state.kept_keys, state.kept_strings, *written = column(
            saved["rest"], np.int64
        ).tolist()
        state.finished = bool(finished)
        if written != [widths[name] for name in WORDS]:
            msg = "the saved state belongs to another aggregate"
            raise StateError(msg)
        rows = state.used
        for name, width in zip(WORDS, written, strict=True):
            setattr(
                state, name, column(saved[name], np.int64).reshape(-1, width) if width else np.zeros((0, 0), np.int64)
            )
        for name in STRINGS:
            setattr(state, name, Strings.load({part: saved[f"{name}.{part}"] for part in Strings.PARTS}))
        state._widen(widths, rows)
        state.plan()
        return state

    def _widen(self, widths: Mapping[str, int], rows: Mapping[str, int]) -> None:
        """A stream may have gained topic partitions; tables without words have rows all the same."""
        more = widths["clocks"] - len(self.clocks)
        if more > 0:
            self.clocks = np.append(self.clocks, np.full(more, NEVER, np.int64))
        for name in WORDS:
            table = getattr(self, name)
            if not table.shape[1]:
                setattr(self, name, np.zeros((rows[name], 0), np.int64))
