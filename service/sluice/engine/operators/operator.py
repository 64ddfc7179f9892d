"""The contract of an operator and of its state, on which the graph stands.

An operator is a value that never changes: it knows what it does, and holds nothing of the tuples that it saw. All that
is remembered between batches is its state, which `feed` changes in place. So an operator is made anew from the pipeline
file at each start, and a state travels: it is saved and loaded, divided by keys and put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, Self, TypeVar

from sluice.columns.state_tables import PartOfKey
from sluice.columns.tables import Data, Saved
from sluice.engine.contents.window_snapshot import WindowSnapshot
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import Items
from sluice.model import spec


class OperatorState(Protocol):
    """What an operator remembers between batches."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of window partitions in memory, and of tuples stored. O(1)."""

    def save(self) -> Saved:
        """The state as columns, for `Operator.load`. Nothing is copied: write it before the state changes."""

    def split(self, parts: int, part_of_key: PartOfKey) -> Sequence[Self]:
        """So many states. Each has the window partitions of its keys, and a copy of what is not of a key.

        `part_of_key` gives the number of the part of a key, by the key's bytes. A window without partitions is whole in
        part 0. This state is used up: the parts may share memory with it.
        """

    def merge(self, others: Sequence[Self]) -> Self:
        """One state that holds what this one and the others hold. No two of them may hold the same key.

        What is not of a key comes from this state, or is the latest of all. Of a window without partitions only this
        state holds something. Raises StateError if a key is in two states.
        """


#: a state, or None where nothing is remembered
State = TypeVar("State", bound=OperatorState | None)


class Operator(Protocol[State]):
    """One operator of a pipeline.

    `feed` gives equal outputs however the items are cut into batches, for a state that was saved and loaded in between,
    and for parts of a state that each get the tuples of their keys, all marks and watermarks, and the clock.
    """

    @property
    def spec(self) -> spec.Operator:
        """What the pipeline file says."""

    def initial(self) -> State:
        """The state before the first item."""

    def load(self, data: Data) -> State:
        """The state that was saved. Raises StateError where another operator or version wrote it."""

    def feed(self, state: State, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """What comes out of these items, one stretch for each input port, and of the time that passes to `clock.end`.

        By output stream, and under REJECTS the tuples that were rejected.
        """

    def due(self, state: State) -> int:
        """When time alone will bring something out next, if nothing comes before; MAXIMUM: never. O(1)."""

    def snapshot(self, state: State, key: str | None) -> list[WindowSnapshot]:
        """What the windows of this key hold, and those without keys."""

    def split(self, state: State, parts: int, part_of_key: PartOfKey) -> Sequence[State]:
        """As OperatorState.split says."""

    def merge(self, states: Sequence[State]) -> State:
        """As OperatorState.merge says, of at least one state."""


Remembered = TypeVar("Remembered", bound=OperatorState)


class Stateful(Generic[Remembered]):
    """The part of the contract that an operator leaves to its state."""

    def split(self, state: Remembered, parts: int, part_of_key: PartOfKey) -> Sequence[Remembered]:
        return state.split(parts, part_of_key)

    def merge(self, states: Sequence[Remembered]) -> Remembered:
        return states[0].merge(states[1:])
