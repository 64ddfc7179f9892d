"""What follows from the declaration of tables: growth, saved columns, compaction, and rows that move between states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.saved_columns import Format, StateError
from sluice.columns.state_tables import FreeSlots, Table, Tables, keep_texts, moved_to, walked, words

LISTS = np.dtype([("first", np.int32), ("best", np.int32)])
TABLES = {
    "lists": Table("list", LISTS, refers={"first": "member", "best": "list"}, fresh={"first": NIL}),
    "following": Table("member", np.dtype(np.int32), refers={"": "member"}),
    "names": words("member", 2, texts=[1]),
}


class Toy(Tables):
    """Lists of members with names."""

    FORMAT: ClassVar[Format] = Format("toy", 3)
    NUMBERS: ClassVar[tuple[str, ...]] = ("members", "finished")
    STRINGS: ClassVar[tuple[str, ...]] = ("strings",)

    lists: np.ndarray
    following: np.ndarray
    names: np.ndarray

    def __init__(self, tables: Mapping[str, Table] = TABLES) -> None:
        self.declare(tables, tables)
        self.strings, self.members, self.finished = Interner(), 0, False

    @property
    def rows(self) -> Mapping[str, int]:
        return {"list": 2, "member": self.members}

    @classmethod
    def made_of(cls, *lists: list[str]) -> Toy:
        """Two lists; the other one is the best of each."""
        made = cls()
        made.members = sum(map(len, lists))
        made.reserve("list", 2)
        made.reserve("member", made.members)
        made.lists["best"][:2] = [1, 0]
        made.names[: made.members, 0] = np.arange(made.members)
        made.names[: made.members, 1] = made.strings.intern_arrow(pa.array([name for of in lists for name in of]))
        made.following[: made.members] = np.arange(1, made.members + 1)
        ends = np.cumsum([len(of) for of in lists])
        made.following[ends[ends > 0] - 1] = NIL
        made.lists["first"][:2] = [end - len(of) if of else NIL for end, of in zip(ends, lists, strict=True)]
        return made

    def lists_of_names(self) -> list[list[str]]:
        members, of = walked(self.lists["first"][:2], self.following)
        names = self.strings.take(self.names[members, 1]).cast(pa.string()).to_pylist()
        return [[name for name, number in zip(names, of, strict=True) if number == n] for n in range(2)]


def test_rows_that_are_not_in_use_have_the_declared_values():
    toy = Toy()
    toy.reserve("list", 2)
    toy.reserve("list", 3)
    assert toy.lists["first"].tolist() == [NIL] * 4, "it doubles"
    assert toy.lists["best"].tolist() == [0] * 4
    assert len(toy.names) == 0, "another row space"


def test_a_state_is_what_it_was_when_it_is_saved_and_loaded():
    toy = Toy.made_of(["a", "b"], ["a"])
    toy.finished = True
    data = pa.BufferOutputStream()
    toy.save().write(data)
    again = Toy().read(data.getvalue().to_pybytes())
    assert again.lists_of_names() == [["a", "b"], ["a"]]
    assert again.finished is True


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({name: TABLES[name] for name in ("lists", "names")}, "belongs to another operator"),
        (TABLES | {"names": words("member", 3)}, "names has 2 words in a row, not 3"),
    ],
)
def test_a_state_with_other_tables_is_refused(tables: Mapping[str, Table], message: str):
    data = pa.BufferOutputStream()
    Toy.made_of(["a"], []).save().write(data)
    with pytest.raises(StateError, match=message):
        Toy(tables).read(data.getvalue().to_pybytes())


def test_compaction_renames_what_refers_to_the_rows():
    toy = Toy.made_of(["a", "b", "c"], ["d"])
    toy.lists["first"][0], toy.following[1] = 1, 2  # "a" is gone
    toy.compact("member", np.array([1, 2, 3]), 4)
    toy.members = 3
    assert toy.lists_of_names() == [["b", "c"], ["d"]]
    toy.compact("list", np.array([1]), 2)
    assert toy.lists_of_names() == [["d"], []]
    assert toy.lists["best"].tolist() == [NIL, 0], "the other list is gone"


def test_texts_that_no_row_needs_are_forgotten():
    toy = Toy.made_of(["a", "b", "c"], [])
    toy.compact("member", np.array([0, 2]), 3)
    toy.members = 2
    keep_texts(toy.strings, toy.texts())
    assert toy.strings.count == 2
    assert toy.strings.take(toy.names[:2, 1]).to_pylist() == [b"a", b"c"]


def test_rows_move_from_one_state_to_another():
    """The second list of one state becomes the first of the other, before what was there."""
    one, other = Toy.made_of(["x"], ["b", "a"]), Toy.made_of([], ["a", "x"])
    other.members = 4
    other.reserve("member", 4)
    lists = moved_to(np.array([1]), np.array([0]), 2)
    members = moved_to(np.array([1, 2]), np.array([2, 3]), 3)
    other.take(one, {"list": lists, "member": members})
    assert other.lists_of_names() == [["b", "a"], ["a", "x"]]
    assert other.lists["best"][0] == NIL, "that list did not move"
    assert other.strings.count == 3, "equal texts are interned once"


# ---- free slots ------------------------------------------------------------------------------------------------------


def free(*slots):
    one = FreeSlots(np.int32)
    one.give(np.array(slots))
    return one


def test_slots_that_are_free_are_taken_first_the_last_one_before_others():
    one = free(3, 5, 8)
    slots, top = one.take(2, top=10)
    assert (slots.tolist(), top) == ([8, 5], 10)
    assert one.slots.tolist() == [3]


def test_where_these_do_not_suffice_new_ones_are_taken():
    one = free(3, 5)
    slots, top = one.take(4, top=10)
    assert (slots.tolist(), top) == ([5, 3, 10, 11], 12)
    assert len(one) == 0


def test_what_was_taken_does_not_change():
    one = free(3, 5)
    taken, _ = one.take(2, top=10)
    one.give(np.array([7, 9]))
    assert taken.tolist() == [5, 3]
    assert one.slots.tolist() == [7, 9]


def test_what_would_be_taken_can_be_seen_before_it_is_known_how_many_are():
    one = free(3, 5, 8)
    assert one.next(5, top=10).tolist() == [8, 5, 3, 10, 11]
    assert [one.take(n, top=10)[0].tolist() for n in (2, 2)] == [[8, 5], [3, 10]]
