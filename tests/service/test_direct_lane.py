"""Batches without a job of Spark: the outputs are equal whichever process reads the records, in any alternation."""

from __future__ import annotations

import pytest

from sluice.spark.lanes.direct_lane import DirectLane, RecordFeed
from tests.service.events_as_records import ORIGIN, record, replayed
from tests.service.many_operators import Playing, spreads
from tests.spec.conformance_vectors import all_cases
from tests.unit.kafka.broker_tools import produce_with_header

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
    """Who reads the records of each batch that runs, in order: "service", "readers" or "spark"."""
    found, outputs, take = [], DirectLane.outputs, RecordFeed.take

    def noted(lane, batch):
        found.append("readers")
        made = outputs(lane, batch)
        if made is None:
            found[-1] = "spark"
        return made

    def taken(*arguments):
        made = take(*arguments)
        found[-1] = "service"
        return made

    monkeypatch.setattr(DirectLane, "outputs", noted)
    monkeypatch.setattr(RecordFeed, "take", taken)
    return found


def events(first, count):
    """Tuples of three keys in turn, one a second, in two topic partitions."""
    return [
        {"at": n, "tuple": {"key": "abc"[n % 3], "number": n}, "topic_partition": n % 3 % 2}
        for n in range(first, first + count)
    ]


def test_batches_that_the_service_and_its_readers_read_follow_each_other(service, lanes):
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    sent = []
    for size in (40, 6, 1, 19, 60, 6):
        new = events(len(sent), size)
        sent += new
        service.send("in", [record(event, ORIGIN) for event in new])
        service.run(pipeline)
    assert lanes == ["readers", "service", "service", "service", "readers", "service"]
    found = [made["tuple"] for made in service.outputs("out") if "tuple" in made]
    expected = [made["tuple"] for made in replayed(pipeline, sent)["out"] if "tuple" in made]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(("others", "lane"), [(0, "service"), (30, "readers")])
def test_a_bad_record_becomes_a_dead_letter(service, lanes, others, lane):
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    service.send("in", [record(event, ORIGIN) for event in events(0, others)])
    service.send("in", [{"value": b"{", "partition": 1, "timestamp": ORIGIN + 40_000, "headers": [("h", b"1")]}])
    service.run(pipeline)
    assert lanes == [lane]
    (letter,) = service.read("dead")
    assert letter.value() == b"{"
    assert ("h", b"1") in letter.headers()


def test_a_timestamp_that_is_no_time_is_a_dead_letter_whoever_reads_it(service, lanes):
    """Some producers write nanoseconds. Times before 1970 are times."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    for first, count in ((0, 30), (30, 5)):
        sent = [record(event, ORIGIN) for event in events(first, count)]
        early = [sent[0] | {"timestamp": stamp, "partition": 1} for stamp in (-1, -(10**13), -(2**62))]
        late = [sent[0] | {"timestamp": stamp, "partition": 0} for stamp in (ORIGIN * 10**6, 2**63 - 1)]
        service.send("in", [*early, *late, *sent])
        service.run(pipeline)
    assert lanes == ["readers", "service"]
    assert [dict(letter.headers())["sluice-reason"].partition(b":")[0] for letter in service.read("dead")] == [
        b"too far ahead"
    ] * 4
    assert len([made for made in service.outputs("out") if "tuple" in made]) == 41


@pytest.mark.parametrize("count", [3, 30], ids=["of the service", "of a reader"])
def test_a_batch_that_the_client_cannot_read_is_left_to_spark(service, lanes, count):
    """The name of a header is not UTF-8. Each run is a start, which measures the sizes of this record, too."""
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    service.send("in", [record(event, ORIGIN) for event in events(0, 30)])
    service.run(pipeline)
    service.send("in", [record(event, ORIGIN) for event in events(30, count)])
    produce_with_header({"bootstrap.servers": service.broker}, service.topic("in"), b"{", b"\xff")
    service.run(pipeline)
    service.send("in", [record(event, ORIGIN) for event in events(30 + count, count)])
    service.run(pipeline)
    assert (lanes[0], lanes[1]) == ("readers", "spark")
    assert lanes[2] == ("service" if count == 3 else "readers")
    (letter,) = service.read("dead")
    assert ("\N{REPLACEMENT CHARACTER}", b"h") in letter.headers()
    assert len([made for made in service.outputs("out") if "tuple" in made]) == 30 + 2 * count


@pytest.mark.parametrize(("buckets", "most", "lane"), [(1, 100_000, "service"), (3, 1, "readers")])
def test_conformance_cases_whoever_reads_the_records(service, lanes, buckets, most, lane):
    cases = [case for case in all_cases() if buckets == 1 or spreads(case)]
    playing = Playing(service, cases[:: len(cases) // 8], buckets=buckets, direct_records=most)
    playing.play(rounds=3)
    assert playing.wrong() == []
    assert {*lanes} == {lane}
