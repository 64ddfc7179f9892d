"""A mark that rides on a tuple, as `marks: header` writes it: first the tuple, then the mark."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}, marks_in: topic_partition}
  out: {marks: none}
  dead: {}
operators:
  - name: day
    aggregate: in
    window: tumbling, punct(), partitioned
    partition_by: [key]
    output: {out: {key: Last(key), all: Collect(number)}}
dead_letters: dead
buckets: 2
clock: records
"""


def test_the_tuple_belongs_to_the_window_that_its_mark_closes(service):
    service.create("in")
    pipeline = service.pipeline(PIPELINE)
    mark = {"headers": [("sluice-mark", b"window")]}
    sent = [("a", 1, {}), ("b", 2, mark), ("a", 3, {}), ("b", "bad", mark), ("a", 4, {}), ("a", 5, mark)]
    values = [(json.dumps({"key": key, "number": number}).encode(), more) for key, number, more in sent]
    service.send("in", [{"value": value, "timestamp": 1000 + n, **more} for n, (value, more) in enumerate(values)])
    service.run(pipeline)
    assert [record["tuple"] for record in service.outputs("out")] == [
        {"key": "a", "all": [1]},
        {"key": "b", "all": [2]},
        {"key": "a", "all": [3]},
        {"key": "a", "all": [4, 5]},
    ]
    assert [json.loads(letter.value())["number"] for letter in service.read("dead")] == ["bad"]
