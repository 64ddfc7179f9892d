"""The words of tuples, and the values of event times that the functions of windows give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.encoding import FLOAT_EXACT, WordColumns, from_units
from sluice.columns.interner import Interner
from sluice.model.types import FLOAT64, INT64, STRING, list_of, optional_of
from sluice.time_units import MILLISECOND, SECOND


@pytest.mark.parametrize(
    "nanoseconds",
    [
        pytest.param(np.arange(-40_000, 40_000) * MILLISECOND, id="milliseconds around 1970"),
        pytest.param(np.array([-1, -3, 1, 10**9 - 1]), id="nanoseconds around 1970"),
        pytest.param(FLOAT_EXACT + np.arange(-5, 5), id="where float64 ceases to have every nanosecond"),
        pytest.param(1_700_000_000 * SECOND + np.arange(1000) * MILLISECOND, id="milliseconds of this century"),
        pytest.param(-1_700_000_000 * SECOND + np.arange(1000) * MILLISECOND, id="milliseconds of the last century"),
    ],
)
def test_nanoseconds_become_the_nearest_float64_of_seconds(nanoseconds: np.ndarray):
    exact = [float(Fraction(int(time), SECOND)) for time in nanoseconds]
    assert from_units(nanoseconds, FLOAT64).to_pylist() == exact


def test_the_words_of_a_tuple_with_optional_types():
    """A word of presence behind the words of the values. The word of null is that of an empty value."""
    columns = WordColumns([optional_of(INT64), FLOAT64, optional_of(STRING), optional_of(list_of(INT64))])
    given = [
        pa.array([7, None]), pa.array([0.5, 1.0]), pa.array([None, "a"]), pa.array([[1], None], pa.list_(pa.int64())),
    ]  # fmt: skip
    words, strings = np.zeros((2, columns.width), np.int64), Interner()
    columns.write(words, slice(2), given, strings)
    assert columns.width == 7
    assert words[:, 4:].tolist() == [[1, 0, 1], [0, 1, 0]]
    assert words[1, 0] == 0
    assert [column.to_pylist() for column in columns.read(words, strings)] == [column.to_pylist() for column in given]


def test_tuples_without_optional_types_have_a_word_for_each_value():
    assert WordColumns([INT64, STRING]).width == 2
