"""The state of an operator as declared tables.

A table is an array of records or of words. A state declares for each table the type of a row, the row space (what a
row is for: a window partition, a group, the slot of a tuple), which fields hold row numbers of other tables, and which
words are codes of interned texts. From this declaration follow growth, the saved columns, compaction, the bytes per
row, and the transfer of rows from one state to another, which splitting and merging use. Kernels read and write the
arrays directly. The arrays are attributes of the state.

A state is divided by the keys of its window partitions:

    undivided    key a   key b   key c   key d           split(2, part)        part 0    a   c
                   |       |       |       |            ----------------->     part 1    b   d
                 groups, stored tuples, timers of each   merge(part 0, part 1) is the undivided state

Each part has the rows of its keys and all rows that these refer to, under new row numbers. Values that belong to no key
(the clock, counters, facts about a stream) are copied to each part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import kernel
from sluice.columns.saved_columns import Data, Format, Saved, SavedColumns, StateError, column, grown, load

#: the part of each key, given the bytes of the key
PartOfKey = Callable[[bytes], int]
#: row space -> the new number of each row of the source state, NIL for a row that is not transferred
Maps = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Table:
    """The declaration of one table of a state.

    per      the row space, such as "partition", "group" or "slot". All tables of a row space number their rows alike
    record   the type of a row, or of one word of it
    width    the number of words in a row; None: a row is one record
    refers   field -> the row space that the field's values refer to (NIL: no row). The field "" is the whole row.
             A value that refers to "slot" is the place of a tuple: slot * `block` + the tuple's number in its block
    texts    the words that are codes of the interner `strings`
    flags    the words that are 0 or 1: whether a value of an optional type is present
    fresh    field -> its value in an unused row. The value of all other fields is 0
    """

    per: str
    record: np.dtype
    width: int | None = None
    refers: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[int, ...] = ()
    flags: tuple[int, ...] = ()
    fresh: Mapping[str, int] = field(default_factory=dict)

    def rows(self, count: int) -> np.ndarray:
        """`count` unused rows."""
        fresh_rows = np.zeros(count if self.width is None else (count, self.width), self.record)
        for name, value in self.fresh.items():
            fresh_rows[name] = value
        return fresh_rows

    @property
    def footprint(self) -> int:
        """The size of a row in bytes."""
        return self.record.itemsize * (1 if self.width is None else self.width)


def words(per: str, width: int, texts: Collection[int] = (), flags: Collection[int] = ()) -> Table:
    """The declaration of a table whose rows are `width` 64-bit words."""
    return Table(per, np.dtype(np.int64), width, texts=tuple(texts), flags=tuple(flags))


def words_of(per: str, columns: WordColumns) -> Table:
    """The declaration of a table whose rows are encoded tuples."""
    return words(per, columns.width, columns.texts, columns.flags)


class FreeSlots:
    """The free slots of a state, as a stack. Giving back or taking n slots costs O(n)."""

    def __init__(self, dtype: type[np.signedinteger[Any]]) -> None:
        self._slots = np.zeros(0, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> np.ndarray:
        """All free slots. The caller must not change the array."""
        return self._slots[: self._count]

    def used(self, top: int) -> np.ndarray:
        """The slots below `top` that are not free, in ascending order."""
        is_used = np.ones(top, np.bool_)
        is_used[self.slots] = False
        return np.flatnonzero(is_used)

    def give(self, slots: np.ndarray) -> None:
        count = self._count + len(slots)
        self._slots = grown(self._slots, count)
        self._slots[self._count : count] = slots
        self._count = count

    def take(self, count: int, top: int) -> tuple[np.ndarray, int]:
        """Takes `count` slots: first the slots that were given back last, then new ones from `top` on.

        Returns the slots and the new `top`.
        """
        return self.next(count, top), self.taken(count, top)

    def next(self, count: int, top: int) -> np.ndarray:
        """The slots that `take` would return. The first n of them are the same for every `count` of at least n."""
        freed = self._slots[max(self._count - count, 0) : self._count][::-1]
        return np.concatenate([freed, np.arange(top, top + count - len(freed))])

    def taken(self, count: int, top: int) -> int:
        """Marks the first `count` of the `next` slots as used. Returns the new `top`."""
        again = min(count, self._count)
        self._count -= again
        return top + count - again


class Tables(ABC):
    """Base class of the states of operators. Each declared table is an attribute with the name of the declaration."""

    #: the format of the saved state
    FORMAT: ClassVar[Format]
    #: the names of further saved attributes: numbers, arrays (with the type of an element), and interners
    NUMBERS: ClassVar[tuple[str, ...]] = ()
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {}
    STRINGS: ClassVar[tuple[str, ...]] = ()

    #: the tables in use. Kernels also take the other known tables, which stay empty
    declared: Mapping[str, Table]
    #: the number of tuples in one row of the row space "slot"
    block: int = 1
    #: the interned strings and lists to which words of the tables refer
    strings: Interner

    def declare(self, tables: Mapping[str, Table], needed: Collection[str] | None = None) -> None:
        """Creates all `tables` without rows, and puts the `needed` ones in use; None: all."""
        self.declared = {name: table for name, table in tables.items() if needed is None or name in needed}
        for name, table in tables.items():
            setattr(self, name, table.rows(0))

    @property
    @abstractmethod
    def rows(self) -> Mapping[str, int]:
        """Row space -> the number of rows in use. These are the first rows of each table."""

    def of(self, *spaces: str) -> list[str]:
        """The names of the tables in use that belong to these row spaces."""
        return [name for name, table in self.declared.items() if table.per in spaces]

    def footprint(self, *spaces: str) -> int:
        """The size in bytes of one row of each of these row spaces, summed up."""
        return sum(self.declared[name].footprint for name in self.of(*spaces))

    # ---- growth and compaction --------------------------------------------------------------------------------------

    def reserve(self, space: str, count: int) -> None:
        """Extends the tables of a row space to at least `count` rows. The new rows are unused ones."""
        for name, table in self.declared.items():
            if table.per == space:
                rows = getattr(self, name)
                if len(rows) < count:
                    longer = grown(rows, count)
                    for field_name, value in table.fresh.items():
                        longer[field_name][len(rows) :] = value
                    setattr(self, name, longer)

    def compact(self, space: str, kept: np.ndarray, count: int) -> None:
        """Moves the `kept` ones of the first `count` rows to the front, in this order, and drops the others.

        Every field that refers to the row space gets the new row numbers, or NIL for a dropped row.
        """
        renamed = np.full(count, NIL, np.int64)
        renamed[kept] = np.arange(len(kept))
        for name in self.of(space):
            rows = getattr(self, name)
            rows[: len(kept)] = rows.take(kept, axis=0)  # many times faster than `rows[kept]`
        for name, table in self.declared.items():
            for field_name, referred in table.refers.items():
                if referred == space:
                    rows = getattr(self, name)
                    field_words = rows[field_name] if field_name else rows
                    field_words[...] = self.renamed(field_words, space, renamed)
        for name in self.of(space):
            getattr(self, name)[len(kept) : count] = self.declared[name].rows(1)

    def renamed(self, numbers: np.ndarray, space: str, renamed: np.ndarray) -> np.ndarray:
        """Maps row numbers of a row space (or places) to the new ones. NIL and dropped rows become NIL."""
        if space != "slot" or self.block == 1:
            return rename(numbers, renamed)
        slot, before = np.divmod(numbers, self.block)  # the slot of NIL is NIL, as divmod rounds down
        places: np.ndarray = rename(slot, renamed) * self.block + before
        return np.where(places < 0, NIL, places)

    # ---- texts ------------------------------------------------------------------------------------------------------

    def texts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The tables that hold codes of texts (their rows in use), and for each table which words are codes."""
        rows = self.rows
        return [
            (getattr(self, name)[: rows[table.per]], np.array(table.texts))
            for name, table in self.declared.items()
            if table.texts
        ]

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        """All saved arrays by name: tables, other arrays, interners, numbers, and the shapes of the tables."""
        rows = self.rows
        tables = {name: getattr(self, name)[: rows[table.per]] for name, table in self.declared.items()}
        columns = tables | {name: getattr(self, name) for name in self.ARRAYS}
        for name in self.STRINGS:
            columns |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        columns["numbers"] = np.array([getattr(self, name) for name in self.NUMBERS], np.int64)
        columns["shapes"] = np.array(
            [(len(array), array.shape[1] if array.ndim > 1 else 1) for array in tables.values()], np.int64
        )
        return columns

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        """Replaces the content by what `columns` returned. Raises StateError for columns of another operator."""
        if saved.keys() != self.columns().keys():
            msg = "the saved state belongs to another operator"
            raise StateError(msg)
        shapes = column(saved["shapes"], np.int64, 2).tolist()
        for (name, table), shape in zip(self.declared.items(), shapes, strict=True):
            setattr(self, name, self.restored(name, table, saved[name], *shape))
        for name, kind in self.ARRAYS.items():
            setattr(self, name, column(saved[name], kind))
        for name in self.STRINGS:
            setattr(self, name, Interner.load({part: saved[f"{name}.{part}"] for part in Interner.PARTS}))
        for name, value in zip(self.NUMBERS, column(saved["numbers"], np.int64).tolist(), strict=True):
            setattr(self, name, type(getattr(self, name))(value))

    def restored(self, name: str, table: Table, data: pa.Buffer, count: int, width: int) -> np.ndarray:
        """The table that has these saved bytes: `count` rows of `width` words, or of one record each."""
        if table.width is None:
            return column(data, table.record)
        if table.width != width:
            msg = f"the saved state belongs to another operator: {name} has {width} words in a row, not {table.width}"
            raise StateError(msg)
        return column(data, table.record).reshape(count, width)

    def save(self) -> Saved:
        return SavedColumns(self.columns(), self.FORMAT)

    def read(self, data: Data) -> Self:
        """Replaces the content by what `save` returned. Raises StateError if `data` does not fit."""
        self.restore(load(data, self.FORMAT))
        return self

    # ---- from one state to another ----------------------------------------------------------------------------------

    def take(self, source: Self, maps: Maps) -> None:
        """Copies rows of another state to the row numbers in `maps`, and maps the row numbers in their fields likewise.

        The tables must have enough rows already. Tables of a row space that `maps` does not contain are not copied.
        """
        rows = source.rows
        for name, table in self.declared.items():
            if table.per not in maps:
                continue
            numbers = maps[table.per][: rows[table.per]]
            kept = np.flatnonzero(numbers != NIL)
            kept = kept[kept < len(getattr(source, name))]
            moved = getattr(source, name).take(kept, axis=0)
            for field_name, space in table.refers.items():
                if space in maps:
                    field_words = moved[field_name] if field_name else moved
                    field_words[...] = self.renamed(field_words, space, maps[space])
            if table.texts:
                columns = np.array(table.texts)
                moved[:, columns] = self.same_texts(moved[:, columns], source.strings)
            getattr(self, name)[numbers[kept]] = moved

    def same_texts(self, codes: np.ndarray, strings: Interner) -> np.ndarray:
        """Translates codes of another interner to codes of this state's one. A word that is no code becomes NIL."""
        flat = codes.reshape(-1)
        valid = (flat >= 0) & (flat < strings.count)
        used, places = np.unique(flat[valid], return_inverse=True)
        translated = np.full(len(flat), NIL, np.int64)
        translated[valid] = self.strings.intern_arrow(strings.take(used))[places]
        return translated.reshape(codes.shape)


