"""The bytes of values with an inside, in the state (ST4)."""

import pytest

from sluice.columns.arrow_types import array_of
from sluice.columns.column_forms import form
from sluice.columns.interner import Interner
from sluice.model.types import parse_type

SEVEN, TWO, ONE = (n.to_bytes(8, "little") for n in (7, 2, 1))
BYTES = {
    ("tuple<id: int64, name: string>", ((7, "ab"),)): [SEVEN + TWO + b"ab"],
    ("tuple<id: int64?, name: string?>", ((None, "ab"), (7, None))): [
        b"\0" + b"\1" + TWO + b"ab",
        b"\1" + SEVEN + b"\0",
    ],
    ("map<string, int64>", ((("b", 7), ("a", 2)), ())): [ONE + b"a" + TWO + ONE + b"b" + SEVEN, b""],
    ("list<int64?>", ((7, None), (None,))): [b"\1" + SEVEN + b"\0", b"\0"],
    ("list<tuple<id: int64>>", (((7,), (2,)),)): [(8).to_bytes(8, "little") + SEVEN + (8).to_bytes(8, "little") + TWO],
    ("list<int64>", ((7, 2),)): [SEVEN + TWO],
    ("list<string>", (("ab",),)): [TWO + b"ab"],
    ("bytes", ("AAE=",)): [b"\0\1"],
    ("json", ('{"a": 1}',)): [b'{"a": 1}'],
}


@pytest.mark.parametrize(("type_", "values"), BYTES, ids=[type_ for type_, _ in BYTES])
def test_the_bytes_of_a_value(type_, values):
    kind, strings = form(parse_type(type_)), Interner()
    words = kind.to_words(kind.from_values(values), strings)
    assert strings.take(words).to_pylist() == BYTES[type_, values]


VALUES = {
    "tuple<id: int64, at: timestamp?, ok: boolean>": [(1, None, True), (2, 5000, False)],
    'tuple<price: decimal(2), wide: "decimal(30, 3)"?>'.replace('"', ""): [
        ("1.25", None),
        ("-0.01", "12345678901234567890.123"),
    ],
    "tuple<a: tuple<b: tuple<c: string?>?>>": [((("x",),),), ((None,),), (((None,),),)],
    "map<string, list<tuple<x: float64, y: map<int64, json?>>>>": [(("k", [(1.5, ((1, None), (2, "[1]")))]),), ()],
    "map<timestamp, boolean?>": [((1000, None), (2000, True))],
    "list<list<string?>?>": [[["a", None], None], [], [[]]],
    "list<map<string, bytes>>": [[(("a", "AA=="),), ()], []],
}


@pytest.mark.parametrize("type_", VALUES)
def test_values_come_back_from_their_bytes(type_):
    kind, strings = form(parse_type(type_)), Interner()
    column = array_of(VALUES[type_], parse_type(type_))
    assert kind.from_words(kind.to_words(column, strings), strings).equals(column)
    part = column.slice(1)
    assert kind.from_words(kind.to_words(part, strings), strings).equals(part)
    assert kind.from_user(kind.to_user(column)).equals(column)


def test_equal_values_have_equal_bytes():
    """A map has its entries in the order of its keys, and the last of two entries of a key."""
    kind, strings = form(parse_type("map<string, int64>")), Interner()
    words = kind.to_words(kind.from_values([(("a", 1), ("b", 2)), (("b", 3), ("b", 2), ("a", 1))]), strings)
    assert words[0] == words[1]
