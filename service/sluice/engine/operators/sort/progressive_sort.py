"""The Sort operator over a sliding window of n tuples.

Each window partition holds at most n tuples. When a tuple arrives at a full partition, the first of the held tuples in
sort order leaves and is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.column_forms import form
from sluice.columns.encoding import WordColumns
from sluice.columns.forms.form_contract import Order
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.key_bytes import canonical, partition_codes
from sluice.columns.saved_columns import Data, Format
from sluice.columns.scratch_buffers import Scratch
from sluice.columns.state_tables import PartOfKey, Table, added_keys, keep_texts, moved_to, parts_of
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators import compaction
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.sort import sort_heap
from sluice.engine.operators.stored_tuples import StoredTuples, stored_in
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import FINAL, MADE, MAX_TIME, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import joined, readable
from sluice.engine.windows import policies, processing_time
from sluice.engine.windows.policies import KernelClause
from sluice.engine.windows.processing_time import LIVE, STORED
from sluice.model import spec as specs
from sluice.model.engine_limits import EngineLimits
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Sort
from sluice.model.types import INT64, Schema, Type, optional_of


class SortState(StoredTuples):
    FORMAT: ClassVar[Format] = Format("progressive sort", 1)
    OWN_TABLES: ClassVar[Mapping[str, Table]] = {
        "piles": Table("partition", sort_heap.HEAP, refers={"top": "slot"}),
        "nodes": Table("slot", sort_heap.NODE, refers={"left": "slot", "right": "slot"}),
    }
    NUMBERS: ClassVar[tuple[str, ...]] = (*StoredTuples.NUMBERS, "finished", "kept_strings")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {**StoredTuples.ARRAYS, "arrived": np.dtype(np.int64)}
    STRINGS: ClassVar[tuple[str, ...]] = (*StoredTuples.STRINGS, "strings")

    piles: np.ndarray
    nodes: np.ndarray

    def __init__(self, layout: WordColumns, clause: KernelClause, limits: EngineLimits, *, keyed: bool) -> None:
        """`keyed`: the window has `partition_by`."""
        super().__init__(layout, clause, limits)
        self.keyed = keyed
        #: the number of tuples so far, which is the arrival number of the next one
        self.arrived = np.zeros(1, np.int64)
        #: whether the final mark was received
        self.finished = False
        self.strings = Interner()
        #: the number of entries that the last compaction of `strings` left
        self.kept_strings = 0

    def clean(self) -> None:
        self.remove_empty_partitions()
        if compaction.should_compact(self.limits, self.strings.count, self.kept_strings, self.top):
            keep_texts(self.strings, self.texts())
            self.kept_strings = self.strings.count

    def split(self, parts: int, part_of_key: PartOfKey) -> list[SortState]:
        part_of = parts_of(self.keys, part_of_key) if self.keyed else np.zeros(1, np.int64)
        return [self._gathered([(self, np.flatnonzero(part_of == part))]) for part in range(parts)]

    def merge(self, others: Sequence[SortState]) -> SortState:
        states = (self, *others)
        rows = [state.keys.count if state.keyed else int(state is self) for state in states]
        return self._gathered([(state, np.arange(count)) for state, count in zip(states, rows, strict=True)])

    def _gathered(self, chosen: Sequence[tuple[SortState, np.ndarray]]) -> SortState:
        """A new state with the given partitions of other states and their tuples."""
        target, sources = SortState(self.layout, self.clause, self.limits, keyed=self.keyed), []
        target.finished = chosen[0][0].finished
        target.arrived[:] = max(int(state.arrived[0]) for state, _ in chosen)
        for state, partitions in chosen:
            numbers = added_keys(target.keys, state.keys, partitions) if self.keyed else partitions
            partition = moved_to(partitions, numbers, state.rows["partition"])
            slots = stored_in(state, partition != NIL)
            slot = moved_to(slots, target.top + np.arange(len(slots)), state.top)
            target.top += len(slots)
            sources.append((state, {"partition": partition, "slot": slot}))
        target.reserve("partition", max(1, target.keys.count))
        target.reserve("slot", target.top)
        target.take_windows(sources)
        target.kept_keys, target.kept_strings = target.keys.count, target.strings.count
        return target


class ProgressiveOperator(Stateful[SortState]):
    """Runs one `Sort` with a sliding window. All data is in the state, which `feed` changes in place."""

    def __init__(self, spec: Sort, schema: Schema) -> None:
        self.spec, self._scratch = spec, Scratch()
        kept = [Attribute(name, kind) for name, kind in schema]
        keys = [order.key for order in spec.order_by]
        self._reads = list(dict.fromkeys([*kept, *keys, *spec.partition_by]))
        #: the columns of a tuple: attributes, then sort keys. A float64 key is stored as an int64 of equal order
        self._layout = WordColumns([*(e.type for e in kept), *map(_type_of_key, keys)])
        orders = enumerate(spec.order_by, len(kept))
        self._order = np.array(
            [row for place, order in orders for row in _comparisons(self._layout, place, order)], sort_heap.ORDER
        )
        self._keys = [(self._reads.index(e), e.type) for e in keys]
        self._partition_by = [self._reads.index(e) for e in spec.partition_by]
        self._schema = arrow_schema(schema)
        self._size = spec.window.tuples_when_full or 0
        clause = policies.clause(spec.window, {})
        self._clause = clause._replace(eviction=policies.NOTHING, trigger=policies.NOTHING, period=0)

    def initial(self) -> SortState:
        return SortState(self._layout, self._clause, self.spec.limits, keyed=bool(self._partition_by))

    def load(self, data: Data) -> SortState:
        return self.initial().read(data)

    def feed(self, state: SortState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The output items by stream, and the rejected tuples under REJECTS. The clock has no effect."""
        if state.finished:
            return {}
        (items,) = inputs
        ends = np.flatnonzero(items.kind == FINAL)
        items = items.first(int(ends[0]) + 1) if len(ends) else items
        items, values, unread = readable(items, self._reads, self.spec.name)
        sorted_items = self._run(state, items, self._arrive(state, items, values))
        state.clean()
        if len(ends):
            state.finished = True
            sorted_items = emit.final(sorted_items, int(items.event[-1]), int(items.at[-1]))
        return {output.stream: sorted_items for output in self.spec.outputs} | joined([unread])

    def due(self, state: SortState) -> int:
        """MAX_TIME: only an arriving tuple makes another one leave."""
        return MAX_TIME

    def inspect(self, state: SortState, key: str | None) -> list[InspectedWindow]:
        """The held tuples of this key, in order of arrival; without `partition_by` all held tuples."""
        p = window_inspection.code_of(state.keys, key) if self._partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        slots = window_inspection.chained(state.partitions[p], state.chain)
        held = window_inspection.tuples(self._schema.names, self._layout, state.words[slots], state.strings)
        return [InspectedWindow(self.spec.name, len(slots), held)]

    def _arrive(self, state: SortState, items: Items, values: pa.RecordBatch) -> np.ndarray:
        partition = partition_codes(values, self._partition_by, state.keys)
        slots = state.slots(values.num_rows)
        keys = [_as_stored(values.column(column), kind) for column, kind in self._keys]
        self._layout.write(state.words, slots, [*values.columns[: len(self._schema)], *keys], state.strings)
        return processing_time.arrivals(items, partition, slots, self._scratch)

    def _run(self, state: SortState, items: Items, arrivals: np.ndarray) -> Items:
        if self._size == 0:  # O12
            state.release(arrivals["slot"][arrivals["kind"] == TUPLE])
            return self._items(state, items, np.zeros(0, sort_heap.OUT))
        room = int(state.scalars[LIVE] + 2 * state.scalars[STORED]) + 4 * len(arrivals) + 64
        events, firings = np.empty(room, processing_time.EVENT), np.zeros(0, processing_time.FIRING)
        window = processing_time.window_of(self._clause, state, None, events, firings, np.zeros(2, np.int64))
        kernel = sort_heap.SortHeaps(
            window, state.piles, state.nodes, self._order, state.strings.text, self._size, state.arrived,
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
        sorted_items = self._items(state, items, out)
        state.release(np.concatenate([out["slot"], kernel.lost[: kernel.losses[0]]]))
        return sorted_items

    def _items(self, state: SortState, items: Items, out: np.ndarray) -> Items:
        """The emitted tuples without window marks (O10), and the watermarks between them in their positions (E6)."""
        words = state.words.take(out["slot"], axis=0)
        columns = [self._layout.column(place, words, state.strings) for place in range(len(self._schema))]
        tuples = pa.record_batch(columns, schema=self._schema)
        key, keys = emit.named(out["partition"], state.keys if self._partition_by else None)
        passing = np.flatnonzero(items.kind == WATERMARK)
        cause = np.concatenate([out["cause"], passing])
        order = np.argsort(cause, kind="stable")
        cause, key = cause[order], np.concatenate([key, np.full(len(passing), -1, np.int32)])[order]
        kind = np.concatenate([np.full(len(out), TUPLE, np.int8), items.kind[passing]])[order]
        source, watermark = np.full(len(cause), MADE, np.int32), items.watermark[cause]
        return Items(items.event[cause], items.at[cause], kind, source, key, keys, tuples, watermark)


def _type_of_key(key: Expression) -> Type:
    """The type as which a sort key is stored: a whole number of equal order, or a text."""
    if form(key.type).interned:
        return key.type
    return optional_of(INT64) if key.type.optional else INT64


def _comparisons(layout: WordColumns, place: int, order: specs.Order) -> Iterator[tuple[int, bool, bool]]:
    """How the words of a sort key compare (sort_heap.ORDER): first whether there is a value (NU28), then the value."""
    if place in layout.presence:
        yield layout.presence[place], False, not order.nulls_first
    yield place, form(order.key.type).order is Order.TEXT, order.descending


def _as_stored(column: pa.Array, kind: Type) -> pa.Array:
    """A sort key as it is stored (`_type_of_key`)."""
    key_form = form(kind)
    if key_form.interned:
        return column
    words = key_form.sort_words(key_form.to_words(column, Interner()))
    return pa.array(words, mask=column.is_null().to_numpy(zero_copy_only=False))
