from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.kafka.following_reader import FollowingReader
from sluice.kafka.librdkafka.column_consumer import offsets_of
from sluice.spark.lanes import direct_lane
from sluice.spark.lanes.direct_lane import RecordFeed, TooManyBytesError
from tests.unit.kafka.fake_consumer import Consumer, Record

A, B = ("trades", 0), ("trades", 1)


def feed(*consumers):
    """A feed whose reader makes these consumers, one after the other."""
    left = [*consumers]
    return RecordFeed(FollowingReader(lambda: left.pop(0), 2.0))


def records(place, *numbers):
    return [Record(place, number) for number in numbers]


def large(*numbers):
    return [Record(A, number, content=b"x" * 400) for number in numbers]


def offsets(taken):
    return {place: offsets_of(records).tolist() for place, records in taken.items()}


@pytest.fixture(autouse=True)
def bound(monkeypatch):
    monkeypatch.setattr(direct_lane, "MAX_BYTES", 1000)


def test_the_records_of_a_batch_come_by_topic_partition():
    taken = feed(Consumer(records(A, 5, 6), [*records(B, 0), *records(A, 7)])).take({A: 5, B: 0}, {A: 8, B: 1})
    assert offsets(taken) == {A: [5, 6, 7], B: [0]}


def test_a_topic_partition_without_new_records_is_left_out_and_not_waited_for():
    assert offsets(feed(Consumer(records(A, 3))).take({A: 3, B: 9}, {A: 4, B: 9})) == {A: [3]}


def test_a_batch_of_large_records_is_refused_before_all_of_them_are_in_memory():
    """A batch before or after it that is small is not."""
    made = feed(Consumer(records(A, 0), *([one] for one in large(1, 2, 3, 4))), Consumer(large(5)))
    assert offsets(made.take({A: 0}, {A: 1})) == {A: [0]}
    with pytest.raises(TooManyBytesError, match="more than 1000 bytes"):
        made.take({A: 1}, {A: 5})
    assert offsets(made.take({A: 5}, {A: 6})) == {A: [5]}


def test_after_a_batch_of_large_records_only_a_smaller_one_is_expected_to_fit():
    made = feed(Consumer(*([one] for one in large(*range(6)))))
    assert made.fits(6)
    with pytest.raises(TooManyBytesError):
        made.take({A: 0}, {A: 6})
    assert not made.fits(6)
    assert made.fits(1)


def test_records_of_a_batch_that_is_refused_are_not_kept_in_memory():
    """While batches are large, the feed reads nothing, and would keep what it has read of the first one."""
    made, before = feed(Consumer([Record(A, 0, content=b"x" * 100_000)])), pa.total_allocated_bytes()
    with pytest.raises(TooManyBytesError):
        made.take({A: 0}, {A: 2})
    assert pa.total_allocated_bytes() == before


def test_large_records_are_forgotten_by_and_by():
    """The next records may be small, which only a batch that is read here can show."""
    made = feed(Consumer(*([one] for one in large(*range(6)))))
    with pytest.raises(TooManyBytesError):
        made.take({A: 0}, {A: 6})
    assert any(made.fits(6) for _ in range(500))
