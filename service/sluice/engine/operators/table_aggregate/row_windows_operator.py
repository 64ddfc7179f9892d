"""The Aggregate operator over a table: its windows hold the rows that the table has (rules EN10 to EN18)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sluice.columns.key_bytes import key_codes, partition_codes
from sluice.columns.saved_columns import Data, grown
from sluice.engine.contents import window_inspection
from sluice.engine.contents.fired_contents import FiredContents, FiringDetails
from sluice.engine.contents.firing_results import KINDS, ROWS, TUPLES, Results, Rows, cleared, enlarged
from sluice.engine.contents.multisets import PAIR
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.operators.aggregate.aggregate_program import Program
from sluice.engine.operators.aggregate.group_pairs import groups_of
from sluice.engine.operators.aggregate.window_outputs import AggregateOutputs
from sluice.engine.operators.one_input import until_final
from sluice.engine.operators.operator import Stateful
from sluice.engine.operators.table_aggregate import row_windows_kernel
from sluice.engine.operators.table_aggregate.row_windows_kernel import CHANGE, FIRINGS, NEEDED, RowWindows
from sluice.engine.operators.table_aggregate.row_windows_state import RowWindowsState
from sluice.engine.operators.table_aggregate.summary_tree import Trees
from sluice.engine.stream import emit
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import CLEAR, MAX_TIME, TUPLE, WINDOW, Items
from sluice.engine.stream.rejected_tuples import joined, readable
from sluice.engine.windows import policies
from sluice.engine.windows.processing_time import PERIODIC
from sluice.engine.windows.processing_time.window_records import FIRING, INSTANT, TICK
from sluice.engine.windows.timers import WallClock, timer
from sluice.model.expressions import Attribute, certain
from sluice.model.spec import DELETES, Aggregate
from sluice.model.types import Schema
from sluice.model.unparse import expression
from sluice.model.windows.table_window import TableWindow
from sluice.time_units import SECOND, UNSET


class RowWindowsOperator(Stateful[RowWindowsState]):
    """Runs one `Aggregate` over a table."""

    def __init__(self, spec: Aggregate, schema: Schema) -> None:
        """`schema` belongs to the table, with DELETES."""
        window = TableWindow.narrowed(spec.window)
        self.spec, self._window = spec, window
        self.program = Program.of(spec, schema)
        self._clause = self.program.clause._replace(
            trigger=policies.policy(window.trigger, {}), full=window.newest or 0,
            incomplete=spec.aggregate_incomplete_windows,
        )  # fmt: skip
        keys = (Attribute(name, dict(schema)[name]) for name in window.key)
        self._reads = (*self.program.reads, *map(certain, keys))  # a row has a key (NU29)
        self._make_outputs = AggregateOutputs(self.program, spec.name)
        self.timer = timer(window)

    def initial(self) -> RowWindowsState:
        return RowWindowsState(self.program, counting=self._window.newest is not None)

    def load(self, data: Data) -> RowWindowsState:
        return self.initial().read(data)

    def due(self, state: RowWindowsState) -> int:
        """When the timer ticks next; MAX_TIME without a timer, and after the final mark."""
        return MAX_TIME if self.timer is None or state.finished else int(state.scalars[TICK])

    def feed(self, state: RowWindowsState, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        if self.timer is not None and state.scalars[TICK] == UNSET:
            state.scalars[TICK] = self.timer.after(clock.start)
        items, last, end = until_final(state, inputs[0], clock)
        changes, fresh, unread = self._changes(state, items)
        rows, firings = self._run(state, changes, fresh, end)
        outputs, unmade = self._make_outputs.outputs(rows, firings, state.keys)
        state.compact()
        if last is not None:
            state.finished = True
            outputs = {stream: emit.final(output, *last) for stream, output in outputs.items()}
        return outputs | joined([unread, *unmade])

    # ---- input ------------------------------------------------------------------------------------------------------

    def _changes(self, state: RowWindowsState, items: Items) -> tuple[np.ndarray, np.ndarray, Items | None]:
        """The changes in the order of the items, the words of rows, and the tuples for which an expression has no
        value. Of a deletion only the key is read (EN4).
        """
        is_tuple = items.kind == TUPLE
        deletes = np.zeros(len(items), np.bool_)
        deletes[is_tuple] = items.tuples.column(DELETES).to_numpy(zero_copy_only=False)
        kept, values, unread = readable(items.only(is_tuple & ~deletes), self._reads, self.spec.name)
        deleted, clears = items.only(deletes), items.only(items.kind == CLEAR)
        parts = [self._of(part_items) for part_items in (kept, deleted, clears)]
        of_kept, of_deleted, _ = parts
        codes = self._row_codes(state, [kept.tuples, deleted.tuples])
        of_kept["row"], of_deleted["row"] = codes[: len(kept)], codes[len(kept) :]
        of_deleted["deletes"] = True
        of_kept["words"] = np.arange(len(kept))
        of_kept["partition"] = partition = partition_codes(values, self.program.partition_by, state.keys)
        of_kept["group"] = groups_of(state, self.program.group_by, values, partition)
        state.reserve_batch()
        changes = np.concatenate(parts)
        return changes[np.argsort(changes["event"], kind="stable")], self._fresh(state, values), unread

    def _of(self, items: Items) -> np.ndarray:
        changes = np.zeros(len(items), CHANGE)
        changes["at"], changes["event"], changes["kind"] = items.at, items.event, items.kind
        return changes

    def _row_codes(self, state: RowWindowsState, tuples: Sequence[pa.RecordBatch]) -> np.ndarray:
        """The number of the row of each tuple: the code of its key in the table."""
        columns = [pa.concat_arrays([batch.column(name) for batch in tuples]) for name in self._window.key]
        return key_codes(columns, state.row_keys)

    def _fresh(self, state: RowWindowsState, values: pa.RecordBatch) -> np.ndarray:
        """The words of rows, without their numbers."""
        columns = self.program.columns
        words = np.empty((values.num_rows, columns.width), np.int64)
        columns.write(words, slice(values.num_rows), values.columns[: len(columns.types)], state.strings)
        return words

    # ---- windows ----------------------------------------------------------------------------------------------------

    def _run(
        self, state: RowWindowsState, changes: np.ndarray, fresh: np.ndarray, end: int
    ) -> tuple[Rows, np.ndarray]:  # fmt: skip
        """Applies the changes. Gives the output rows of the firings, and the firings."""
        count, first, parts = len(changes), 0, list[Rows]()
        firings, used, results = np.zeros(count + 4, FIRING), np.zeros(2, np.int64), self._room(count + 4)
        instants = self._instants(state, max([end, *changes["at"][-1:].tolist()]))
        while first <= count:
            listed = np.empty((len(results.tuples), state.words.shape[1]), np.int64)
            windows = self._windows(state, fresh, listed, (firings, used), instants)
            first = row_windows_kernel.run(windows, changes, end, first, results)
            parts.append(self._rows(state, firings, results, listed))
            results = cleared(results)
            if first <= count:
                results = enlarged(results)
                firings = grown(firings, int(used[NEEDED]))
        return Rows.joined(parts), firings[: used[FIRINGS]]

    def _windows(
        self, state: RowWindowsState, fresh: np.ndarray, listed: np.ndarray, firings: tuple[np.ndarray, np.ndarray],
        instants: np.ndarray,
    ) -> RowWindows:  # fmt: skip
        program, rows = self.program, state.rows
        trees = Trees(
            program.layout, state.strings.text, state.words, state.sums, state.nodes, state.group_records
        )  # fmt: skip
        count = rows["partition"]
        return RowWindows(
            self._clause, program.arrival, program.listing, state.scalars, instants, trees, state.table_rows,
            state.partitions[:count], state.ends[:count], fresh, listed, *firings,
        )  # fmt: skip

    def _instants(self, state: RowWindowsState, end: int) -> np.ndarray:
        """The times until `end` at which a wall-clock timer is due, and the first one after that."""
        if not isinstance(self.timer, WallClock):
            return PERIODIC
        state.scalars[INSTANT] = 0
        return self.timer.through(int(state.scalars[TICK]), end)

    def _room(self, rows: int) -> Results:
        program = self.program
        return Results(
            np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty((rows, program.summary), np.int64),
            np.empty(rows if program.listing else 0, np.int64), np.empty(0, np.int32), np.zeros(KINDS, np.int64),
            np.zeros(KINDS, np.int64), np.zeros((rows, 0), np.int64), np.zeros(0, PAIR),
        )  # fmt: skip

    def _rows(self, state: RowWindowsState, firings: np.ndarray, results: Results, listed: np.ndarray) -> Rows:
        count = results.used[ROWS]
        firing = results.firing[:count]
        return self._make_outputs.rows(FiredContents(
            results.size[:count], firing, firings["stored"], bool(self.program.group_by), results.summary[:count],
            listed[: results.used[TUPLES]], state.strings, FiringDetails(firings, firing),
        ))  # fmt: skip

    # ---- for people to read -----------------------------------------------------------------------------------------

    def inspect(self, state: RowWindowsState, key: str | None) -> list[InspectedWindow]:
        """The window of this key, if it has rows; without `partition_by` the only window."""
        p = window_inspection.code_of(state.keys, key) if self.program.partition_by else 0
        if not 0 <= p < len(state.partitions) or not state.partitions["size"][p]:
            return []
        partition, rows = state.partitions[p], list[int]()
        row = int(partition["edge"])
        while row >= 0:
            rows.append(row)
            row = int(state.table_rows["younger"][row])
        names = [expression(e) for e in self.program.reads[: len(self.program.columns.types)]]
        held = window_inspection.tuples(names, self.program.columns, state.words[rows], state.strings)
        policy = {
            "since_trigger": int(partition["counter"]),
            "full": bool(partition["full"]),
            "rows": int(partition["size"]),
        }
        if self.timer is not None and not state.finished:
            policy["due"] = int(state.scalars[TICK]) / SECOND  # type: ignore[assignment]
        return [InspectedWindow(self.spec.name, len(rows), held, policy=policy, now=self._now(state, p))]

    def _now(self, state: RowWindowsState, p: int) -> dict[str, pa.RecordBatch]:
        """The outputs that the window would make if it fired now."""
        groups, at = list[int](), int(state.ends["oldest"][p])
        while at >= 0:
            groups.append(at)
            at = int(state.group_records["younger"][at])
        firings = np.zeros(1, FIRING)
        firings["partition"], firings["kind"], firings["stored"] = p, WINDOW, state.partitions["inside"][p]
        size = state.group_records["size"][groups]
        roots = state.group_records["root"][groups]
        listed = self._listed(state, p, groups) if self.program.listing else state.words[:0]
        rows = self._make_outputs.rows(FiredContents(
            size, np.zeros(len(groups), np.int64), firings["stored"], bool(self.program.group_by),
            state.sums.take(roots, axis=0), listed, state.strings,
            FiringDetails(firings, np.zeros(len(groups), np.int64)),
        ))  # fmt: skip
        outputs, _ = self._make_outputs.outputs(rows, firings, state.keys)
        return {stream: items.tuples for stream, items in outputs.items()}

    def _listed(self, state: RowWindowsState, p: int, groups: Sequence[int]) -> np.ndarray:
        """The words of the rows in the window, those of each group together, the oldest first."""
        used = state.table_rows[: state.rows["row"]]
        inside = np.flatnonzero(used["inside"] & (used["partition"] == p))
        place = np.argsort(groups)[np.searchsorted(np.sort(groups), used["group"][inside])]
        order = np.lexsort((state.words[inside, self.program.arrival], place))
        return state.words[inside[order]]
