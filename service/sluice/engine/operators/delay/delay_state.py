"""The state of a Delay: the items that wait, each with the time at which it leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.saved_columns import Data, Format, Saved, SavedRecord, StateError, require_format
from sluice.columns.state_tables import PartOfKey
from sluice.engine.stream.items import MAX_TIME, TUPLE, Items, concatenated
from sluice.engine.stream.mark_alignment import items_of, record_of
from sluice.time_units import UNSET

#: format of the saved state
FORMAT = Format("delay", 1)
#: the column of a saved item with the time at which it leaves
DUE = "@due"


def read_table(data: Data, form: Format) -> tuple[dict[str, str], pa.Table]:
    """The metadata and the rows of a saved state. Raises StateError if it has another format."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        rows = reader.read_all()
    require_format(rows.schema, form)
    return {key.decode(): text.decode() for key, text in rows.schema.metadata.items()}, rows


@contextmanager
def of_this_operator() -> Iterator[None]:
    """Raises StateError if what is read inside does not fit the state."""
    try:
        yield
    except (pa.ArrowException, KeyError, ValueError) as error:
        msg = "the saved state belongs to another operator, or is damaged"
        raise StateError(msg) from error


@dataclass(slots=True)
class DelayState:
    """The items that wait, in their order, in the pieces in which they came: a batch costs what comes and leaves."""

    schema: pa.Schema
    pieces: deque[tuple[Items, np.ndarray]] = field(default_factory=deque)
    #: the time at which the last tuple leaves, and that of the last item, nanoseconds of the operator clock
    last_tuple: int = UNSET
    last_item: int = UNSET
    #: whether the final mark was received
    finished: bool = False
    #: how many tuples wait
    waiting: int = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """One window for all tuples, and how many wait. O(1)."""
        return min(1, self.waiting), self.waiting

    @property
    def keys(self) -> Interner:
        """No keys: the tuples of all keys wait together."""
        return Interner()

    @property
    def partitions(self) -> np.ndarray:
        """The one partition with its size, for pictures."""
        return np.array([(self.waiting,)], [("size", np.int64)])

    @property
    def due(self) -> int:
        """The time at which the next item leaves; MAX_TIME if none waits."""
        return int(self.pieces[0][1][0]) if self.pieces else MAX_TIME

    def add(self, items: Items, due: np.ndarray) -> None:
        if len(items):
            self.pieces.append((items, due))
            self.waiting += len(items.tuples)

    def leave(self, now: int) -> list[tuple[Items, np.ndarray]]:
        """Removes the items that leave by `now`, with their times."""
        leaving = []
        while self.pieces and self.pieces[0][1][0] <= now:
            items, due = self.pieces.popleft()
            count = int(np.searchsorted(due, now, "right"))
            leaving.append((items.first(count), due[:count]))
            if count < len(due):
                behind = items.take(np.arange(count, len(due)))
                self.pieces.appendleft((behind, due[count:]))
        self.waiting -= sum(len(items.tuples) for items, _ in leaving)
        return leaving

    def tuple_times(self) -> np.ndarray:
        """The times at which the waiting tuples leave, in order."""
        times = [due[items.kind == TUPLE] for items, due in self.pieces]
        return np.concatenate([np.zeros(0, np.int64), *times])

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def save(self) -> Saved:
        numbers = {"last_tuple": self.last_tuple, "last_item": self.last_item, "finished": int(self.finished)}
        texts = {name: str(number) for name, number in numbers.items()}
        return SavedRecord(self._record().replace_schema_metadata({"format": str(FORMAT), **texts}))

    def _record(self) -> pa.RecordBatch:
        if not self.pieces:
            return pa.RecordBatch.from_pylist([], schema=pa.schema([]))
        record = record_of(reduce(concatenated, (items for items, _ in self.pieces)))
        due = pa.array(np.concatenate([due for _, due in self.pieces]))
        return pa.RecordBatch.from_arrays([*record.columns, due], names=[*record.schema.names, DUE])

    def read(self, data: Data) -> DelayState:
        """Replaces the content by what `save` returned. Raises StateError if `data` does not fit."""
        with of_this_operator():
            metadata, record = read_table(data, FORMAT)
            self.last_tuple, self.last_item = (int(metadata[name]) for name in ("last_tuple", "last_item"))
            self.finished = metadata["finished"] == "1"
            for batch in record.to_batches():
                self._restore(batch)
        return self

    def _restore(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            due = batch.column(DUE).to_numpy().copy()
            names = [name for name in batch.schema.names if name != DUE]
            self.add(items_of(batch.select(names), self.schema), due)

    # ---- from one state to another ----------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[DelayState]:
        """All items are in part 0 (DL6)."""
        others = (DelayState(self.schema, finished=self.finished) for _ in range(1, parts))
        return [self, *others]

    def merge(self, others: Sequence[DelayState]) -> DelayState:
        """The state with the items, which is that of part 0."""
        return max((self, *others), key=lambda state: (bool(state.pieces), state.last_item))
