"""Policies of windows: what a clause says, and the texts that follow from it."""

from __future__ import annotations

import pytest

from sluice.config.syntax.clause_parts import read_parts
from sluice.model.errors import Fault
from sluice.model.expressions import Attribute
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, parse_type
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS
from sluice.model.windows.policies.policy import Held, Input, Mistyped, Policy, Resizing
from sluice.model.windows.policies.policy_table import POLICIES

TYPES = {"i": INT64, "f": FLOAT64, "t": TIMESTAMP, "s": STRING, "n": INT64, "d": parse_type("decimal(2)")}
DELTA_ARGUMENTS = "the name of an attribute, and a number that is not negative or an expression"
GIVEN = Input("readings", TYPES, lambda text: Attribute(text, TYPES[text]))


def read(text: str, given: Input | None = GIVEN) -> Policy | Fault | Mistyped:
    (part,) = read_parts(text, [])
    return POLICIES[part.word].read(part, given)


def policy(text: str) -> Policy:
    found = read(text)
    assert isinstance(found, Policy), found
    return found


@pytest.mark.parametrize(
    "text",
    [
        "count(3)",
        "count(0)",
        "time(1.5)",
        "time(month)",
        "delta(i, 5)",
        "delta(f, 0.5)",
        "delta(i, n)",
        "punct()",
        "delta(d, 0.05)",
        "delta(d, 2)",
        "delta(t, 300)",
        "delta(t, 0.000000001)",
        "delta(i, 9223372036854775807)",
    ],
)
def test_a_policy_is_written_as_it_was_read(text: str):
    assert policy(text).clause() == text


@pytest.mark.parametrize("text", ["partitionAge(5)", "partitionCount(2)", "tupleCount(0)"])
def test_a_partition_eviction_is_written_as_it_was_read(text: str):
    (part,) = read_parts(text, [])
    found = PARTITION_EVICTIONS[part.word].read(part)
    assert not isinstance(found, Fault)
    assert found.clause() == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(1.5)", "count(n) with a whole number of tuples from 0 to 4294967295"),
        ("time(0)", "time(seconds) with a number above 0, at most 292 years, such as 30, 30s, 5m, 1h or 1d"),
        ("punct(1)", "punct() without arguments"),
        ("delta(i)", f"delta(attribute, size) with {DELTA_ARGUMENTS}"),
    ],
)  # fmt: skip
def test_a_policy_of_a_wrong_form_is_a_fault(text: str, expected: str):
    fault = read(text)
    assert isinstance(fault, Fault)
    assert (fault.expected, fault.got) == (expected, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delta(j, 5)", "an attribute of readings in delta (i, f, t, s, n, d)"),
        ("delta(s, 5)", "delta over an int64, a float64, a timestamp or a decimal(2), not s, a string"),
        ("delta(i, 5m)", "a size without a unit, as i is an int64"),
        ("delta(f, s)", "a size that is float64, as f is float64, not string"),
    ],
)
def test_a_policy_over_wrong_types_is_mistyped(text: str, expected: str):
    found = read(text)
    assert isinstance(found, Mistyped)
    assert [fault.expected for fault in found.faults] == [expected]


def test_a_policy_over_an_unknown_input_is_mistyped_without_a_fault():
    assert read("delta(i, 5)", None) == Mistyped()


@pytest.mark.parametrize(
    ("before", "later", "one_by_one", "resizing"),
    [
        ("count(2)", "count(5)", True, Resizing.LARGER),
        ("count(5)", "count(2)", False, Resizing.SMALLER),
        ("count(5)", "count(2)", True, Resizing.NONE),
        ("count(0)", "count(2)", False, Resizing.NONE),
        ("time(2)", "time(1)", True, Resizing.SMALLER),
        ("time(2)", "count(1)", True, Resizing.NONE),
        ("delta(i, 2)", "delta(i, 1)", False, Resizing.NONE),
    ],
)
def test_how_a_changed_size_changes_a_window(before: str, later: str, one_by_one: bool, resizing: Resizing):  # noqa: FBT001
    assert policy(before).resized(policy(later), one_by_one=one_by_one) is resizing


@pytest.mark.parametrize(
    ("text", "flush", "trigger"),
    [
        ("count(5)", "with 3 more tuples (2 of 5 are there)", "with 1 more tuple"),
        ("time(5)", "at ten", "at ten"),
        ("delta(i, 5)", "with a tuple whose i is too far from that of the first one",
         "with a tuple whose i is too far from that of the last firing"),
    ],
)  # fmt: skip
def test_when_a_window_fires_next(text: str, flush: str, trigger: str):
    held = Held(tuples=2, since_trigger=4, due="at ten")
    assert (policy(text).next_flush(held), policy(text).next_trigger(held)) == (flush, trigger)