def rename(numbers: np.ndarray, renamed: np.ndarray) -> np.ndarray:
    """Maps each number n to `renamed[n]`. A negative number becomes NIL."""
    if not len(renamed):
        return np.full(numbers.shape, NIL, np.int64)
    return np.where(numbers < 0, NIL, renamed.take(numbers, mode="clip"))


def keep_texts(strings: Interner, tables: Collection[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Removes from the interner all texts to which no word of these tables refers, and updates the words.

    Returns the new code of each old code, -1 for a removed text. Rows that hold no tuple may contain arbitrary words:
    these may keep a text that is not needed, and are replaced by arbitrary codes.
    """
    codes = np.concatenate([np.zeros(0, np.int64), *(table[:, text_words].reshape(-1) for table, text_words in tables)])
    renamed = strings.keep(codes[(codes >= 0) & (codes < strings.count)])
    for table, text_words in tables:
        table[:, text_words] = rename(np.minimum(table[:, text_words], len(renamed) - 1), renamed)
    return renamed


# ---- helpers of split and merge --------------------------------------------------------------------------------------


def parts_of(keys: Interner, part_of_key: PartOfKey) -> np.ndarray:
    """The part number of each key of an interner, by code."""
    names = keys.take(np.arange(keys.count)).to_pylist()
    return np.fromiter(map(part_of_key, names), np.int64, len(names))


def moved_to(chosen: np.ndarray, numbers: np.ndarray | int, count: int) -> np.ndarray:
    """The map (see `Maps`) of a row space with `count` rows in which only the `chosen` rows get these new numbers."""
    renamed = np.full(count, NIL, np.int64)
    renamed[chosen] = numbers
    return renamed


def added_keys(keys: Interner, source: Interner, codes: np.ndarray) -> np.ndarray:
    """Adds to `keys` the keys that have these codes in `source`. Gives their new codes. Raises StateError if `keys` had
    one of them before.
    """
    count_before = keys.count
    numbers = keys.intern_arrow(source.take(codes))
    if len(numbers) and int(numbers.min()) < count_before:
        msg = "two states that are merged hold the same key"
        raise StateError(msg)
    return numbers


def intern_pairs(table: Interner, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Interns the pairs (left[i], right[i]) as 16 bytes each and returns their codes."""
    pairs = np.ascontiguousarray(np.stack([left, right], axis=1), np.int64)
    return table.intern(pairs.reshape(-1).view(np.uint8), np.arange(len(left) + 1, dtype=np.int64) * 16)


def pairs_of(table: Interner) -> np.ndarray:
    """All interned pairs: row c has the pair with code c."""
    data = table.take(np.arange(table.count)).buffers()[2]
    return np.frombuffer(data or b"", np.int64).reshape(-1, 2)


def walked(heads: np.ndarray, following: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The members of linked lists, list by list in order, and the number of each member's list.

    `heads` has the first member of each list, NIL for an empty list. `following` has the next member of each member.
    """
    member, list_of = np.empty(len(following), np.int64), np.empty(len(following), np.int64)
    count = _walk(heads.astype(np.int64), following.astype(np.int64), member, list_of)
    return member[:count], list_of[:count]


@kernel
def _walk(heads: np.ndarray, following: np.ndarray, member: np.ndarray, list_of: np.ndarray) -> int:
    count = 0
    for number in range(len(heads)):
        node = heads[number]
        while node != NIL:
            member[count] = node
            list_of[count] = number
            count += 1
            node = following[node]
    return count
