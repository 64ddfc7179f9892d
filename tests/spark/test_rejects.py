"""A tuple for which an expression has no value goes to the dead letters, and the next one is handled."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64, by: int64}}
  out: {}
  dead: {}
operators:
  - name: rest
    map: in
    output: {out: {key: key, rest: number % by}}
dead_letters: dead
buckets: 2
"""


def test_a_tuple_without_a_value_is_set_aside_with_its_place(service):
    service.create("in", partitions=2)
    pipeline = service.pipeline(PIPELINE)
    values = [
        {"key": "a", "number": 7, "by": 4},
        {"key": "b", "number": 7, "by": 0},
        {"key": "c", "number": 9, "by": 5},
    ]
    service.send(
        "in", [{"value": json.dumps(v).encode(), "partition": 1, "timestamp": 1000 + n} for n, v in enumerate(values)]
    )
    service.run(pipeline)
    assert service.outputs("out") == [{"tuple": {"key": "a", "rest": 3}}, {"tuple": {"key": "c", "rest": 4}}]
    (letter,) = service.read("dead")
    headers = dict(letter.headers())
    assert json.loads(letter.value()) == {"key": "b", "number": 7, "by": 0}
    assert headers["sluice-reason"] == b"no value: operator rest: out.rest has no value"
    assert (headers["sluice-stream"], headers["sluice-partition"]) == (b"in", b"1")
    assert headers["sluice-timestamp"] == b"1001"
