"""The memory of an operator as declared tables.

A state declares its tables: what a row is, what has a row (a window partition, a group, the slot of a tuple), which
fields are numbers of rows of other tables, and which words are codes of interned texts. From this declaration follow
growth, the saved columns, compaction, the bytes a row needs, and how rows move from one state to another, on which
splitting and merging stand. Kernels read and write the arrays themselves, which are attributes of the state.

A state is divided by the keys of its window partitions:

    undivided    key a   key b   key c   key d           split(2, part)        part 0    a   c
                   |       |       |       |            ----------------->     part 1    b   d
                 groups, stored tuples, timers of each   merge(part 0, part 1) is the undivided state

Each part has the rows of its keys and all that belongs to them, under new row numbers. What is not of a key (the clock,
counters, what is known of a stream) is copied to each part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import kernel
from sluice.columns.tables import Data, Format, Saved, StateError, column, grown, load, save

#: the part of each key, given the bytes of the key
PartOfKey = Callable[[bytes], int]
#: by row space: the new number of each row of one state, NIL for a row that does not move
Maps = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a state.

    per      the row space: what has a row, as "partition", "group" or "slot". Tables of one space have equal rows
    record   the type of a row, or of one of its words
    width    words in a row; None: a row is one record
    refers   field -> the row space that its values number, NIL for no row; the field "" is the whole row.
             Of the space "slot" the numbers are places: slot * `block` + the tuple's number in the block
    texts    words that are codes in the table of strings
    fresh    field -> its value in a row that is not in use yet; of other fields that is 0
    """

    per: str
    record: np.dtype
    width: int | None = None
    refers: Mapping[str, str] = field(default_factory=dict)
    texts: tuple[int, ...] = ()
    fresh: Mapping[str, int] = field(default_factory=dict)

    def rows(self, count: int) -> np.ndarray:
        """So many rows that are not in use."""
        made = np.zeros(count if self.width is None else (count, self.width), self.record)
        for name, value in self.fresh.items():
            made[name] = value
        return made

    @property
    def footprint(self) -> int:
        """The bytes of a row."""
        return self.record.itemsize * (1 if self.width is None else self.width)


def words(per: str, width: int, texts: Collection[int] = ()) -> Table:
    """A table of 64-bit words, so many in a row."""
    return Table(per, np.dtype(np.int64), width, texts=tuple(texts))


