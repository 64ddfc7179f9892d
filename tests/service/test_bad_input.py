"""A record that cannot be used is set aside with everything it had, and the next one is processed."""

from __future__ import annotations

import json
import time

import pytest

from sluice.batch import query_plan
from sluice.kafka import ledger
from tests.unit.kafka.broker_tools import visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}}
  out: {marks: none}
  dead: {}
operators:
  - name: sum
    aggregate: in
    window: sliding, count(100), count(1)
    aggregate_incomplete_windows: true
    output: {out: {count: Count()}}
dead_letters: dead
buckets: 2
"""

GOOD = b'{"key": "a", "number": 1}'
NOW = int(time.time() * 1000)
FUTURE = 4_102_444_800_000  # 2100
PAST = 1_357_000_000_000  # 2013

BAD = {
    "broken JSON": {"value": b'{"key": "a", '},
    "not UTF-8": {"value": b"\xff\xfe"},
    "not an object": {"value": b"[1, 2]"},
    "wrong type": {"value": b'{"key": "a", "number": "many"}'},
    "missing attribute": {"value": b'{"key": "a"}'},
    "null attribute": {"value": b'{"key": null, "number": 1}'},
    "null value": {"value": None},
    "unknown mark": {"value": b"", "headers": [("sluice-mark", b"exclamation")]},
    "far future": {"value": GOOD, "timestamp": FUTURE},
    "a megabyte of garbage": {"value": b"x" * 1_000_000},
}
REASONS = {
    "broken JSON": "not JSON", "not UTF-8": "not JSON", "not an object": "not an object", "wrong type": "wrong type",
    "missing attribute": "missing attribute", "null attribute": "null attribute", "null value": "no value",
    "unknown mark": "unknown mark", "far future": "too far ahead", "a megabyte of garbage": "not JSON",
}  # fmt: skip


def test_every_bad_record_is_a_dead_letter_and_its_neighbours_are_not(service):
    service.create("in")
    pipeline = service.pipeline(PIPELINE)
    sent = [{"value": GOOD, "timestamp": PAST}]
    for name, record in BAD.items():
        sent.append({"key": name.encode(), "timestamp": PAST, "headers": [("h", b"1"), ("h", None)]} | record)
        sent.append({"value": GOOD, "timestamp": NOW})
    sent.append({"value": json.dumps({"key": "k" * 1_000_000, "number": 1}).encode(), "timestamp": NOW})
    service.send("in", sent)
    service.run(pipeline)

    good = len(sent) - len(BAD)
    assert [output["tuple"]["count"] for output in service.outputs("out")] == list(range(1, good + 1))
    assert [m.timestamp()[1] for m in service.read("out")] == [PAST] + [NOW] * (good - 1)
    letters = service.read("dead")
    assert [letter.key().decode() for letter in letters] == list(BAD)
    for letter in letters:
        name = letter.key().decode()
        headers = dict(letter.headers())
        assert headers["sluice-reason"].decode().startswith(REASONS[name])
        assert headers["sluice-stream"] == b"in"
        assert headers["sluice-topic"].decode() == service.topic("in")
        assert headers["sluice-partition"] == b"0"
        assert headers["sluice-offset"] == str(1 + 2 * list(BAD).index(name)).encode()
        assert headers["sluice-timestamp"] == str(BAD[name].get("timestamp", PAST)).encode()
        original = BAD[name].get("headers", [("h", b"1"), ("h", None)])
        assert letter.headers()[: len(original)] == original
        assert letter.value() == BAD[name]["value"]


def test_the_service_goes_on_without_a_stream_for_dead_letters(service):
    service.create("in")
    service.send("in", [{"value": b"{"}, {"value": GOOD}])
    service.run(service.pipeline(PIPELINE.replace("dead_letters: dead", "").replace("  dead: {}\n", "")))
    assert len(service.read("out")) == 1


def test_a_batch_that_exceeds_every_bound_gives_what_it_must(service, monkeypatch):
    """A batch of 64 MB where a few megabytes may be in memory: rows are in files, and everything is cut."""
    monkeypatch.setattr(
        query_plan, "BOUNDS", query_plan.Bounds(piece=500_000, part=2_000_000, held=1_000_000, returned=1_000_000)
    )
    service.create("in", 2)
    service.create("out", 2)
    text = PIPELINE.replace("out: {marks: none}", "out: {marks: none}\n  all: {partitions: 2}").replace(
        "operators:", "max_bytes_per_batch: 1000000000\noperators:\n  - {name: all, map: in, output: [all]}"
    )
    sent = []
    for number in range(320):
        text_of = f"{number} ".encode() * (200_000 // len(f"{number} "))
        value = json.dumps({"key": text_of.decode(), "number": number}).encode() if number % 3 else text_of
        sent.append({"key": b"%d" % number, "value": value, "partition": number % 2, "timestamp": NOW})
    service.send("in", sent)
    before = service.spark.conf.get(ARROW)
    service.spark.conf.set(ARROW, "500000")
    service.run(service.pipeline(text))
    service.spark.conf.set(ARROW, before)

    good, bad = [n for n in range(320) if n % 3], [n for n in range(320) if not n % 3]
    assert [output["tuple"]["count"] for output in service.outputs("out")] == [
        min(n + 1, 100) for n in range(len(good))
    ]
    found = service.read("all")
    assert [int(one.key()) for one in found] == [n for n in good if n % 2 == 0] + [n for n in good if n % 2]
    assert all(json.loads(one.value()) == json.loads(sent[int(one.key())]["value"]) for one in found)
    letters = service.read("dead")
    assert sorted(int(one.key()) for one in letters) == bad
    assert all(one.value() == sent[int(one.key())]["value"] for one in letters)
    entries = committed_entries(service)
    assert [entry["batch"] for entry in entries] == [0], "it was one batch"
    assert entries[0]["report"]["read"]["in"]["tuple"] == len(good)
    assert entries[0]["report"]["dead_letters"]["in"]["not JSON"] == len(bad)
    assert not (service.folder / "checkpoint" / "spool").exists()


ARROW = "spark.sql.execution.arrow.maxBytesPerBatch"


def committed_entries(service):
    messages = visible({"bootstrap.servers": service.broker}, ledger.TOPIC, ledger.PARTITION)
    return [json.loads(one.value()) for one in messages if one.key() == service.name.encode()]
