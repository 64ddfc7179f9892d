"""Which outputs the buckets write themselves, and why not the others."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from sluice.model.spreading import own_outputs, why_driver

HEAD = """
pipeline: p
streams:
  in: {topic: in, schema: {k: string, j: string, v: int64, t: timestamp}}
  out: {topic: out, partitions: 4%s}
operators:
"""
COUNTED = """
  - name: a
    aggregate: in
    window: %s
    partition_by: [%s]
    output: {out: {k: Last(k)}}
"""
COUNT, TIME = "sliding, count(10), count(1), partitioned", "tumbling, time(1.0), partitioned"
MAPPED = "  - {name: m, map: in, output: {out: {k: k}}}\n"
WITHOUT_KEY = "  - {name: a, aggregate: in, window: 'tumbling, count(3)', output: {out: {n: Count()}}}\n"


def why(operators, *, stream="", buckets=2, partitions=4):
    pipeline = load_text(HEAD % stream + operators, "p.yaml", environment=None, overrides=BROKER)
    return why_driver(pipeline, pipeline.streams["out"], buckets, partitions)


BROKER = {"kafka": {"bootstrap.servers": "nowhere"}}


@pytest.mark.parametrize(
    ("operators", "stream", "buckets", "partitions"),
    [
        (COUNTED % (COUNT, "k"), "", 2, 4),
        (COUNTED % (COUNT, "k"), "", 4, 4),
        (COUNTED % (COUNT, "k"), ", marks: record", 2, 4),
        (COUNTED % (COUNT, "k, j"), "", 2, 4),
        (COUNTED % (TIME, "k"), ", marks: header", 2, 4),
        (COUNTED % (TIME, "k"), ", marks: none", 2, 4),
        (MAPPED, "", 2, 4),
        (WITHOUT_KEY, "", 1, 1),
        (COUNTED % (TIME, "k"), ", marks: record", 1, 3),
    ],
)
def test_a_bucket_writes_topic_partitions_of_its_own(operators, stream, buckets, partitions):
    assert not why(operators, stream=stream, buckets=buckets, partitions=partitions)


@pytest.mark.parametrize(
    ("operators", "stream", "buckets", "partitions", "words"),
    [
        (COUNTED % (COUNT, "k"), "", 4, 6, "6 topic partitions are no multiple of 4 buckets"),
        (COUNTED % (COUNT, "k"), "", 4, 1, "give the topic 4, or a multiple of that"),
        (COUNTED % (TIME, "k"), ", marks: record", 2, 4, "depends on all buckets: write `marks: header`"),
    ],
)
def test_why_the_driver_writes(operators, stream, buckets, partitions, words):
    assert words in why(operators, stream=stream, buckets=buckets, partitions=partitions)


def test_a_map_beside_a_window_writes_by_topic_partition_while_its_tuples_are_spread_by_key():
    text = HEAD.replace("  out:", "  copy: {topic: copy, partitions: 4}\n  out:") % "" + COUNTED % (COUNT, "k")
    pipeline = load_text(text + MAPPED.replace("{out:", "{copy:"), "p.yaml", environment=None, overrides=BROKER)
    assert own_outputs(pipeline, 2, {"out": 4, "copy": 4}) == {"out"}
    assert "its tuples are in buckets by k" in why_driver(pipeline, pipeline.streams["copy"], 2, 4)
