"""The Barrier operator: one tuple of each input makes a set (BA1 to BA8).

The items of all inputs are merged in order of arrival. A kernel keeps the queues, and logs which tuples left, and why.
The sets become outputs; the other tuples that left are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.encoding import WordColumns
from sluice.columns.key_bytes import canonical, key_codes, one_key
from sluice.columns.saved_columns import Data
from sluice.engine.contents import window_inspection
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.barrier import barrier_kernel
from sluice.engine.operators.barrier.barrier_records import (
    ARRIVAL,
    ENTRY,
    EXPIRED,
    FULL,
    LEFT,
    SET,
    BarrierSettings,
    BarrierTables,
)
from sluice.engine.operators.barrier.barrier_state import BarrierState, PortColumns
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.union_operator import ranks_of_items
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.expression_eval import computed
from sluice.engine.stream.items import FINAL, MADE, MAX_TIME, TIMER, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.rejected_tuples import complete, joined, readable, rejected
from sluice.engine.windows.event_time.event_records import ENDLESS, NEVER
from sluice.engine.windows.event_time.timer_queue import ROOT
from sluice.model.errors import one_of
from sluice.model.expressions import Attribute
from sluice.model.spec import Barrier
from sluice.model.types import Schema
from sluice.model.unparse import seconds


class Sets(NamedTuple):
    """The sets of a batch, in the order in which they come out. `slots` has a column for each input."""

    cause: np.ndarray
    partition: np.ndarray
    slots: np.ndarray


class BarrierOperator(Stateful[BarrierState]):
    """Runs one `Barrier`. All data is in the state, which `feed` changes in place."""

    def __init__(self, spec: Barrier, schemas: Sequence[Schema], timed: Sequence[bool], *, spread: bool) -> None:
        """`schemas` are the schemas of the inputs; `timed`: which inputs have an event time.

        `spread`: the tuples may be spread over several buckets, so the sets of one event are in order of their keys.
        """
        self.spec, self._schemas, self._timed, self._spread = spec, schemas, timed, spread
        attributes = [[Attribute(name, kind) for name, kind in schema] for schema in schemas]
        self._reads = [(*port.key, *columns) for port, columns in zip(spec.ports, attributes, strict=True)]
        self._stored = PortColumns(tuple(WordColumns([kind for _, kind in schema]) for schema in schemas))
        self._rule = BarrierSettings(len(schemas), spec.buffer, ENDLESS if spec.timeout is None else spec.timeout)

    @property
    def spaces(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """The spaces with rows per key, and with rows per stored tuple; no rows per time."""
        return ("partition", "queue"), ("slot",), ()

    def initial(self) -> BarrierState:
        return BarrierState(self._stored, self.spec.limits, self._rule.timeout)

    def load(self, data: Data) -> BarrierState:
        return self.initial().read(data)

    def due(self, state: BarrierState) -> int:
        """The next time at which a tuple waits no longer; MAX_TIME if none does."""
        if state.finished or self._rule.timeout == ENDLESS:
            return MAX_TIME
        return int(state.agenda.matches[state.agenda.starts[0] + ROOT]["due"])

    def inspect(self, state: BarrierState, key: str | None) -> list[InspectedWindow]:
        """The waiting tuples of this key, by input."""
        number = window_inspection.code_of(state.keys, key if self.spec.partition_by else "")
        return [] if number < 0 else list(self._waiting(state, number))

    def _waiting(self, state: BarrierState, key: int) -> Iterator[InspectedWindow]:
        for number, port in enumerate(self.spec.ports):
            queue = state.queues[key * len(self.spec.ports) + number]
            if queue["size"]:
                slots = window_inspection.chained(queue, state.waiting)
                names, words = [name for name, _ in self._schemas[number]], state.words[slots]
                port_words = words[:, self._stored.places[number]]
                held = window_inspection.tuples(names, self._stored.inputs[number], port_words, state.strings)
                yield InspectedWindow(self.spec.name, len(slots), held, port.name)

    # ---- a batch ----------------------------------------------------------------------------------------------------

    def feed(self, state: BarrierState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The outputs of these items by stream, and the rejected tuples under REJECTS: tuples that waited for too long
        by `clock.end`, too. After the final marks of all inputs there are none.
        """
        if state.finished:
            return {}
        parts = [_of_interest(items) for items in inputs]
        read, unread = zip(*(self._readable(number, part) for number, part in enumerate(parts)), strict=True)
        arrivals = self._arrivals(state, [items for items, _ in read], [columns for _, columns in read])
        arrivals = self._with_watermarks(state, self._until_final(state, arrivals))
        log = self._run(state, arrivals, clock.end)
        outputs, unmade = self._outputs(state, arrivals, log)
        letters = list(self._letters(state, arrivals, log))
        state.free.give(log["slot"])
        if state.compactable:
            state.compact_all()
        return outputs | joined([*unread, *letters, *unmade])

    def _readable(self, number: int, items: Items) -> tuple[tuple[Items, pa.RecordBatch], Items | None]:
        items, columns, unread = readable(items, self._reads[number], self.spec.name)
        return (items, columns), unread

    def _arrivals(self, state: BarrierState, parts: Sequence[Items], values: Sequence[pa.RecordBatch]) -> np.ndarray:
        """A record for each item of all inputs, in order of arrival. Stores the tuples."""
        all_arrivals = [self._of_input(state, *port) for port in zip(range(len(parts)), parts, values, strict=True)]
        state.make_room()
        return np.concatenate(all_arrivals)[np.argsort(ranks_of_items(parts), kind="stable")]

    def _of_input(self, state: BarrierState, number: int, items: Items, values: pa.RecordBatch) -> np.ndarray:
        arrivals, is_tuple = np.zeros(len(items), ARRIVAL), items.kind == TUPLE
        for name in ("at", "event", "kind", "watermark", "source"):
            arrivals[name] = getattr(items, name)
        arrivals["port"] = number
        keys = len(self.spec.ports[number].key)
        slots = state.take_slots(values.num_rows)
        self._stored.write(state.words, slots, number, values.columns[keys:], state.strings)
        arrivals["slot"][is_tuple] = slots
        if values.num_rows:
            arrivals["partition"][is_tuple] = (
                key_codes(values.columns[:keys], state.keys) if keys else one_key(state.keys)[0]
            )
        return arrivals

    def _until_final(self, state: BarrierState, arrivals: np.ndarray) -> np.ndarray:
        """Marks the inputs that are final. Keeps the final mark of the last one alone, which ends the operator."""
        kept = np.ones(len(arrivals), np.bool_)
        for place in np.flatnonzero(arrivals["kind"] == FINAL).tolist():
            state.finals[arrivals["port"][place]] = 1
            kept[place] = bool(state.finals.all())
        return arrivals[kept]

    def _with_watermarks(self, state: BarrierState, arrivals: np.ndarray) -> np.ndarray:
        """Replaces the watermarks of the inputs by their minimum, which is dropped if it does not increase (BA6)."""
        kept = np.ones(len(arrivals), np.bool_)
        for place in np.flatnonzero(arrivals["kind"] == WATERMARK).tolist():
            before, port = self._least(state), arrivals["port"][place]
            state.reached[port] = max(int(state.reached[port]), int(arrivals["watermark"][place]))
            arrivals["watermark"][place] = self._least(state)
            kept[place] = self._least(state) > before
        return arrivals[kept]

    def _least(self, state: BarrierState) -> int:
        """The watermark of the output: the minimum over the inputs with an event time."""
        timed = zip(state.reached.tolist(), self._timed, strict=True)
        return min((watermark for watermark, is_timed in timed if is_timed), default=NEVER)

    def _run(self, state: BarrierState, arrivals: np.ndarray, end: int) -> np.ndarray:
        """Runs the kernel. Gives the log of the tuples that left."""
        finals = np.flatnonzero(arrivals["kind"] == FINAL)
        log, used = np.empty(int(state.held[0]) + len(arrivals), ENTRY), np.zeros(1, np.int64)
        tables = BarrierTables(
            state.partitions, state.queues, state.waiting, state.agenda.matches, state.agenda.starts, log, used,
            state.held,
        )  # fmt: skip
        last = int(arrivals["at"][finals[0]]) if len(finals) else end
        barrier_kernel.run(tables, self._rule, arrivals, last)
        if len(finals):
            barrier_kernel.drain(tables, self._rule, state.keys.count, int(finals[0]))
            state.finished = True
        return log[: used[0]]

    # ---- out --------------------------------------------------------------------------------------------------------

    def _outputs(
        self, state: BarrierState, arrivals: np.ndarray, log: np.ndarray
    ) -> tuple[dict[str, Items], list[Items | None]]:
        """The outputs by stream: of a barrier a tuple for each set, of a pair its tuples and a mark (BA3)."""
        sets = self._sets(state, arrivals, log[log["what"] == SET])
        items = self._items(state, arrivals, sets)
        columns = self._tuples(state, sets)
        outputs, unmade = dict[str, Items](), list[Items | None]()
        for output in self.spec.outputs:
            schema = arrow_schema(tuple((name, e.type) for name, e in output.attributes))
            expressions = [e for _, e in output.attributes]
            values = computed(expressions, columns, schema)
            usable, rows, bad = complete(
                items.with_tuples(values.columns), values, self.spec.name, output.stream, expressions
            )
            outputs[output.stream] = usable.with_tuples(rows)
            unmade.append(bad)
        return outputs, unmade

    def _sets(self, state: BarrierState, arrivals: np.ndarray, log: np.ndarray) -> Sets:
        """The sets; those of one event and moment between two watermarks in order of their keys, if they may be in
        several buckets.
        """
        count = len(self.spec.ports)
        cause, partition = log["cause"][::count], log["partition"][::count]
        sets = Sets(cause, partition, log["slot"].reshape(-1, count))
        if not self._spread or not len(cause):
            return sets
        interval = np.cumsum(arrivals["kind"] == WATERMARK)[cause]
        new = [
            np.diff(column, prepend=column[:1] - 1) != 0
            for column in (arrivals["event"][cause], arrivals["at"][cause], interval)
        ]
        key, keys = emit.named(partition, state.keys)
        rank = np.empty(len(keys), np.int64)
        rank[canonical(keys)] = np.arange(len(keys))
        order = np.lexsort((rank[key], np.cumsum(np.logical_or.reduce(new))))
        return Sets(cause, partition[order], sets.slots[order])

    def _items(self, state: BarrierState, arrivals: np.ndarray, sets: Sets) -> Items:
        """The items of an output, without attributes: the sets, the watermarks, and the final mark."""
        inside = [TUPLE] * len(self.spec.ports) + [WINDOW] if self.spec.apart else [TUPLE]
        passing = np.flatnonzero((arrivals["kind"] == WATERMARK) | (arrivals["kind"] == FINAL))
        cause = np.concatenate([np.repeat(sets.cause, len(inside)), passing])
        kind = np.concatenate([np.tile(np.array(inside, np.int8), len(sets.cause)), arrivals["kind"][passing]])
        named, keys = emit.named(sets.partition, state.keys if self.spec.partition_by else None)
        key = np.concatenate([np.repeat(named, len(inside)), np.full(len(passing), -1, np.int32)])
        order = np.argsort(cause, kind="stable")
        cause, kind = cause[order], kind[order]
        watermark = np.where(kind == WATERMARK, arrivals["watermark"][cause], 0)
        rows = pa.RecordBatch.from_pylist([], schema=pa.schema([]))
        return Items(
            arrivals["event"][cause], arrivals["at"][cause], kind, np.full(len(cause), MADE, np.int32),
            key[order].astype(np.int32), keys, rows, watermark,
        )  # fmt: skip

    def _tuples(self, state: BarrierState, sets: Sets) -> pa.RecordBatch:
        """The attributes of the tuples of the sets: of a barrier a row for each set, with the attributes of all inputs
        (BA2); of a pair a row for each tuple.
        """
        columns = [self._read(state, sets.slots[:, port], port) for port in range(len(self.spec.ports))]
        if not self.spec.apart:
            named = {"#": pa.array(np.zeros(len(sets.cause), np.int8))}
            for port, whole in zip(self.spec.ports, columns, strict=True):
                named |= {f"{port.name}.{name}": whole.column(name) for name in whole.schema.names}
            return pa.RecordBatch.from_pydict(named)
        schema = arrow_schema(tuple((name, e.type) for name, e in self.spec.outputs[0].attributes))
        whole = pa.Table.from_batches([batch.select(schema.names).cast(schema) for batch in columns], schema)
        count = len(sets.cause)
        order = (np.arange(count)[:, None] + count * np.arange(len(columns))).reshape(-1)
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in whole.take(pa.array(order)).columns], schema=schema
        )

    def _read(self, state: BarrierState, slots: np.ndarray, port: int) -> pa.RecordBatch:
        values = self._stored.read(state.words, slots, port, state.strings)
        return pa.RecordBatch.from_arrays(values, schema=arrow_schema(self._schemas[port]))

    def _letters(self, state: BarrierState, arrivals: np.ndarray, log: np.ndarray) -> Iterator[Items]:
        """The tuples that left without a set, as dead letters, by input."""
        for number in range(len(self.spec.ports)):
            refused = log[(log["what"] != SET) & (log["port"] == number)]
            if len(refused):
                yield rejected(
                    self._left(state, arrivals, refused, number), self.spec.name, self._reasons(refused, number)
                )

    def _left(self, state: BarrierState, arrivals: np.ndarray, entries: np.ndarray, number: int) -> Items:
        timed, cause = entries["what"] == EXPIRED, np.minimum(entries["cause"], len(arrivals) - 1)
        event, at = (arrivals[name][cause] if len(arrivals) else entries["due"] for name in ("event", "at"))
        return Items(
            np.where(timed, TIMER, event), np.where(timed, entries["due"], at), np.full(len(entries), TUPLE, np.int8),
            state.waiting["source"][entries["slot"]].astype(np.int32), np.full(len(entries), -1, np.int32),
            pa.array([], pa.binary()), self._read(state, entries["slot"], number),
        )  # fmt: skip

    def _reasons(self, entries: np.ndarray, number: int) -> list[str]:
        """Why the tuples of an input left (BA4, BA5, BA7)."""
        name = self.spec.ports[number].name
        others = one_of(port.name for place, port in enumerate(self.spec.ports) if place != number)
        texts = {
            FULL: f"{self.spec.buffer} tuples of {name} wait for {others} already",
            EXPIRED: f"no tuple of {others} came within {seconds(self.spec.timeout or 0)} s",
            LEFT: f"no tuple of {others} came before the final mark",
        }
        return [texts[code] for code in entries["what"].tolist()]


def _of_interest(items: Items) -> Items:
    """The tuples, watermarks and final marks. Window marks are dropped (BA6)."""
    kept = (items.kind == TUPLE) | (items.kind == FINAL) | (items.kind == WATERMARK)
    return items if kept.all() else items.only(kept)
