"""Cycles of operators through an exchange: tuples return in a later batch, and each is processed once."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sluice.files import project_file
from sluice.replayer.player import replay
from tests.service.events_as_records import ORIGIN

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

COUNTDOWN = """
streams:
  starts: {schema: {key: string, n: int64}}
  less: {exchange: true, marks: null, partitions: 2, schema: {key: string, n: int64}}
  joint: {}
  sums: {partitions: 2}
operators:
  - {name: joint, map: [starts, less], output: [joint]}
  - {name: less, map: joint, where: n > 0, output: {less: {key: key, n: n - 1}}}
  - name: sums
    aggregate: joint
    window: sliding, count(1000), count(1), partitioned
    partition_by: [key]
    output: {sums: {key: Last(key), n: Last(n), all: Count()}}
clock: records
buckets: 2
max_records_per_batch: 7
"""
STARTS = [(f"key {n % 3}", n % 4) for n in range(24)]


def tuples(service, stream):
    return [one["tuple"] for one in service.outputs(stream) if "tuple" in one]


def test_each_tuple_returns_once(service):
    """Restarted half way. Each start n comes with n - 1 and so on to 0, and the window of a key counts each once."""
    service.create("starts", partitions=1)
    pipeline = service.pipeline(COUNTDOWN)
    records = [
        {"value": json.dumps({"key": key, "n": n}), "timestamp": ORIGIN + 1000 * number}
        for number, (key, n) in enumerate(STARTS)
    ]
    expected = Counter((key, n) for key, start in STARTS for n in range(start, -1, -1))
    for begin, end in ((0, 9), (9, len(STARTS))):
        service.send("starts", records[begin:end])
        wanted = sum(start + 1 for _, start in STARTS[:end])
        service.run(pipeline, lambda wanted=wanted: len(tuples(service, "sums")) >= wanted)
    found = tuples(service, "sums")
    assert Counter((one["key"], one["n"]) for one in found) == expected
    assert {one["key"]: one["all"] for one in found} == Counter(key for key, _ in expected.elements())


WRITTEN = ("bars", "ranges")
#: prices that are sent together: those of the next group come when the ranges that this group causes have been written
GROUPS = [(10.0, 11.5), (13.0,), (15.3, 16.0), (18.8, 20.0)]


def test_a_window_follows_the_one_before_it(service):
    """The bars are those of a replay. 15.3 and 18.8 would end bars, if their ranges were those of the bars before."""
    service.create("ticks", partitions=1)
    text = project_file("examples/recipes/follow.yaml").read_text().replace("topic: follow.ranges", "marks: null")
    text = text.replace("{topic: ticks, ", "{").replace("bars: {topic: bars}", "bars: {}")
    pipeline = service.pipeline(f"{text}clock: records\nbuckets: 2\n".replace("pipeline: follow\n", ""))
    prices = [price for group in GROUPS for price in group]
    events = [{"at": n, "stream": "ticks", "tuple": {"symbol": "A", "price": price}} for n, price in enumerate(prices)]
    made = [record for record in replay(pipeline, events) if record["stream"] in WRITTEN and "tuple" in record]
    sent = 0
    for group in GROUPS:
        records = [
            {"value": json.dumps({"symbol": "A", "price": price}), "timestamp": ORIGIN + 1000 * (sent + number)}
            for number, price in enumerate(group)
        ]
        service.send("ticks", records)
        sent += len(group)
        wanted = sum(record["after"] < sent for record in made)
        service.run(pipeline, lambda wanted=wanted: written(service) >= wanted)
    assert tuples(service, "bars") == [record["tuple"] for record in made if record["stream"] == "bars"]
    assert [(bar["first"], bar["last"]) for bar in tuples(service, "bars")] == [
        (10.0, 11.5),
        (13.0, 15.3),
        (16.0, 18.8),
    ]


def written(service) -> int:
    return sum(len(tuples(service, stream)) for stream in WRITTEN)
