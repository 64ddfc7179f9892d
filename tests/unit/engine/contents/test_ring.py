"""Windows of a few tuples, each in a ring of its own (service/sluice/engine/contents/ring.py)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case
from tests.spec.comparing import differences
from tests.spec.window_of_numbers import Numbers


def test_what_is_inside_is_told_from_the_oldest_to_the_youngest_wherever_the_ring_begins():
    numbers = Numbers("count(6)")
    for count in (1, 3, 1, 2, 4, 10):
        numbers.come(count)
        assert numbers.stored == list(range(max(numbers.came - 6, 0), numbers.came))


def test_nothing_but_the_ring_is_kept():
    numbers = Numbers("count(6)")
    assert numbers.come(9)[-3:] == [sum(range(n, n + 6)) for n in (1, 2, 3)]
    assert numbers.graph.sizes(numbers.state) == {"sum": (1, 6)}
    assert numbers.tables.rings["size"].tolist() == [6]
    assert numbers.tables.ringed.tolist() == [[6, 7, 8, 3, 4, 5]]
    assert len(numbers.tables.stack) == len(numbers.tables.back) == numbers.tables.top == 0


def test_state_that_was_loaded_goes_on_in_the_middle_of_the_ring():
    numbers = Numbers("count(6)")
    numbers.come(9)
    numbers.state = numbers.graph.load(numbers.graph.save(numbers.state))
    assert numbers.come(2) == [sum(range(4, 10)), sum(range(5, 11))]


def test_a_window_of_sixteen_tuples_has_blocks():
    assert Numbers("count(15)").tables.ring == 15
    assert Numbers("count(16)").tables.packed


OUTPUT = {
    "sum": "Sum(x)", "average": "Average(n)", "deviation": "SampleStdDev(x)", "greatest": "Max(text)",
    "at": "ArgMin(x, n)", "least": "MinCount(n)", "first": "First(text)", "last": "Last(n)",
    "distinct": "CountDistinct(n)", "all": "CountAll()",
}  # fmt: skip
#: where tuples are listed they are in no ring
LISTING = OUTPUT | {"tuples": "Collect(n)"}


@pytest.mark.parametrize("leaving", ["partitionCount(3)", "partitionAge(4.0)", "tupleCount(7)"])
@pytest.mark.parametrize("trigger", ["count(1)", "count(3)", "time(2.0)", "delta(n, 2)"])
def test_it_tells_what_a_window_without_rings_tells(trigger: str, leaving: str):
    """Partitions come and go, and are forgotten at once."""
    at_once = EngineLimits(uncompacted=0)
    choose = random.Random(3)
    events = [{"at": n / 2, "tuple": row(choose, n)} for n in range(200)]
    operator = {
        "window": f"sliding, count(4), {trigger}, partitioned, {leaving}", "partition_by": ["k"],
        "aggregate_incomplete_windows": True,
    }  # fmt: skip
    with_rings, without = (
        run_case({"operator": operator | {"output": output}, "input": events, "limits": at_once}, [1] * 100 + [100])
        for output in (OUTPUT, LISTING)
    )
    for record in without:
        record.get("tuple", {}).pop("tuples", None)
    assert differences(with_rings, without, {"operator": operator}) == []
    assert len(with_rings) > 10


def row(choose: random.Random, n: int) -> dict[str, Any]:
    return {
        "k": f"key {n // 20 + choose.randrange(3)}", "n": choose.randrange(9), "x": choose.uniform(-9, 9),
        "text": f"{choose.randrange(99)}",
    }  # fmt: skip
