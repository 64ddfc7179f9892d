"""Errors of expressions travel beside the values: null is a value of its own."""

import numpy as np
import pyarrow as pa
import pytest

from sluice.config.syntax.typed_expressions import Scope, parse
from sluice.engine.stream.expression_eval import checked, computed
from sluice.engine.stream.functions.function_errors import Error
from sluice.model.types import BOOLEAN, INT64, STRING

SCOPE = Scope("input", {"i": INT64, "j": INT64, "s": STRING, "p": BOOLEAN})
#: i and j: a value, a null, and with `errors` a column in which a row has an error
ROWS = pa.record_batch(
    {
        "i": pa.array([7, None, 7, 7], pa.int64()),
        "j": pa.array([2, 2, 0, None], pa.int64()),
        "s": pa.array(["1", "x", None, ""], pa.string()),
        "p": pa.array([True, False, True, False], pa.bool_()),
    }
)
FAILS = "ERROR"


def results(text):
    """The value of each row, null as None, FAILS for an error."""
    found = checked(parse(text, SCOPE), ROWS)
    values = found.values.to_pylist()
    return [FAILS if failed else value for value, failed in zip(values, found.failed().tolist(), strict=True)]


CASES = [
    ("i", [7, None, 7, 7]),
    ("i + j", [9, None, 7, None]),  # null of an argument is no error
    ("i % j", [1, None, FAILS, None]),  # no value for a remainder of a division by 0
    ("int64(s)", [1, FAILS, None, FAILS]),
    ("int64(s) + i", [8, FAILS, None, FAILS]),  # the error of an argument, also beside a null
    ("int64(s) % j + i", [8, FAILS, None, FAILS]),
    ("1 % 0", [FAILS] * 4),
    ("i + 1 % 0", [FAILS] * 4),
    # the branch that is chosen decides
    ("p ? i : int64(s)", [7, FAILS, 7, FAILS]),
    ("p ? i % j : i", [1, None, FAILS, 7]),
    ("i % j > 0 ? i : j", [7, 2, FAILS, None]),  # null is not true
    # false decides whatever the other side is
    ("p and i % j > 0", [True, False, FAILS, False]),
    ("p or i % j > 0", [True, None, True, None]),
    ("not (i % j > 0)", [False, None, FAILS, None]),
    # an error is replaced, a null is not
    ("orElse(i % j, i)", [1, None, 7, None]),
    ("orElse(i, i % j)", [7, None, 7, 7]),
    ("orElse(int64(s), i % j)", [1, None, None, None]),
    ("orElse(int64(s), 1 % 0)", [1, FAILS, None, FAILS]),
    ("try(i % j)", [1, None, None, None]),
    ("try(1 % 0)", [None] * 4),
    # a null is replaced, an error is not
    ("i ?: j", [7, 2, 7, 7]),
    ("i % j ?: 5", [1, 5, FAILS, 5]),
    ("coalesce(i, j, 5)", [7, 2, 7, 7]),
    ("i ?: 1 % 0", [7, FAILS, 7, 7]),
    ("null ?: i", [7, None, 7, 7]),
    # an error is stronger than null
    ("hasValue(i % j)", [True, False, False, False]),
    ("isPresent(i)", [True, False, True, True]),
    ("isPresent(i % j)", [True, False, FAILS, False]),
    ("isPresent(1 % 0)", [FAILS] * 4),
    ("i! + j", [9, FAILS, 7, None]),
    ("p ? null : j", [None, 2, None, None]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_a_result_is_a_value_a_null_or_an_error(text, expected):
    assert results(text) == expected


def test_an_absent_value_has_a_reason_of_its_own():
    assert checked(parse("i! % j", SCOPE), ROWS).errors.tolist() == [0, Error.ABSENT, Error.NO_VALUE, 0]


def test_a_value_with_an_error_is_null():
    assert checked(parse("i % j", SCOPE), ROWS).values.to_pylist() == [1, None, None, None]


def test_an_expression_without_errors_has_no_mask():
    found = computed([parse("i + j", SCOPE), parse("i % j", SCOPE)], ROWS)
    assert [errors is None for errors in found.errors] == [True, False]


def test_errors_in_a_column_are_those_of_the_attribute():
    errors = {"i": np.array([Error.NO_VALUE, 0, 0, 0], np.int8)}
    tuples = ROWS.set_column(0, "i", pa.array([None, None, 7, 7], pa.int64()))
    assert checked(parse("i + 1", SCOPE), tuples, errors).failed().tolist() == [True, False, False, False]
    assert checked(parse("i", SCOPE), tuples, errors).failed().tolist() == [True, False, False, False]
