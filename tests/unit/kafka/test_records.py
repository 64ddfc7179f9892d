import numpy as np
import pyarrow as pa
import pytest

from sluice.kafka.records import records, unpack


@pytest.fixture
def three():
    return records(
        "t",
        pa.array([b"a", None, b"ccc"], pa.binary()),
        pa.array([b"k", b"kk", None], pa.binary()),
        np.array([0, 1, 2]),
        np.array([1, 2, 3]),
        [None, [("h", b"vv"), ("h", None)], []],
    )


def test_rows_are_what_produce_takes(three):
    assert list(three.rows(0, 3)) == [
        (b"a", b"k", 0, None, None, 1, None),
        (None, b"kk", 1, None, None, 2, [("h", b"vv"), ("h", None)]),
        (b"ccc", None, 2, None, None, 3, []),
    ]
    assert [row[5] for row in three.rows(1, 2)] == [2]


def test_sizes_count_key_value_and_headers(three):
    empty = three.sizes()[0] - 2
    assert (three.sizes() - empty).tolist() == [2, 2 + 10 + 3 + 10 + 1, 3]
    half = type(three)("t", three.columns.slice(1))
    assert (half.sizes() - empty).tolist() == [2 + 10 + 3 + 10 + 1, 3]


def test_packed_records_unpack_to_the_same(three):
    again = unpack(three.pack())
    assert (again.topic, again.columns.equals(three.columns)) == ("t", True)


def test_records_without_headers_need_none():
    one = records("t", pa.array([b"a"], pa.binary()), pa.nulls(1, pa.binary()), np.zeros(1), np.zeros(1))
    assert list(one.rows(0, 1)) == [(b"a", None, 0, None, None, 0, None)]
