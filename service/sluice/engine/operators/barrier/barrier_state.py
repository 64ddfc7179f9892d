"""The state of a Barrier: the tuples of each key and input that wait for those of the other inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format
from sluice.columns.state_tables import Maps, Table, added_keys, moved_to, walked, words
from sluice.engine.operators.barrier.barrier_records import PARTITION, QUEUE, WAITING
from sluice.engine.operators.keyed_state import PartitionedState
from sluice.engine.stream.clock import all_later
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.model.engine_limits import EngineLimits


@dataclass(frozen=True)
class PortColumns:
    """The stored words of the tuples of several inputs, in rows of one table: first the codes of texts, then the words
    of presence, then all others. An input with fewer of them leaves words unused.

        input a: string, int64?        [ text | -    | present | int64   |       ]
        input b: string, string, int64 [ text | text | -       | int64   |       ]
    """

    inputs: tuple[WordColumns, ...]

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of texts, of words of presence, and of other words."""
        counts = [
            (len(columns.texts), len(columns.flags), columns.width - len(columns.texts) - len(columns.flags))
            for columns in self.inputs
        ]
        texts, flags, others = (max(numbers) for numbers in zip(*counts, strict=True))
        return texts, flags, others

    def table(self) -> Table:
        texts, flags, others = self.sizes
        return words("slot", texts + flags + others, range(texts), range(texts, texts + flags))

    @cached_property
    def places(self) -> tuple[np.ndarray, ...]:
        """For each input the word of the table of each of its own words."""
        return tuple(map(self._places, self.inputs))

    def _places(self, columns: WordColumns) -> np.ndarray:
        texts, flags, _ = self.sizes
        place, free = np.empty(columns.width, np.int64), [0, texts, texts + flags]
        for word in range(columns.width):
            kind = 0 if word in columns.texts else 1 if word in columns.flags else 2
            place[word], free[kind] = free[kind], free[kind] + 1
        return place

    def write(
        self, table: np.ndarray, slots: np.ndarray, port: int, values: Sequence[pa.Array], strings: Interner
    ) -> None:
        """Writes tuples of an input to these rows of the table."""
        columns = self.inputs[port]
        rows = np.zeros((len(slots), table.shape[1]), np.int64)
        rows[:, : self.sizes[0]] = NIL
        port_words = np.empty((len(slots), columns.width), np.int64)
        columns.write(port_words, slice(None), values, strings)
        rows[:, self.places[port]] = port_words
        table[slots] = rows

    def read(self, table: np.ndarray, slots: np.ndarray, port: int, strings: Interner) -> list[pa.Array]:
        """The columns of these tuples of an input."""
        return self.inputs[port].read(table[slots][:, self.places[port]], strings)


class BarrierState(PartitionedState):
    """The state of one Barrier. The number of a key is its code in `keys`; its queue of input n of P is P times this
    number + n. `reached` has the watermark of each input, `finals` whether it is final.
    """

    FORMAT: ClassVar[Format] = Format("barrier", 1)
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "finished", "kept")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = dict.fromkeys(("reached", "finals"), np.dtype(np.int64))
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "strings")

    partitions: np.ndarray
    queues: np.ndarray
    waiting: np.ndarray
    words: np.ndarray

    def __init__(self, stored: PortColumns, limits: EngineLimits, timeout: int) -> None:
        """`timeout` in nanoseconds; ENDLESS: tuples wait for ever."""
        self.stored, self._limits, self.ports, self._timeout = stored, limits, len(stored.inputs), timeout
        self.declare({
            "partitions": Table("partition", PARTITION, fresh={"due": ENDLESS}),
            "queues": Table(
                "queue", QUEUE, refers=dict.fromkeys(("oldest", "youngest"), "slot"),
                fresh=dict.fromkeys(("oldest", "youngest"), NIL),
            ),
            "waiting": Table("slot", WAITING, refers={"younger": "slot"}, fresh={"younger": NIL}),
            "words": stored.table(),
        })  # fmt: skip
        self.reached = np.full(self.ports, NEVER, np.int64)
        self.finals = np.zeros(self.ports, np.int64)
        self.begin()

    @property
    def rows(self) -> Mapping[str, int]:
        return {"partition": self.keys.count, "queue": self.keys.count * self.ports, "slot": self.top}

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of keys in memory and of waiting tuples. O(1)."""
        return self.keys.count, int(self.held[0])

    def plan(self) -> None:
        """Builds what is not saved; and the times at which tuples wait no longer, as the file may have changed them."""
        queues = self.queues[: self.rows["queue"]]
        since = self.waiting["at"][np.where(queues["size"] > 0, queues["oldest"], 0)] if self.top else queues["oldest"]
        due = np.where(queues["size"] > 0, all_later(since, self._timeout), ENDLESS)
        self.queued["due"] = due.reshape(-1, self.ports).min(axis=1)
        super().plan()
        self.held[0] = self.queues["size"][: self.rows["queue"]].sum()

    def take_slots(self, count: int) -> np.ndarray:
        """Slots for tuples that come."""
        slots, self.top = self.free.take(count, self.top)
        self.reserve("slot", self.top)
        self.waiting["younger"][slots] = NIL
        return slots

    def make_room(self) -> None:
        """Makes room for all keys."""
        for space in ("partition", "queue"):
            self.reserve(space, self.rows[space])
        self.agenda.enter(self.queued)

    @property
    def limits(self) -> EngineLimits:
        return self._limits

    def open_keys(self) -> np.ndarray:
        return np.flatnonzero(self.partitions["size"][: self.rows["partition"]] > 0)

    def new(self, states: Sequence[BarrierState]) -> BarrierState:
        new_state = BarrierState(self.stored, self._limits, self._timeout)
        new_state.finished = states[0].finished
        new_state.reached, new_state.finals = states[0].reached.copy(), states[0].finals.copy()
        return new_state

    def queues_of(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of the queues of these keys, key by key."""
        queues: np.ndarray = (keys[:, None] * self.ports + np.arange(self.ports)).reshape(-1)
        return queues

    def numbered(self, state: BarrierState, keys: np.ndarray) -> Maps:
        numbers, rows = added_keys(self.keys, state.keys, keys), state.rows
        queues = state.queues_of(keys)
        heads = np.where(state.queues["size"][queues] > 0, state.queues["oldest"][queues], NIL)
        slots, _ = walked(heads, state.waiting["younger"])
        slot = moved_to(slots, self.top + np.arange(len(slots)), rows["slot"])
        self.top += len(slots)
        return {
            "partition": moved_to(keys, numbers, rows["partition"]),
            "queue": moved_to(queues, self.queues_of(numbers), rows["queue"]), "slot": slot,
        }  # fmt: skip
