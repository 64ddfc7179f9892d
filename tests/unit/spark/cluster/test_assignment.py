from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sluice.spark.placement import Executor, assign

EXECUTORS = [Executor(str(number), f"host-{number}") for number in range(8)]
A, B, C = EXECUTORS[:3]


def test_executors_get_equal_shares():
    assert assign(4, [A, B], {}) == {0: A, 1: B, 2: A, 3: B}


def test_executors_get_shares_by_their_cores():
    large = Executor("9", "large", cores=3)
    assert Counter(assign(8, [A, large], {}).values()) == {large: 6, A: 2}


def test_single_buckets_of_several_queries_are_on_different_executors():
    assert [assign(1, [A, B, C], {}, first=query)[0] for query in range(4)] == [A, B, C, A]


def test_without_executors_no_bucket_has_one():
    assert assign(4, [], {0: A}) == {}


def test_buckets_of_a_lost_executor_are_divided_and_the_others_stay():
    before = assign(6, [A, B, C], {})
    after = assign(6, [A, B], before)
    assert Counter(after.values()) == {A: 3, B: 3}
    assert all(after[bucket] == owner for bucket, owner in before.items() if owner != C)


def test_a_new_executor_gets_its_share_and_no_other_bucket_moves():
    before = assign(4, [A, B], {})
    after = assign(4, [A, B, C], before)
    assert Counter(after.values()) == {A: 1, B: 2, C: 1} or Counter(after.values()) == {A: 2, B: 1, C: 1}
    assert sum(after[bucket] != before[bucket] for bucket in before) == 1


def test_buckets_stay_when_the_cores_of_their_executor_become_known():
    before = assign(4, [A, B], {})
    known = [executor._replace(cores=2) for executor in (A, B)]
    after = assign(4, known, before)
    assert {bucket: owner.key for bucket, owner in after.items()} == {bucket: one.key for bucket, one in before.items()}
    assert set(after.values()) == set(known)


def test_an_executor_on_another_host_with_the_same_number_is_another_one():
    before = assign(2, [A, B], {})
    assert assign(2, [A, Executor(B.id, "elsewhere")], before)[1] == Executor(B.id, "elsewhere")


@given(st.integers(1, 40), st.lists(st.sets(st.sampled_from(EXECUTORS), min_size=1), min_size=1, max_size=8))
def test_any_sequence_of_executors_leaves_the_buckets_balanced_with_few_moves(buckets, phases):
    owners: dict[int, Executor] = {}
    present: set[Executor] = set()
    for phase in phases:
        before, owners = owners, assign(buckets, sorted(phase), owners)
        counts = Counter(owners.values())
        assert owners.keys() == set(range(buckets))
        assert counts.keys() <= phase
        shares = [counts[executor] for executor in phase]
        assert max(shares) - min(shares) <= 1
        orphans = sum(owner not in phase for owner in before.values())
        arrived = phase - present
        moved = sum(owners[bucket] != owner for bucket, owner in before.items())
        assert moved <= orphans + len(arrived) * -(-buckets // len(phase))
        present = phase
