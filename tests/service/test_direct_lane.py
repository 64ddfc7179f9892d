"""Small batches without a job of Spark: the outputs of both lanes are equal, in any alternation."""

from __future__ import annotations

import logging

import pytest

from sluice.spark.lanes.direct_lane import DirectLane
from tests.service.cases import Playing, spreads
from tests.service.playing import ORIGIN, record, replayed
from tests.spec.vectors import all_cases
from tests.unit.kafka.tools import produce_with_header

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}}
  out: {partitions: 2}
  dead: {}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(3), count(1), partitioned
    partition_by: [key]
    output: {out: {key: key, n: Count(), all: Collect(number)}}
dead_letters: dead
clock: records
buckets: 2
direct_records: 20
"""


@pytest.fixture
def lanes(monkeypatch):
    """The lane of each batch that runs, in order: "direct" or "spark"."""
    found, outputs = [], DirectLane.outputs

    def noted(lane, batch):
        made = outputs(lane, batch)
        found.append("spark" if made is None else "direct")
        return made

    monkeypatch.setattr(DirectLane, "outputs", noted)
    return found


def events(first, count):
    """Tuples of three keys in turn, one a second, in two topic partitions."""
    return [
        {"at": n, "tuple": {"key": "abc"[n % 3], "number": n}, "topic_partition": n % 3 % 2}
        for n in range(first, first + count)
    ]


def test_batches_of_both_lanes_follow_each_other(service, lanes):
    """The first batch is a large one, which starts the processes that hold the state."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    sent = []
    for size in (40, 6, 1, 19, 60, 6):
        new = events(len(sent), size)
        sent += new
        service.send("in", [record(event, ORIGIN) for event in new])
        service.run(pipeline)
    assert lanes == ["spark", "direct", "direct", "direct", "spark", "direct"]
    found = [made["tuple"] for made in service.outputs("out") if "tuple" in made]
    expected = [made["tuple"] for made in replayed(pipeline, sent)["out"] if "tuple" in made]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_bad_records_of_a_small_batch_become_dead_letters(service, lanes):
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    service.send("in", [record(event, ORIGIN) for event in events(0, 30)])
    service.run(pipeline)
    service.send("in", [{"value": b"{", "partition": 1, "timestamp": ORIGIN + 40_000, "headers": [("h", b"1")]}])
    service.run(pipeline)
    assert lanes == ["spark", "direct"]
    (letter,) = service.read("dead")
    assert letter.value() == b"{"
    assert ("h", b"1") in letter.headers()


def test_a_timestamp_that_is_no_time_is_a_dead_letter_in_both_lanes(service, lanes):
    """Some producers write nanoseconds. Times before 1970 are times."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    for first, count in ((0, 30), (30, 5)):
        sent = [record(event, ORIGIN) for event in events(first, count)]
        early = [sent[0] | {"timestamp": stamp, "partition": 1} for stamp in (-1, -(10**13), -(2**62))]
        late = [sent[0] | {"timestamp": stamp, "partition": 0} for stamp in (ORIGIN * 10**6, 2**63 - 1)]
        service.send("in", [*early, *late, *sent])
        service.run(pipeline)
    assert lanes == ["spark", "direct"]
    assert [dict(letter.headers())["sluice-reason"].partition(b":")[0] for letter in service.read("dead")] == [
        b"too far ahead"
    ] * 4
    assert len([made for made in service.outputs("out") if "tuple" in made]) == 41


def test_a_record_with_a_header_name_that_is_not_utf8_is_left_to_spark(service, lanes):
    """Each run is a start, which measures the sizes of this record, too."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    service.send("in", [record(event, ORIGIN) for event in events(0, 30)])
    service.run(pipeline)
    produce_with_header({"bootstrap.servers": service.broker}, service.topic("in"), b"{", b"\xff")
    service.run(pipeline)
    assert lanes == ["spark", "spark"]
    (letter,) = service.read("dead")
    assert ("\N{REPLACEMENT CHARACTER}", b"h") in letter.headers()


def test_a_job_of_spark_leaves_to_its_source_what_its_tasks_cannot_read(service, lanes, caplog):
    """The name of a header in a large batch is not UTF-8."""
    caplog.set_level(logging.INFO)
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    service.send("in", [record(event, ORIGIN) for event in events(0, 30)])
    service.run(pipeline)
    assert "source reads the records" not in caplog.text
    service.send("in", [record(event, ORIGIN) for event in events(30, 30)])
    produce_with_header({"bootstrap.servers": service.broker}, service.topic("in"), b"{", b"\xff")
    service.run(pipeline)
    assert "Spark's source reads the records of a batch: the name of a header is not UTF-8" in caplog.text
    (letter,) = service.read("dead")
    assert ("\N{REPLACEMENT CHARACTER}", b"h") in letter.headers()
    assert len([made for made in service.outputs("out") if "tuple" in made]) == 60
    assert lanes == ["spark", "spark"]


@pytest.mark.parametrize("buckets", [1, 3])
def test_conformance_cases_through_both_lanes(service, lanes, buckets):
    cases = [case for case in all_cases() if buckets == 1 or spreads(case)]
    playing = Playing(service, cases[:: len(cases) // 8], buckets=buckets, direct_records=200)
    playing.play(rounds=3)
    assert playing.wrong() == []
    assert "direct" in lanes
