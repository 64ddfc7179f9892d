"""Every conformance vector that the engine offers everything for, however its events are cut into batches."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from sluice.model.engine_limits import EngineLimits
from sluice.testing import run_case
from tests.spec.comparing import Record, differences
from tests.spec.conformance_vectors import Case, all_cases, random_cuts, supported
from tests.spec.storage_strategies import block_of

CASES = [case for case in all_cases() if supported(case)]
RANDOM_CUTS = 4
INTERLEAVINGS = 5
every_case = pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES])


def test_how_many_vectors_run():
    """All of tumbling, sliding, join and sort and over event time, and of the others what needs no more than these."""
    kinds = {case["name"]: case["name"].split("-")[0] for case in CASES}
    assert len(all_cases()) == 239
    run = {
        "tumbling": 22, "sliding": 43, "interval": 20, "kip450": 62, "generated": 30, "fn": 14, "group": 5,
        "partition": 11, "tuple": 4, "join": 17, "sort": 11,
    }  # fmt: skip
    assert Counter(kinds.values()) == run


@every_case
def test_in_one_batch(case: Case):
    assert differences(run_case(case), case["output"], case) == []


@every_case
def test_with_one_event_per_batch(case: Case):
    assert differences(run_case(case, [1] * len(case["input"])), case["output"], case) == []


@every_case
def test_with_random_cuts(case: Case):
    for seed in range(RANDOM_CUTS):
        cuts = random_cuts(case, seed)
        assert differences(run_case(case, cuts), case["output"], case) == [], f"cuts {cuts}"


@every_case
def test_with_a_few_window_events_and_steps_of_the_combine_plan_at_a_time(case: Case):
    assert differences(run_case(case | {"limits": EngineLimits(events=8, steps=2)}), case["output"], case) == []


def evicts_oldest_first(case: Case) -> bool:
    """Whether the windows can be in blocks. Few windows of these cases fill a block of the usual size."""
    operator = case["operator"]
    oldest_first = re.match(r"sliding, (time|count)\((?![01]\))", operator.get("window", ""))
    return operator["kind"] == "aggregate" and not operator.get("group_by") and bool(oldest_first)


def limits_of_blocks(case: Case) -> list[EngineLimits]:
    """Limits with which the windows are in blocks of different sizes: 1, 2 and, in longer windows, 4 tuples."""
    limits = [EngineLimits(min_block=1, max_block=block, block=block) for block in (1, 2, 4)]
    return list({block_of(case, one): one for one in limits if block_of(case, one)}.values())


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if evicts_oldest_first(c)])
def test_in_blocks_of_a_few_tuples(case: Case):
    assert limits_of_blocks(case)
    for limits in limits_of_blocks(case):
        for cuts in (None, [1] * len(case["input"])):
            assert differences(run_case(case | {"limits": limits}, cuts), case["output"], case) == [], limits.block


def test_no_other_case_has_blocks():
    assert [case["name"] for case in CASES if not evicts_oldest_first(case) and limits_of_blocks(case)] == []


# ---- partitions do not see each other --------------------------------------------------------------------------------


#: policies by which partitions see each other, or which ask for the time
SHARED = re.compile("[tT]ime|partitionAge|partitionCount|tupleCount")


def interleaves(case: Case) -> bool:
    """Whether the order across partitions is not defined by the case."""
    operator = case["operator"]
    return bool(operator.get("partition_by")) and not SHARED.search(operator.get("window", ""))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if interleaves(c)])
def test_neighbours_of_different_partitions_may_be_exchanged(case: Case):
    for seed in range(INTERLEAVINGS):
        order = interleaved(case, random.Random(seed))
        moved = [{**case["input"][n], "at": place["at"]} for n, place in zip(order, case["input"], strict=True)]
        records = [record | {"after": order[record["after"]]} for record in run_case(case | {"input": moved})]
        assert differences(sorted(records, key=cause), case["output"], case) == [], f"order {order}"


def interleaved(case: Case, choose: random.Random) -> list[int]:
    """The numbers of the events in a new order."""
    order = list(range(len(case["input"])))
    for _ in range(5 * len(order)):
        place = choose.randrange(max(1, len(order) - 1))
        pair = order[place : place + 2]
        if len({partition(case, n) for n in pair} - {None}) == 2:
            order[place : place + 2] = pair[::-1]
    return order


def partition(case: Case, event: int) -> tuple[object, ...] | None:
    """The partition of a tuple; None of other events, which stay."""
    values = case["input"][event].get("tuple")
    return values and tuple(values[name] for name in case["operator"]["partition_by"])


def cause(record: Record) -> int:
    return int(record["after"])
