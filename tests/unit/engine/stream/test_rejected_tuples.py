"""Rejected tuples say what they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.engine.stream.rejected_tuples import rejected
from tests.spec.tuples import items

KEYS = pa.array(["b", "", None, "b"])


@pytest.mark.parametrize("keys", [KEYS, KEYS.dictionary_encode()], ids=["plain", "dictionary"])
def test_a_rejected_tuple_is_shown_as_json(keys: pa.Array):
    """Also one whose key is encoded in a dictionary."""
    tuples = pa.record_batch({"k": keys, "x": [1.5, float("nan"), None, 2.0]})
    found = rejected(items(tuples), "sums", ["late"] * 4).tuples
    assert found["tuple"].to_pylist() == [
        '{"k":"b","x":1.5}', '{"k":"","x":"NaN"}', '{"k":null,"x":null}', '{"k":"b","x":2.0}',
    ]  # fmt: skip
