"""Rejected tuples say what they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import computed
from sluice.engine.stream.rejected_tuples import complete, rejected
from sluice.model.types import parse_type
from tests.spec.tuple_batches import items

KEYS = pa.array(["b", "", None, "b"])


@pytest.mark.parametrize("keys", [KEYS, KEYS.dictionary_encode()], ids=["plain", "dictionary"])
def test_a_rejected_tuple_is_shown_as_json(keys: pa.Array):
    """Also one whose key is encoded in a dictionary."""
    tuples = pa.record_batch({"k": keys, "x": [1.5, float("nan"), None, 2.0]})
    found = rejected(items(tuples), "sums", ["late"] * 4).tuples
    assert found["tuple"].to_pylist() == [
        '{"k":"b","x":1.5}', '{"k":"","x":"NaN"}', '{"k":null,"x":null}', '{"k":"b","x":2.0}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x! + 1", "x is null, which out.v needs"),
        ("x! + y!", "x or y is null, which out.v needs"),
        ("x! % 0", "out.v has no value: x! % 0"),
    ],
)
def test_the_reason_of_an_absent_value_names_it(text: str, reason: str):
    """NU13."""
    tuples = pa.record_batch({"x": pa.array([1 if "%" in text else None], pa.int64()), "y": pa.array([1], pa.int64())})
    scope = Scope("in", {"x": parse_type("int64?"), "y": parse_type("int64?")})
    found = parse(text, scope)
    made = computed([found], tuples, pa.schema([("v", pa.int64())]))
    _, _, letters = complete(items(tuples), made, "map", "out", [found])
    assert letters is not None
    assert letters.tuples["reason"].to_pylist() == [reason]
