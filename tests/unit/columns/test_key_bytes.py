"""The codes of keys, whichever way their column is encoded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.interner import Interner
from sluice.columns.key_bytes import NULL, chosen_of_key, key_bytes, key_codes


@pytest.mark.parametrize(
    ("indices", "known"),
    [
        pytest.param([1, 0, 1, 2], [b"x", b"y", b"z"], id="a short dictionary is looked up whole"),
        pytest.param([1, 1], [b"y"], id="of a long dictionary only what is in a row"),
    ],
)
def test_keys_with_a_dictionary(indices: list[int], known: list[bytes]):
    values, table = ["x", "y", "z"], Interner()
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values))
    codes = key_codes([column], table)
    assert table.take(codes).to_pylist() == [values[index].encode() for index in indices]
    assert table.take(range(table.count)).to_pylist() == known


def test_keys_are_numbered_as_they_first_come_however_many_are_known():
    table = Interner()
    table.intern_arrow(pa.array(["a", "b", "c", "d"]))
    for codes, distinct, places in [([3, 1, -1, 3], [3, 1], [0, 1, -1, 0]), ([0], [0], [0]), ([], [], [])]:
        found, place = table.numbered(np.array(codes, np.int64))
        assert (found.tolist(), place.tolist()) == (distinct, places)


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        pytest.param([["a", None, "null"]], [b"a", NULL, b"null"], id="a string"),
        pytest.param([[7, None]], [b"7", NULL], id="a number"),
        pytest.param([[True, None, False]], [b"true", NULL, b"false"], id="a boolean"),
        pytest.param([[0.5, None]], [b"0.5", NULL], id="a float64"),
        pytest.param([["a", None], [1, None]], [b'["a",1]', b"[null,null]"], id="several attributes"),
        pytest.param([[None, "null"], [2, 2]], [b"[null,2]", b'["null",2]'], id="null is not the text null"),
    ],
)
def test_keys_with_null(columns: list[list[object]], keys: list[bytes]):
    """NU24: null is a key of its own; a value has the key that it has where its type is not optional."""
    assert key_bytes([pa.array(column) for column in columns]).to_pylist() == keys


def test_null_in_a_dictionary():
    table, column = Interner(), pa.array(["a", None, "a"]).dictionary_encode()
    assert table.take(key_codes([column], table)).to_pylist() == [b"a", NULL, b"a"]


@pytest.mark.parametrize(
    ("places", "text", "expected"), [([0], True, NULL), ([1], False, NULL), ([1, 2], False, b"[null,3]")]
)
def test_chosen_attributes_of_a_key_may_be_null(places: list[int], text: bool, expected: bytes):  # noqa: FBT001
    key = key_bytes([pa.array([None], pa.string()), pa.array([None], pa.int64()), pa.array([3])])[0].as_py()
    assert chosen_of_key(key, places, text=text) == expected
