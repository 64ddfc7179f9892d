"""The state of an Aggregate: tables with a row for each window partition, each group and each stored tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.pairing_heap import NODE
from sluice.columns.saved_columns import Format, column, grown
from sluice.columns.state_tables import (  # fmt: skip
    Maps,
    PartOfKey,
    Table,
    added_keys,
    keep_texts,
    moved_to,
    parts_of,
    rename,
    walked,
    words,
)
from sluice.engine.contents import multisets
from sluice.engine.contents.blocks import COUNTS, IDLE, PARTS
from sluice.engine.contents.groups import ENDS, GROUP_RECORD
from sluice.engine.contents.ring import RING
from sluice.engine.operators.aggregate.aggregate_program import Program, widths
from sluice.engine.operators.aggregate.group_pairs import rename_pairs, take_groups
from sluice.engine.windows import processing_time
from sluice.engine.windows.processing_time import CHAIN, LIVE, TICK, window_state
from sluice.engine.windows.processing_time.window_state import SLOTS, WindowTables
from sluice.time_units import UNSET

#: the fields of `ends` with the first and the last group in the list of a partition's groups
GROUPS = dict.fromkeys(("oldest", "youngest"), "group")


def tables(program: Program, sources: int) -> dict[str, Table]:
    """The tables of AggregateState, without those of the window.

    A row of the space "part" has the summaries of the tuples of a block.
    """
    width, columns, texts = widths(program, sources), program.columns.width, program.text_columns
    flags = np.array(program.columns.flags, np.int64)
    return {
        "ends": Table("partition", ENDS, refers=GROUPS, fresh=dict.fromkeys(GROUPS, NIL)),
        "rings": Table("partition", RING),
        "sources": words("partition", width["sources"]),
        "ringed": words("partition", width["ringed"], _repeated(texts, columns, program.ring),
                        _repeated(flags, columns, program.ring)),
        "group_records": Table("group", GROUP_RECORD, refers={
            "oldest": "slot", "youngest": "slot", "root": "slot",
            "younger": "group", "older": "group", "spread": "part",
        }),
        "back": words("group", width["back"], program.text_words),
        "spread": words("part", width["spread"], _repeated(program.text_words, program.summary, program.block)),
        "group_of": Table("slot", np.dtype(np.int32), refers={"": "group"}),
        "links": Table("slot", CHAIN, refers=SLOTS),
        "nodes": Table("slot", NODE, refers={"next": "slot", "below": "slot"}),
        "words": words("slot", width["words"], texts, flags),
        "blocks": words("slot", width["blocks"], _repeated(texts, columns, program.block),
                        _repeated(flags, columns, program.block if program.packed else 0)),
        "stack": words("slot", width["stack"], program.text_words if width["stack"] else ()),
    }  # fmt: skip


def needed(program: Program) -> set[str]:
    """The names of the tables that this program uses; the others have no rows.

    The table "links" chains the tuples of a group. The window's own chain serves where a group is a whole partition.
    "links" is needed with `group_by`; for tumbling windows that list tuples, which have no chain; and for eviction by
    value, after which the window's chain does not show the former neighbours of a tuple. Where tuples are packed,
    "links" chains blocks. Rings need no links.
    """
    names = processing_time.needed(program.clause) | {"sources"}
    if program.ring:
        return names | {"rings", "ringed"}
    by_value = "order" in names
    linked = program.group_by or by_value or program.packed if program.clause.sliding else program.listing
    more = {
        "ends": program.group_by, "group_of": program.group_by, "links": linked, "nodes": by_value,
        "blocks": program.packed, "spread": program.packed, "words": not program.packed,
    }  # fmt: skip
    return names | {"group_records", "back", "stack"} | {name for name, is_used in more.items() if is_used}


class AggregateState(WindowTables):
    """The state of one Aggregate.

    The number of a partition is the code of its key in `keys`. The number of a group is that of its partition or, with
    `group_by`, the code of its pair in `pairs`. Where tuples are packed, a "slot" is a block of `block` tuples. Where
    tuples are packed or in rings, `words` has only the tuples of the current batch.
    """

    FORMAT: ClassVar[Format] = Format("aggregate", 2)
    NUMBERS: ClassVar[tuple[str, ...]] = ("top", "finished", "kept_keys", "kept_strings")
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {**WindowTables.ARRAYS, "used": np.dtype(np.int64)}
    STRINGS: ClassVar[tuple[str, ...]] = ("keys", "groups", "pairs", "strings")

    ends: np.ndarray
    rings: np.ndarray
    ringed: np.ndarray
    group_records: np.ndarray
    group_of: np.ndarray
    links: np.ndarray
    nodes: np.ndarray
    sources: np.ndarray
    back: np.ndarray
    spread: np.ndarray
    blocks: np.ndarray
    stack: np.ndarray

    def __init__(self, program: Program, sources: int) -> None:
        """`sources` is the number of topic partitions."""
        super().__init__()
        self._program, self._sources = program, sources
        self.block, self.ring, self.packed = program.block, program.ring, program.packed
        self.declare({**window_state.TABLES, **tables(program, sources)}, needed(program))
        self.scalars[TICK] = UNSET  # until the timer starts
        #: the unused rows of `spread`, and the counters of blocks.py (COUNTS of them)
        self.idle, self.used = np.zeros(0, np.int32), np.zeros(COUNTS, np.int64)
        #: whether the final mark was received
        self.finished = False
        self.keys, self.groups, self.pairs = Interner(), Interner(), Interner()
        self.strings = Interner()
        #: the numbers of entries that the last compaction of `keys` and of `strings` left
        self.kept_keys = self.kept_strings = 0
        #: how often each value is in each group
        self.counted = multisets.Table(program.series)

    @property
    def rows(self) -> Mapping[str, int]:
        partitions = max(1, self.keys.count)
        return {
            "partition": partitions, "group": max(partitions, self.pairs.count), "part": int(self.used[PARTS]),
            "slot": self.top, "queue": len(self.queue),
        }  # fmt: skip

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of window partitions in memory, including empty ones, and of tuples in their windows. O(1)."""
        return self.keys.count or min(1, len(self.partitions)), int(self.scalars[LIVE])

    @property
    def keyed(self) -> bool:
        """Whether the window has partitions."""
        return bool(self._program.partition_by)

    @property
    def holding(self) -> bool:
        """Whether tuples are stored beyond their batch."""
        return self._program.holding

    @property
    def linked(self) -> bool:
        """Whether the tuples of a group have a chain apart from that of the window."""
        return "links" in self.declared

    @property
    def tuples(self) -> np.ndarray:
        """The words of stored tuples, by slot; in blocks and rings by the tuple's number over all blocks or rings."""
        if self.ring:
            return self.ringed.reshape(len(self.ringed) * self.ring, self.words.shape[1])
        if self.packed:
            return self.blocks.reshape(len(self.blocks) * self.block, self.words.shape[1])
        return self.words

    def reserve_partitions(self, count: int) -> None:
        self.reserve("partition", count)

    def reserve_groups(self, count: int) -> None:
        self.reserve("group", count)
        if self.packed and len(self.spread) < count:  # a group has at most one row, and most groups may need none
            self.spread = grown(self.spread[: self.used[PARTS]], count)
            self.idle = grown(self.idle, len(self.spread))

    def reserve_slots(self, count: int) -> None:
        self.reserve("slot", count)

    def reserve_words(self, count: int) -> None:
        """Makes room for the words of a batch's tuples, where slots have no words."""
        self.words = grown(self.words, count)

    # ---- compaction -------------------------------------------------------------------------------------------------

    def remove_empty_partitions(self) -> None:
        """Removes the partitions that hold no tuples and have neither a trigger counter nor a delta's reference.

        Counter and reference outlive the tuples of a partition (S7).
        """
        count = self.keys.count
        parts = self.partitions[:count]
        kept = np.flatnonzero((parts["size"] > 0) | (parts["counter"] > 0) | parts["referenced"])
        renamed = self.keys.keep(kept)
        self.compact_partitions(kept, count)
        self.remove_empty_groups(renamed)

    def remove_empty_groups(self, partitions: np.ndarray) -> None:
        """Removes the groups without tuples. `partitions` has the new number of each partition, NIL if it is gone."""
        kept, renamed = np.flatnonzero(partitions != NIL), partitions
        if self.pairs.count:
            kept = np.flatnonzero(self.group_records["size"][: self.pairs.count] > 0)
            renamed = rename_pairs(self, kept, partitions)
        self.compact("group", kept, len(renamed))
        self.counted.renumber_groups(kept, renamed)
        self.kept_keys = max(self.keys.count, self.pairs.count)

    def remove_unused_texts(self) -> None:
        """Removes the texts that no table refers to. Rows that are not in use may keep some unused texts alive."""
        columns = self._program.text_columns
        counted = self.counted.words(columns)
        keep_texts(self.strings, [*self.texts(), (counted, np.array([0]))])
        self.counted.reword(counted, columns)
        self.kept_strings = self.strings.count

    # ---- saving and loading -----------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        counted = {f"counted.{name}": values for name, values in self.counted.save().items()}
        return super().columns() | counted | {"idle": self.idle[: self.used[IDLE]]}

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        super().restore(saved)
        self.settle(column(saved["free"], np.int32))
        self.idle = grown(column(saved["idle"], np.int32), len(self.spread))
        self.counted.restore(*(column(saved[f"counted.{name}"], kind) for name, kind in multisets.TABLE.items()))

    def restored(self, name: str, table: Table, data: pa.Buffer, count: int, width: int) -> np.ndarray:
        """Widens the saved rows of `sources`, which has a bit for each topic partition, if a stream has more by now."""
        if name != "sources":
            return super().restored(name, table, data, count, width)
        rows = column(data, np.int64).reshape(count, width)
        more = (table.width or 0) - width
        return np.pad(rows, ((0, 0), (0, more))) if more > 0 else rows

    # ---- split and merge --------------------------------------------------------------------------------------------

    def split(self, parts: int, part_of_key: PartOfKey) -> list[AggregateState]:
        return [self.gathered([(self, partitions)])[0] for partitions in self.divided(parts, part_of_key)]

    def merge(self, others: Sequence[AggregateState]) -> AggregateState:
        return self.merged(others)[0]

    def merged(self, others: Sequence[AggregateState]) -> tuple[AggregateState, list[Maps]]:
        """Like `merge`; also returns for each state the new numbers of its rows."""
        return self.gathered([(state, state.own_partitions(first=state is self)) for state in (self, *others)])

    def divided(self, parts: int, part_of_key: PartOfKey) -> list[np.ndarray]:
        """The partitions of each part of a split. A window without partitions is whole in part 0."""
        part_of = parts_of(self.keys, part_of_key) if self.keyed else np.zeros(1, np.int64)
        return [np.flatnonzero(part_of == part) for part in range(parts)]

    def own_partitions(self, *, first: bool) -> np.ndarray:
        """The numbers of all partitions. Without `partition_by` only the `first` of several states has one."""
        return np.arange(self.keys.count if self.keyed else int(first))

    def gathered(self, chosen: Sequence[tuple[AggregateState, np.ndarray]]) -> tuple[AggregateState, list[Maps]]:
        """A new state with the given partitions of other states, and the new numbers of the rows of each state."""
        target = AggregateState(self._program, self._sources)
        target.finished = chosen[0][0].finished
        sources = [(state, target._maps(state, partitions)) for state, partitions in chosen]
        for space, count in target.rows.items():
            target.reserve(space, count if any(len(partitions) for _, partitions in chosen) else 0)
        target.reserve_groups(len(target.group_records))
        target.counted.reserve(target.rows["group"], 0)
        target.take_windows(sources)
        for state, maps in sources:
            target._take_counted(state, maps["group"])
        target.kept_keys, target.kept_strings = max(target.keys.count, target.pairs.count), target.strings.count
        return target, [maps for _, maps in sources]

    def _maps(self, state: AggregateState, partitions: np.ndarray) -> Maps:
        """The new numbers in this state for the rows of these partitions of another state."""
        numbers = added_keys(self.keys, state.keys, partitions) if self.keyed else partitions
        partition = moved_to(partitions, numbers, state.rows["partition"])
        group = take_groups(self, state, partition) if self._program.group_by else partition
        slots = state.stored_in(partition, group)
        slot = moved_to(slots, self.top + np.arange(len(slots)), state.top)
        self.top += len(slots)
        part = self._parts_of(state, group)
        return {"partition": partition, "group": group, "slot": slot, "part": part}

    def stored_in(self, partition: np.ndarray, group: np.ndarray) -> np.ndarray:
        """The slots (blocks, where tuples are packed) of the partitions and groups that are not NIL in these maps."""
        if not self.top:
            return np.zeros(0, np.int64)
        chained = "chain" in self.declared  # by the window; otherwise each group is chained
        lists, numbers, links = (
            (self.partitions, partition, self.chain) if chained else (self.group_records, group, self.links)
        )
        count = min(len(numbers), len(lists))
        holding = (numbers[:count] != NIL) & (lists["size"][:count] > 0)
        heads = np.where(holding, lists["oldest"][:count] // self.block, NIL)
        slots, _ = walked(heads, links["younger"] // self.block)  # -1 // block is -1, so NIL stays NIL
        return slots

    def _parts_of(self, state: AggregateState, group: np.ndarray) -> np.ndarray:
        """The new numbers in this state for the rows of `spread` of another state."""
        if not self.packed:
            return np.zeros(0, np.int64)
        count = min(len(group), len(state.group_records))
        group_records = state.group_records[:count][(group[:count] != NIL) & (state.group_records["size"][:count] > 0)]
        parts = group_records["spread"][group_records["spread"] != NIL]
        first = int(self.used[PARTS])
        self.used[PARTS] += len(parts)
        return moved_to(parts, first + np.arange(len(parts)), state.rows["part"])

    def _take_counted(self, state: AggregateState, group: np.ndarray) -> None:
        """Copies the multisets of the groups that are not NIL in this map."""
        series = len(self.counted.series)
        if not series or not len(state.counted.heads):
            return
        used = state.counted.entries[: state.counted.scalars[multisets.TOP]]
        live = np.flatnonzero((used["group"] != NIL) & (group[np.maximum(used["group"], 0)] != NIL))
        first = int(self.counted.scalars[multisets.TOP])
        entry = moved_to(live, first + np.arange(len(live)), len(used))
        moved = used[live]
        moved["group"] = group[moved["group"]]
        for link in ("before", "after"):
            moved[link] = rename(moved[link], entry)
        texts = np.isin(
            moved["series"], np.flatnonzero(np.isin(self.counted.series["column"], self._program.text_columns))
        )
        moved["word"][texts] = self.same_texts(moved["word"][texts], state.strings)
        self.counted.entries = np.concatenate([self.counted.entries[:first], moved])
        self.counted.scalars[multisets.TOP] += len(live)
        heads = state.counted.heads.reshape(-1, series)
        kept = np.flatnonzero(group[: len(heads)] != NIL)
        taken = heads[kept]
        taken["first"] = rename(taken["first"], entry)
        self.counted.heads.reshape(-1, series)[group[kept]] = taken
        self.counted.hash_anew()


def _repeated(texts: np.ndarray, width: int, times: int) -> tuple[int, ...]:
    """The indices of some words in a row of `times` tuples or summaries of `width` words each."""
    return tuple((np.arange(times)[:, None] * width + texts).reshape(-1).tolist())
