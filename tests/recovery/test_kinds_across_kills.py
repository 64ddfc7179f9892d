"""Empty panes, times of keys, dedups by count and delta, throttles by key and classes that combine, while processes are
killed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.recovery.harness.output_reader import Record
from tests.recovery.test_pipelines_across_kills import ENDED, PART, killed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

VICTIMS = ("machine", "state", "machine")
COUNT = PART * (len(VICTIMS) + 1)
START = datetime(2026, 3, 1, tzinfo=UTC)


def of(number: int) -> Record:
    """A reading of one of five devices; device 3 uploads what it has recorded in the last two minutes at once."""
    device = number * 7 % 5
    seconds = number // 100 * 100 if device == 3 else number
    at = START + timedelta(seconds=seconds + number * 3 % 4)
    return {"k": f"device {device}", "v": number * number % 31, "t": at.isoformat().replace("+00:00", "Z")}


def test_two_buckets_of_windows_by_event_time(services):
    service = services("""
max_records_per_batch: 40
clock: records
buckets: 2
streams:
  in: {schema: {k: string, v: int64, t: timestamp}, event_time: {attribute: t, lag: 5s}}
  own: {schema: {k: string, v: int64, t: timestamp}, event_time: {attribute: t, lag: 2s, per: key, idle_after: 1s}}
  filled: {marks: none}
  days: {marks: none}
  sums: {marks: none}
  spreads: {marks: none}
  paced: {marks: none}
operators:
  - name: filled
    aggregate: in
    window: timeInterval, intervalDuration(7s), discardAge(100s), partitioned
    partition_by: [k]
    empty_panes: {attributes: {last: previous, n: zero}, forget_after: 30s}
    output: {filled: {k: k, from: intervalStart(), n: Count(), last: Last(v)}}
  - name: days
    aggregate: in
    window: cumulate, maximumDuration(60s), step(20s), partitioned
    partition_by: [k]
    output: {days: {k: k, to: intervalEnd(), n: Count()}}
  - name: sums
    aggregate: own
    window: timeInterval, intervalDuration(10s), partitioned
    partition_by: [k]
    output: {sums: {k: k, from: intervalStart(), s: Sum(v), all: Collect(v)}}
  - name: spreads
    aggregate: in
    window: sliding, count(9), count(1), partitioned
    partition_by: [k]
    output: {spreads: {k: k, rise: 'Custom("tests.recovery.classes:Rise", v)'}}
  - {name: paced, throttle: in, rate: 200, partition_by: [k], output: [paced]}
""")
    service.create("in", "own")
    killed(service, [("in" if n % 2 else "own", of(n)) for n in range(COUNT)], VICTIMS)
    service.await_outputs(codes=ENDED)
    service.end()


def test_dedups_by_count_and_delta(services):
    service = services("""
max_records_per_batch: 40
clock: records
buckets: 1
streams:
  in: {schema: {k: string, v: int64, t: timestamp}}
  few: {marks: none}
  apart: {marks: none}
operators:
  - {name: few, dedup: in, by: [k, v], within: count(9), reset_on_duplicate: true, output: [few]}
  - {name: apart, dedup: in, by: [k], within: "delta(t, 9s)", output: [apart]}
""")
    service.create("in", partitions=1)
    killed(service, [("in", of(n)) for n in range(COUNT)], VICTIMS)
    service.await_outputs(codes=ENDED)
    service.end()
