"""A service whose tuples return to it is killed: each tuple returns once, and each output comes once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.recovery.harness.service import Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FILE = """
streams:
  starts: {schema: {k: string, n: int64}}
  less: {exchange: true, marks: null, schema: {k: string, n: int64}}
  joint: {}
  sums: {}
operators:
  - {name: joint, map: [starts, less], output: [joint]}
  - {name: less, map: joint, where: n > 0, output: {less: {k: k, n: n - 1}}}
  - name: sums
    aggregate: joint
    window: sliding, count(1000), count(1), partitioned
    partition_by: [k]
    output: {sums: {k: k, n: Last(n), all: Count()}}
clock: records
max_records_per_batch: 20
"""
STARTS = [{"k": f"key {number % 7}", "n": 10} for number in range(70)]


def test_a_kill_at_any_moment_neither_loses_nor_doubles_a_tuple_that_returns(services):
    """Killed before the first batch is written, and twice between Kafka's commit and Spark's log."""
    service = services(FILE)
    service.create("starts")
    service.create("sums")
    service.create("less")
    service.send("starts", STARTS)
    service.at("feeding")
    service.start()
    service.await_moment("feeding")
    service.kill()
    for _ in range(2):
        service.at("written")
        service.start()
        service.await_moment("written")
        service.kill()
    assert counted(service) < len(STARTS) * 11, "tuples are on their way"
    service.start()
    service.wait_until(lambda: counted(service) >= len(STARTS) * 11, "all tuples have come to their ends")
    service.end()
    found = [one["tuple"] for some in service.outputs("sums").values() for one in some if "tuple" in one]
    assert Counter((one["k"], one["n"]) for one in found) == {
        (f"key {key}", n): 10 for key in range(7) for n in range(11)
    }  # fmt: skip
    assert sorted((one["k"], one["all"]) for one in found) == sorted(
        (f"key {key}", count) for key in range(7) for count in range(1, 111)
    )


def counted(service: Service) -> int:
    """The number of tuples that committed readers see."""
    return sum("tuple" in one for some in service.outputs("sums").values() for one in some)
