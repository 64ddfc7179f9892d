from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.columns.saved_columns import Format, SavedColumns, column, load

FORM = Format("test", 1)
COLUMNS = st.dictionaries(st.text(max_size=12), st.integers(0, 200).map(lambda size: np.arange(size, dtype=np.uint8)))


def written(saved: SavedColumns) -> bytes:
    sink = pa.BufferOutputStream()
    saved.write(sink)
    return sink.getvalue().to_pybytes()


@given(COLUMNS)
def test_the_size_is_the_number_of_bytes_that_are_written(columns: dict[str, np.ndarray]) -> None:
    saved = SavedColumns(columns, FORM)
    assert saved.size == len(written(saved))


@pytest.mark.parametrize("values", [np.zeros(0, np.int64), np.array([7, -1]), np.array([[1, 2], [3, 4]], np.int32)])
def test_a_column_is_read_as_it_was_written(values: np.ndarray) -> None:
    found = load(written(SavedColumns({"one": values}, FORM)), FORM)
    assert column(found["one"], values.dtype).tolist() == values.reshape(-1).tolist()
