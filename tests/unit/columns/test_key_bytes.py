"""The codes of keys, whichever way their column is encoded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.interner import Interner
from sluice.columns.key_bytes import key_codes


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
