"""The engine gives what the oracle gives, for random operators and events, however the events are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings

from sluice.model.engine_limits import LIMITS, EngineLimits
from tests.spec import oracle
from tests.spec.every_cut import CLEANED_EARLY, check_every_cut
from tests.spec.kept_finds import FINDS
from tests.spec.storage_strategies import SMALL_BLOCKS, block_of, in_blocks, in_rings, is_in_rings
from tests.spec.strategies import VALUES, Case, cases, cuts

pytestmark = pytest.mark.usefixtures("states_are_checked")


def check(case: Case, *cuts: list[int], limits: EngineLimits = CLEANED_EARLY) -> None:
    case = case | {"limits": limits}
    check_every_cut(case, oracle.run(case), *cuts)


@given(cases(), cuts)
@settings(max_examples=60, derandomize=True)
def test_random_operators_and_events(case: Case, batches: list[int]):
    check(case, [1] * len(case["input"]), batches)


@given(in_rings, cuts)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_windows_in_rings(case: Case, batches: list[int]):
    assert is_in_rings(case)
    check(case, [1] * len(case["input"]), batches)


@given(in_blocks, cuts)
@settings(max_examples=28, derandomize=True, deadline=None)
def test_windows_in_blocks(case: Case, batches: list[int]):
    assert block_of(case, SMALL_BLOCKS)
    check(case, [1] * len(case["input"]), batches, limits=SMALL_BLOCKS)


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in FINDS])
def test_what_was_found_before(case: Case):
    check(case, [1] * len(case["input"]))


# ---- many keys, long windows -----------------------------------------------------------------------------------------

MANY = [
    "tumbling, count(3), partitioned",
    "tumbling, punct(), partitioned",
    "sliding, count(4), count(2), partitioned",
    "sliding, time(30.0), delta(i, 3), partitioned",
    "sliding, delta(i, 5), time(60.0), partitioned",
    "tumbling, count(3), partitioned, tupleCount(40)",
    "sliding, time(30.0), count(2), partitioned, partitionCount(20)",
    "sliding, delta(i, 5), count(40), partitioned, partitionAge(7.0)",
]


@pytest.mark.parametrize(("group_by", "listed"), [([], LIMITS.listed), (["g"], 4)], ids=["whole", "groups, in parts"])
@pytest.mark.parametrize("keys", [1, 500])
@pytest.mark.parametrize("window", MANY)
def test_many_events(window: str, keys: int, group_by: list[str], listed: int):
    case = {
        "operator": {
            "kind": "aggregate", "window": window, "partition_by": ["k"], "group_by": group_by,
            "aggregate_incomplete_windows": window.startswith("sliding"),
            "output": {
                "k": "Last(k)", "n": "Count()", "all": "Collect(i)", "sum": "Sum(f)", "least": "Min(s)",
                "middle": "ApproxPercentile(f, 0.5)",
            },
        },
        "input": list(many_events(random.Random(7), keys)),
    }  # fmt: skip
    check(case, [350] * 5, [1] * 100, limits=replace(CLEANED_EARLY, listed=listed))


def many_events(choose: random.Random, keys: int) -> Iterator[dict[str, object]]:
    for number in range(2_000):
        at = number / 4
        if choose.random() < 0.01:
            yield {"at": at, "punct": "window"}
        else:
            values = {name: choose.choice(VALUES[name]) for name in "gs"}
            values |= {"k": f"key {choose.randrange(keys)}", "i": choose.randrange(20), "f": choose.uniform(-1e6, 1e6)}
            yield {"at": at, "tuple": values}
