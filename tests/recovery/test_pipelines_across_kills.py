"""Stages, joins, event time and dead letters, while each process of the service is killed in turn (fault_rows.py)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest

from sluice.wire.dead_letter_record import of_operator, word_of
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import CLOCK, ORIGIN, TOPIC_PARTITIONS, Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: exit codes: the JVM was killed, or a batch failed, of which nothing is visible
ENDED = (3, 6)
#: what is killed, one after the other, each while a batch is on its way; "machine" is every process at once
KILLED = ("machine", "state", "fork server", "machine", "pool", "jvm")
#: the same where each batch is a job of Spark
KILLED_IN_JOBS = ("machine", "state", "worker", "machine", "daemon", "pool", "jvm")
PART = 150


def killed(service: Service, records: list[tuple[str, Record]], victims: Sequence[str] = KILLED) -> None:
    """Sends them part after part, and kills something after each."""
    service.start()
    for number, what in enumerate(victims):
        moment = "produced" if what == "machine" else "feeding"
        service.at(moment)
        service.send_all(records[number * PART : (number + 1) * PART])
        service.await_moment(moment, codes=ENDED)
        if what == "machine":
            service.kill()
            service.start()
        else:
            service.signal(what)
            service.go_on(moment)
    service.send_all(records[len(victims) * PART :])


@pytest.mark.slow
def test_e02_stages_with_an_exchange_topic_between_them(services):
    """Totals of shops, and behind them what each customer was told: two queries, two ledgers, one service."""
    service = services("""
max_records_per_batch: 100
clock: records
streams:
  in: {schema: {k: string, customer: string, v: int64}}
  totals: {exchange: true, partitions: 1}
  best: {}
operators:
  - name: totals
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {totals: {shop: Last(k), customer: Last(customer), v: Sum(v)}}
  - name: best
    aggregate: totals
    window: sliding, count(3), count(1), partitioned
    partition_by: [customer]
    aggregate_incomplete_windows: true
    output: {best: {k: Last(customer), all: Collect(v)}}
""")
    service.create("in", partitions=1)
    tuples = [{"k": f"shop {n % 5}", "customer": f"customer {n * 7 % 11}", "v": n} for n in range(PART * len(KILLED))]
    killed(service, [("in", record) for record in tuples])
    service.await_outputs(codes=ENDED)
    service.end()


@pytest.mark.slow
def test_e02_a_join_whose_sides_come_from_two_topics(services):
    """With the tuples of either side that found no partner. Each batch is a job of Spark."""
    service = services("""
max_records_per_batch: 100
clock: records
direct_records: 0
merge: timestamp
streams:
  left: {schema: {k: string, a: int64}}
  right: {schema: {k: string, b: int64}}
  both: {marks: none}
  alone: {marks: none}
operators:
  - name: match
    join: {left: left, right: right}
    window_left: sliding, count(20)
    window_right: sliding, count(20)
    equality_left: [k]
    equality_right: [k]
    match: (a + b) % 3 == 0
    algorithm: leftOuter
    unmatched_left: alone
    output: {both: {k: left.k, a: a, b: b}}
""")
    service.create("left", "right")
    tuples = [
        ("left", {"k": f"key {n % 7}", "a": n}) if n % 2 else ("right", {"k": f"key {n * 3 % 7}", "b": n})
        for n in range(PART * len(KILLED_IN_JOBS))
    ]
    killed(service, [*tuples, ("left", CLOCK), ("right", CLOCK)], KILLED_IN_JOBS)
    service.await_outputs(codes=ENDED)
    service.end()


@pytest.mark.slow
def test_e02_panes_of_event_time_and_dead_letters(services):
    """Late tuples, tuples without a value, bytes that are no JSON: each is a dead letter once."""
    service = services("""
max_records_per_batch: 100
clock: records
streams:
  in: {schema: {k: string, v: int64, t: timestamp}, event_time: {attribute: t, lag: 0.02, minimum_gap: 0.01}}
  panes: {marks: none}
  ratios: {marks: none}
  dead: {}
operators:
  - name: panes
    aggregate: in
    window: timeInterval, intervalDuration(0.05), partitioned
    partition_by: [k]
    output: {panes: {k: k, n: Count(), s: Sum(v), at: Max(t)}}
  - name: ratios
    aggregate: in
    window: tumbling, count(1), partitioned
    partition_by: [k]
    output: {ratios: {k: k, ratio: Last(1000 % (v % 10))}}
dead_letters: dead
""")
    service.create("in", partitions=1)
    records = [disordered(n) for n in range(PART * len(KILLED))]
    killed(service, [("in", record) for record in records])
    service.await_outputs(codes=ENDED)
    found = Counter((word_of(reason), value) for value, reason in dead_letters(service))
    assert found == Counter(expected_letters(service))
    assert {reason for reason, _ in found} == {"late", "no value", "not JSON"}
    service.end()


def disordered(n: int) -> Record:
    """Most come in order, some 5 ms too late, which is in time, and some 200 ms; every 17th is no JSON."""
    key = f"key {n % 7}"
    if n % 17 == 0:
        return {"raw": b"{ no JSON %d" % n, "k": key}
    late = 200 if n % 13 == 0 else 5 if n % 5 == 0 else 0
    return {"k": key, "v": n, "t": instant(ORIGIN + n - late)}


@pytest.mark.slow
def test_e14_a_record_that_its_topic_does_not_take(services):
    """It is a dead letter once, and the other records of its batch come out, also where that batch runs again."""
    service = services("""
max_records_per_batch: 100
clock: records
streams:
  in: {schema: {k: string, v: int64, size: int64, text: string}}
  out: {marks: none}
  dead: {}
operators:
  - {name: copies, map: in, output: [out]}
dead_letters: dead
""")
    service.create("in")
    service.create("out", **{"max.message.bytes": "2000"})
    tuples = [{"k": f"key {n % 7}", "v": n, "size": (3000 if n % 19 == 0 else 10)} for n in range(200)]
    tuples = [one | {"text": "x" * one["size"]} for one in tuples]
    service.at("written")
    service.start()
    service.send("in", tuples)
    service.await_moment("written")
    service.kill()
    service.at("produced")
    service.start()
    service.await_moment("produced")
    service.kill()
    service.start()
    fitting = [event for event in service.events if event["tuple"]["size"] == 10]
    service.await_outputs(expected=service.expected(fitting))
    service.await_rest()
    letters = dead_letters(service)
    assert sorted(json.loads(value)["v"] for value, _ in letters) == [*range(0, 200, 19)]
    assert {word_of(reason) for _, reason in letters} == {"too large"}
    service.end()


# ---- dead letters ----------------------------------------------------------------------------------------------------


def dead_letters(service: Service) -> list[tuple[str, str]]:
    """Value and reason of each."""
    return [
        (message.value().decode(), dict(message.headers())["sluice-reason"].decode())
        for place in range(TOPIC_PARTITIONS)
        for message in service.messages("dead", place)
    ]


def expected_letters(service: Service) -> Iterator[tuple[str, str]]:
    """The word of the reason and the record."""
    for event in service.events:
        if "raw" in event["tuple"]:
            yield "not JSON", event["tuple"]["raw"].decode()
    sent = {event["tuple"].get("v"): json.dumps(event["tuple"]) for event in service.events if "v" in event["tuple"]}
    for made in service.replayed():
        if "dead_letter" in made:
            letter = made["dead_letter"]
            yield word_of(of_operator("any", letter["reason"])), sent[letter["tuple"]["v"]]


def instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
