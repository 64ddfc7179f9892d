"""The contract of an operator and of its state. The graph uses operators through this contract alone.

An operator is immutable: it has the configuration from the pipeline file and no data. Everything that is kept between
batches is in the operator's state, which `feed` changes in place. Therefore each process builds the operators from the
pipeline file when it starts, and only states are saved, loaded, split by keys and merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, Self, TypeVar

from sluice.columns.saved_columns import Data, Saved
from sluice.columns.state_tables import PartOfKey
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import Items
from sluice.model import spec


class OperatorState(Protocol):
    """The data that an operator keeps between batches."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of window partitions in memory and of tuples in their windows. O(1)."""

    def save(self) -> Saved:
        """The state as columns, for `Operator.load`.

        The columns share the state's memory: write them out before the state changes.
        """

    def split(self, parts: int, part_of_key: PartOfKey) -> Sequence[Self]:
        """Divides the state into `parts` states by the keys of its window partitions.

        `part_of_key` gives the part number of a key from the key's bytes. Each part has the window partitions of its
        keys, and a copy of the data that belongs to no key. The whole window of an operator without partitions is in
        part 0. Do not use this state afterwards: the parts may share memory with it.
        """

    def merge(self, others: Sequence[Self]) -> Self:
        """One state with the window partitions of this state and of `others`.

        Data that belongs to no key is taken from this state, or is the latest of all states. Without partitions only
        this state may hold tuples. Raises StateError if a key is in two states.
        """


#: the type of an operator's state; None for an operator without state
State = TypeVar("State", bound=OperatorState | None)


class Operator(Protocol[State]):
    """One operator of a pipeline.

    The outputs of `feed` do not depend on how the items are cut into batches, nor on whether the state was saved and
    loaded between batches, nor on whether it was split. Each part of a split state must get the tuples of its keys, all
    marks and watermarks, and the same clock.
    """

    @property
    def spec(self) -> spec.Operator:
        """The operator's declaration in the pipeline file."""

    def initial(self) -> State:
        """The state before the first item."""

    def load(self, data: Data) -> State:
        """Restores a saved state. Raises StateError if another kind of operator or another version wrote it."""

    def feed(self, state: State, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """Processes one batch and gives the output items by stream, and the rejected tuples under REJECTS.

        `inputs` has the items of each input port. Timers that are due by `clock.end` (inclusive) fire, too. Changes
        `state` in place.
        """

    def due(self, state: State) -> int:
        """The next time at which the operator emits something without further input; MAX_TIME if never. O(1)."""

    def inspect(self, state: State, key: str | None) -> list[InspectedWindow]:
        """The contents of the windows of this key, and of windows without keys, for people to read."""

    def split(self, state: State, parts: int, part_of_key: PartOfKey) -> Sequence[State]:
        """Splits the state: see OperatorState.split."""

    def merge(self, states: Sequence[State]) -> State:
        """Merges one or more states: see OperatorState.merge."""


Remembered = TypeVar("Remembered", bound=OperatorState)


class Stateful(Generic[Remembered]):
    """A base class for operators with state: `split` and `merge` are methods of the state."""

    def split(self, state: Remembered, parts: int, part_of_key: PartOfKey) -> Sequence[Remembered]:
        return state.split(parts, part_of_key)

    def merge(self, states: Sequence[Remembered]) -> Remembered:
        return states[0].merge(states[1:])
