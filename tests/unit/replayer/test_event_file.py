"""Reading events from files, and what their topic partitions are."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.model.spec import Stream
from sluice.model.types import INT64, Schema
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import EventError, numbered, read, topic_partitions

SCHEMA: Schema = (("x", INT64),)


def test_times_are_exact_to_the_nanosecond(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    file.write_text('{"at": 1357017300.123456789}\n\n{"at": 1357017300.123456790}\n')
    (batch,) = Cutter([Stream("trades", SCHEMA)]).batches(read(file), 10)
    assert batch.at.tolist() == [1357017300123456789, 1357017300123456790]


def test_a_stream_has_the_topic_partitions_that_its_events_name():
    events = [{"at": 0, "stream": "b", "punct": "window", "topic_partition": 2}, {"at": 0, "stream": "a"}]
    assert topic_partitions(numbered(events), ["a", "b"]) == {"a": 1, "b": 3}


def test_a_topic_partition_has_a_bound():
    """Each topic partition takes memory, also one without events."""
    assert topic_partitions([("f:1", {"topic_partition": 9_999})], ["in"]) == {"in": 10_000}
    with pytest.raises(EventError, match=r"^f:2: `topic_partition` must be at most 9999, got 10000$"):
        topic_partitions([("f:1", {}), ("f:2", {"topic_partition": 10_000})], ["in"])


def test_a_stream_that_is_no_text_has_no_topic_partitions():
    """It is reported where the event is read."""
    assert topic_partitions([("f:1", {"stream": [], "topic_partition": 3})], ["in"]) == {"in": 1}
