"""The Sort operator over a sliding window: holds n tuples of a partition, and lets the first go for each that comes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.encoding import from_words, to_words
from sluice.columns.interner import Strings
from sluice.columns.key_bytes import key_codes
from sluice.columns.ordering import canonical, ordered
from sluice.columns.scratch_buffers import Scratch
from sluice.columns.tables import Data, Saved, load, save
from sluice.engine.contents import window_snapshot
from sluice.engine.contents.window_snapshot import Inside
from sluice.engine.operators import compaction
from sluice.engine.operators.sort import sort_heap
from sluice.engine.operators.stored_tuples import Held
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, MADE, MAXIMUM, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejects import joined, readable
from sluice.engine.windows import policies, processing_time
from sluice.engine.windows.policies import Clause
from sluice.engine.windows.processing_time import LIVE, STORED
from sluice.model.expressions import Attribute
from sluice.model.spec import Count, Sort
from sluice.model.types import INT64, STRING, Schema, Type


class SortState(Held):
    PER_PARTITION: ClassVar = Held.PER_PARTITION | {"piles": sort_heap.PILE}
    PER_SLOT: ClassVar = Held.PER_SLOT | {"nodes": sort_heap.NODE}
    OTHER: ClassVar = Held.OTHER | {"more": np.int64}
    SLOTS: ClassVar = Held.SLOTS | {"piles": ("top",), "nodes": ("left", "right")}

    def __init__(self, types: tuple[Type, ...], clause: Clause) -> None:
        super().__init__(types, clause)
        #: how many tuples came, whether the final mark did, and the entries of `strings` after the last clean-up
        self.more = np.zeros(3, np.int64)
        self.strings = Strings()

    piles: np.ndarray
    nodes: np.ndarray

    def save(self) -> Saved:
        return save(self.tables() | {f"strings.{part}": values for part, values in self.strings.save().items()})

    @classmethod
    def load(cls, data: Data, types: tuple[Type, ...], clause: Clause) -> SortState:
        """Raises StateError where `data` is not what the `save` of such a sort wrote."""
        state, saved = cls(types, clause), load(data)
        state.restore(saved)
        state.strings = Strings.load({part: saved[f"strings.{part}"] for part in Strings.PARTS})
        return state

    def clean(self) -> None:
        self.forget_partitions()
        if compaction.outgrown(self.strings.count, int(self.more[2]), self.top):
            old, self.strings = self.strings, Strings()
            self.intern_anew(old, self.strings)
            self.more[2] = self.strings.count


class ProgressiveOperator:
    """Runs one `Sort` with a sliding window. It has no state of its own: `feed` changes the one that it is given."""

    def __init__(self, spec: Sort, schema: Schema) -> None:
        self.spec, self._scratch = spec, Scratch()
        kept = [Attribute(name, kind) for name, kind in schema]
        keys = [order.key for order in spec.order_by]
        self._reads = list(dict.fromkeys([*kept, *keys, *spec.partition_by]))
        #: a float64 key is kept as a word that compares as an integer, beside the attribute itself
        self._types = (*(e.type for e in kept), *(STRING if e.type == STRING else INT64 for e in keys))
        self._order = np.array(
            [
                (len(kept) + n, e.type == STRING, o.descending)
                for n, (o, e) in enumerate(zip(spec.order_by, keys, strict=True))
            ],
            sort_heap.ORDER,
        )
        self._keys = [(self._reads.index(e), e.type) for e in keys]
        self._partition_by = [self._reads.index(e) for e in spec.partition_by]
        self._schema = arrow_schema(schema)
        eviction = spec.window.policies[0]
        self._size = eviction.size if isinstance(eviction, Count) else 0
        clause = policies.clause(spec.window, {})
        none = policies.Policy(policies.NONE, 0)
        self._clause = clause._replace(eviction=none, trigger=none, period=0)

    def initial(self) -> SortState:
        return SortState(self._types, self._clause)

    def load(self, data: Data) -> SortState:
        return SortState.load(data, self._types, self._clause)

    def feed(self, state: SortState, items: Items, clock: Clock) -> dict[str, Items]:
        """What comes out of these items, per output stream. Time does nothing here; watermarks pass."""
        if state.more[1]:
            return {}
        ends = np.flatnonzero(items.kind == FINAL)
        items = items.first(int(ends[0]) + 1) if len(ends) else items
        items, read, unread = readable(items, self._reads, self.spec.name)
        made = self._run(state, items, self._arrive(state, items, read))
        state.clean()
        if len(ends):
            state.more[1] = 1
            made = emit.final(made, int(items.event[-1]), int(items.at[-1]))
        return {output.stream: made for output in self.spec.outputs} | joined([unread])

    def due(self, state: SortState) -> int:
        """Never: tuples go when others come."""
        return MAXIMUM

    def inside(self, state: SortState, key: str | None) -> list[Inside]:
        """The tuples of this key, or where there are no partitions all of them."""
        p = window_snapshot.place_of(state.keys, key) if self._partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        slots = window_snapshot.chained(state.partitions[p], state.chain)
        held = window_snapshot.tuples(self._schema.names, self._types, state.words[slots], state.strings)
        return [Inside(self.spec.name, len(slots), held)]

    def _arrive(self, state: SortState, items: Items, read: pa.RecordBatch) -> np.ndarray:
        partition = np.zeros(read.num_rows, np.int64)
        if self._partition_by:
            partition = key_codes([read.column(i) for i in self._partition_by], state.keys)
        slots = state.slots(read.num_rows)
        columns = len(self._schema)
        for place in range(columns):
            state.words[slots, place] = to_words(read.column(place), self._types[place], state.strings)
        for place, (column, kind) in enumerate(self._keys, columns):
            state.words[slots, place] = ordered(to_words(read.column(column), kind, state.strings), kind)
        return processing_time.arrivals(items, partition, slots, self._scratch)

    def _run(self, state: SortState, items: Items, arrivals: np.ndarray) -> Items:
        if self._size == 0:  # O12
            state.release(arrivals["slot"][arrivals["kind"] == TUPLE])
            return self._items(state, items, np.zeros(0, sort_heap.OUT))
        room = int(state.scalars[LIVE] + 2 * state.scalars[STORED]) + 4 * len(arrivals) + 64
        events, firings = np.empty(room, processing_time.EVENT), np.zeros(0, processing_time.FIRING)
        window = processing_time.window_of(self._clause, state, None, events, firings, np.zeros(2, np.int64))
        kernel = sort_heap.Piles(
            window, state.piles, state.nodes, self._order, state.strings.text, self._size, state.more,
            np.empty(room, np.int32), np.zeros(1, np.int64),
        )  # fmt: skip
        out = np.empty(room, sort_heap.OUT)
        used = sort_heap.run(kernel, arrivals, out)
        if len(items) and items.kind[-1] == FINAL:
            partitions = np.flatnonzero(state.partitions["size"][: max(1, state.keys.count)])
            if self._partition_by:
                partitions = partitions[canonical(state.keys.take(partitions))]
            used = sort_heap.drain(kernel, partitions, len(arrivals) - 1, out, used)
        out = out[:used]
        made = self._items(state, items, out)
        state.release(np.concatenate([out["slot"], kernel.lost[: kernel.losses[0]]]))
        return made

    def _items(self, state: SortState, items: Items, out: np.ndarray) -> Items:
        """The tuples that came out, without any mark (O10), and the watermarks in their places (E6)."""
        words = state.words.take(out["slot"], axis=0)
        columns = [
            from_words(words[:, place], kind, state.strings)
            for place, kind in enumerate(self._types[: len(self._schema)])
        ]
        tuples = pa.record_batch(columns, schema=self._schema)
        key, keys = emit.named(out["partition"], state.keys if self._partition_by else None)
        passing = np.flatnonzero(items.kind == WATERMARK)
        cause = np.concatenate([out["cause"], passing])
        order = np.argsort(cause, kind="stable")
        cause, key = cause[order], np.concatenate([key, np.full(len(passing), -1, np.int32)])[order]
        kind = np.concatenate([np.full(len(out), TUPLE, np.int8), items.kind[passing]])[order]
        source, watermark = np.full(len(cause), MADE, np.int32), items.watermark[cause]
        return Items(items.event[cause], items.at[cause], kind, source, key, keys, tuples, watermark)