class Free:
    """The slots that hold no tuple, as a stack: giving and taking costs O(slots given or taken)."""

    def __init__(self, dtype: type[np.signedinteger[Any]]) -> None:
        self._slots = np.zeros(0, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> np.ndarray:
        """All of them; not to be changed."""
        return self._slots[: self._count]

    def give(self, slots: np.ndarray) -> None:
        count = self._count + len(slots)
        self._slots = grown(self._slots, count)
        self._slots[self._count : count] = slots
        self._count = count

    def take(self, count: int, top: int) -> tuple[np.ndarray, int]:
        """So many slots: the last that were given, and where these do not suffice those from `top` on; the new top."""
        return self.next(count, top), self.taken(count, top)

    def next(self, count: int, top: int) -> np.ndarray:
        """The slots that `take` would give, in the same order however many are taken."""
        again = self._slots[max(self._count - count, 0) : self._count][::-1]
        return np.concatenate([again, np.arange(top, top + count - len(again))])

    def taken(self, count: int, top: int) -> int:
        """The new top, where so many of the next slots are in use."""
        again = min(count, self._count)
        self._count -= again
        return top + count - again


class Tables:
    """A state whose tables are declared. They are its attributes, under the names that they are declared by."""

    #: the format of the saved state
    FORMAT: ClassVar[Format]
    #: attributes beside the tables: numbers, arrays of a fixed length with their types, and tables of byte strings
    NUMBERS: ClassVar[tuple[str, ...]] = ()
    ARRAYS: ClassVar[Mapping[str, np.dtype]] = {}
    STRINGS: ClassVar[tuple[str, ...]] = ()

    #: the tables in use; others that the kernels take are empty
    declared: Mapping[str, Table]
    #: tuples that one row of the space "slot" has
    block: int = 1
    #: the texts and lists among the words
    strings: Interner

    def declare(self, known: Mapping[str, Table], needed: Collection[str]) -> None:
        """Makes the `known` tables, all empty, of which the `needed` ones come into use."""
        self.declared = {name: table for name, table in known.items() if name in needed}
        for name, table in known.items():
            setattr(self, name, table.rows(0))

    @property
    def rows(self) -> Mapping[str, int]:
        """By row space the rows that mean something: all others are behind them."""
        raise NotImplementedError

    def of(self, *spaces: str) -> list[str]:
        """The tables in use of these row spaces."""
        return [name for name, table in self.declared.items() if table.per in spaces]

    def footprint(self, *spaces: str) -> int:
        """The bytes of a row of each of these spaces."""
        return sum(self.declared[name].footprint for name in self.of(*spaces))

    # ---- growth and compaction --------------------------------------------------------------------------------------

    def reserve(self, space: str, count: int) -> None:
        """Room for so many rows."""
        for name, table in self.declared.items():
            if table.per == space:
                known = getattr(self, name)
                if len(known) < count:
                    longer = grown(known, count)
                    for of, value in table.fresh.items():
                        longer[of][len(known) :] = value
                    setattr(self, name, longer)

    def compact(self, space: str, kept: np.ndarray, count: int) -> None:
        """Keeps these of the first `count` rows, in this order, and renames what refers to them."""
        renamed = np.full(count, NIL, np.int64)
        renamed[kept] = np.arange(len(kept))
        for name in self.of(space):
            rows = getattr(self, name)
            rows[: len(kept)] = rows.take(kept, axis=0)  # which is many times faster than `rows[kept]`
        for name, table in self.declared.items():
            for of, referred in table.refers.items():
                if referred == space:
                    rows = getattr(self, name)
                    whole = rows[of] if of else rows
                    whole[...] = self.renamed(whole, space, renamed)
        for name in self.of(space):
            getattr(self, name)[len(kept) : count] = self.declared[name].rows(1)

    def renamed(self, numbers: np.ndarray, space: str, renamed: np.ndarray) -> np.ndarray:
        """The new numbers of rows of a space; NIL, and what has no new number, is NIL."""
        if space != "slot" or self.block == 1:
            return rename(numbers, renamed)
        slot, before = np.divmod(numbers, self.block)  # so that NIL comes out as NIL
        found: np.ndarray = rename(slot, renamed) * self.block + before
        return np.where(found < 0, NIL, found)

    # ---- texts ------------------------------------------------------------------------------------------------------

    def texts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The tables of words that have texts, as far as they are in use, and which words these are."""
        rows = self.rows
        return [
            (getattr(self, name)[: rows[table.per]], np.array(table.texts))
            for name, table in self.declared.items()
            if table.texts
        ]

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        """What is saved, by name."""
        rows = self.rows
        tables = {name: getattr(self, name)[: rows[table.per]] for name, table in self.declared.items()}
        columns = tables | {name: getattr(self, name) for name in self.ARRAYS}
        for name in self.STRINGS:
            columns |= {f"{name}.{part}": values for part, values in getattr(self, name).save().items()}
        columns["numbers"] = np.array([getattr(self, name) for name in self.NUMBERS], np.int64)
        columns["shapes"] = np.array([(len(of), of.shape[1] if of.ndim > 1 else 1) for of in tables.values()], np.int64)
        return columns

    def restore(self, saved: Mapping[str, pa.Buffer]) -> None:
        """Puts what `columns` gave in the place of what is here. Raises StateError where it does not fit."""
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
        """A table of `count` rows of `width` words, of its saved bytes."""
        if table.width is None:
            return column(data, table.record)
        if table.width != width:
            msg = f"the saved state belongs to another operator: {name} has {width} words in a row, not {table.width}"
            raise StateError(msg)
        return column(data, table.record).reshape(count, width)

    def save(self) -> Saved:
        return save(self.columns(), self.FORMAT)

    def read(self, data: Data) -> Self:
        """Puts what `save` gave in the place of what is here. Raises StateError where it does not fit."""
        self.restore(load(data, self.FORMAT))
        return self

    # ---- from one state to another ----------------------------------------------------------------------------------

    def take(self, source: Self, maps: Maps) -> None:
        """Copies the rows of another state to where `maps` says, and renames what refers to rows. There must be room.

        A row space that is not among the `maps` stays as it is.
        """
        rows = source.rows
        for name, table in self.declared.items():
            if table.per not in maps:
                continue
            numbers = maps[table.per][: rows[table.per]]
            kept = np.flatnonzero(numbers != NIL)
            kept = kept[kept < len(getattr(source, name))]
            moved = getattr(source, name).take(kept, axis=0)
            for of, space in table.refers.items():
                if space in maps:
                    whole = moved[of] if of else moved
                    whole[...] = self.renamed(whole, space, maps[space])
            if table.texts:
                columns = np.array(table.texts)
                moved[:, columns] = self.same_texts(moved[:, columns], source.strings)
            getattr(self, name)[numbers[kept]] = moved

    def same_texts(self, codes: np.ndarray, strings: Interner) -> np.ndarray:
        """The codes here of the texts that have these codes in another table. A word that is no code stays below 0."""
        flat = codes.reshape(-1)
        valid = (flat >= 0) & (flat < strings.count)
        used, places = np.unique(flat[valid], return_inverse=True)
        found = np.full(len(flat), NIL, np.int64)
        found[valid] = self.strings.intern_arrow(strings.take(used))[places]
        return found.reshape(codes.shape)


def rename(numbers: np.ndarray, renamed: np.ndarray) -> np.ndarray:
    """The new numbers; NIL, and what has none, is NIL."""
    if not len(renamed):
        return np.full(numbers.shape, NIL, np.int64)
    return np.where(numbers < 0, NIL, renamed.take(numbers, mode="clip"))


def keep_texts(strings: Interner, tables: Collection[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Forgets all texts but those of these tables' words, and renames these; gives the new code of each old one.

    A word of a row that is not in use may be the code of any text: it is kept for a while, or becomes another code.
    """
    codes = np.concatenate([np.zeros(0, np.int64), *(table[:, which].reshape(-1) for table, which in tables)])
    renamed = strings.keep(codes[(codes >= 0) & (codes < strings.count)])
    for table, which in tables:
        table[:, which] = rename(np.minimum(table[:, which], len(renamed) - 1), renamed)
    return renamed


# ---- helpers of split and merge --------------------------------------------------------------------------------------


def parts_of(keys: Interner, part_of_key: PartOfKey) -> np.ndarray:
    """The part of each key."""
    names = keys.take(np.arange(keys.count)).to_pylist()
    return np.fromiter(map(part_of_key, names), np.int64, len(names))


def moved_to(chosen: np.ndarray, numbers: np.ndarray | int, count: int) -> np.ndarray:
    """The map of a row space with `count` rows in which the chosen rows get these numbers."""
    made = np.full(count, NIL, np.int64)
    made[chosen] = numbers
    return made


def distinct(numbers: np.ndarray, known: int) -> np.ndarray:
    """The numbers of keys that moved to a table which had `known` keys. Raises StateError if one was there before."""
    if len(numbers) and int(numbers.min()) < known:
        msg = "two states that are merged hold the same key"
        raise StateError(msg)
    return numbers


def intern_pairs(table: Interner, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The codes of pairs of numbers."""
    pairs = np.ascontiguousarray(np.stack([left, right], axis=1), np.int64)
    return table.intern(pairs.reshape(-1).view(np.uint8), np.arange(len(left) + 1, dtype=np.int64) * 16)


def pairs_of(table: Interner) -> np.ndarray:
    """The pairs of numbers that have the codes from 0 on."""
    data = table.take(np.arange(table.count)).buffers()[2]
    return np.frombuffer(data or b"", np.int64).reshape(-1, 2)


def walked(heads: np.ndarray, following: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The members of linked lists, list by list in order, and the number of each member's list.

    `heads` has the first member of each list, NIL for an empty one; `following` the next one behind each member.
    """
    member, of = np.empty(len(following), np.int64), np.empty(len(following), np.int64)
    count = _walk(heads.astype(np.int64), following.astype(np.int64), member, of)
    return member[:count], of[:count]


@kernel
def _walk(heads: np.ndarray, following: np.ndarray, member: np.ndarray, of: np.ndarray) -> int:
    count = 0
    for number in range(len(heads)):
        one = heads[number]
        while one != NIL:
            member[count] = one
            of[count] = number
            count += 1
            one = following[one]
    return count
