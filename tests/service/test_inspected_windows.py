"""What `sluice windows` shows of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from sluice.batch.packed_rows import RECORDS, pack
from sluice.batch.query_plan import Plan
from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.checkpoint_folder import store_of
from sluice.cli import main
from sluice.config.load import load
from sluice.engine.stream.items import TUPLE
from sluice.state.bucket import Bucket
from tests.unit.state.damaged_files import flip

SECOND = 1_000_000_000
FILE = """
pipeline: shop
streams:
  in: {{topic: in, schema: {{k: string, v: int64, t: timestamp}}{event_time}}}
  other: {{topic: other, schema: {{k: string, w: float64}}}}
  out: {{topic: out}}
operators:
  - {operator}
"""
AGGREGATE = "{{name: one, aggregate: in, window: '{}', partition_by: [k], output: {{out: {{n: Count(), s: Sum(v)}}}}}}"
#: topic partition, key, value
TUPLES = [(0, "a", 1), (1, "b", 2), (0, "a", 3), (1, "a", 4)]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Makes a checkpoint of a pipeline with this operator, which has had TUPLES one by one; `sluice windows` on it."""
    monkeypatch.chdir(tmp_path)

    def make(operator, *arguments, event_time=""):
        Path("shop.yaml").write_text(FILE.format(operator=operator, event_time=event_time))
        pipeline = load(Path("shop.yaml"))
        folder = checkpoint_identity.folder_of(pipeline)
        fingerprint = checkpoint_identity.fingerprint_of(pipeline)
        identity = checkpoint_identity.claim(store_of(pipeline), pipeline.name, fingerprint, 1, 1)
        (folder / "offsets").mkdir()
        known = {stream.topic: {"0": 9, "1": 9} for stream in pipeline.inputs}
        (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(known)}\n")
        partitions = {stream.name: 2 for stream in pipeline.inputs} | {"out": 1}
        bucket = Bucket(Plan(pipeline, identity.query, "", str(folder), 1, partitions), 0)
        for second, row in enumerate(TUPLES):
            for port, stream in enumerate(pipeline.inputs):
                bucket.feed(second * len(pipeline.inputs) + port, [(RECORDS, packed(stream, port, row, second))])
        result = CliRunner().invoke(main, ["windows", "shop.yaml", *arguments])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()] or result.stderr

    return make


def packed(stream, port, row, second):
    """A tuple with this place, key and value, as the stage gets it."""
    topic_partition, key, value = row
    values = {"k": key, "v": value, "w": value / 2, "t": value * SECOND}
    types = {"t": pa.timestamp("ns", "UTC")}
    columns = {name: pa.array([values[name]], types.get(name)) for name, _ in stream.schema}
    head = {"@number": np.zeros(1, np.uint32), "@stamp": [second * SECOND], "@kind": np.full(1, TUPLE, np.int8)}
    if stream.event_time is not None:
        head["@watermark"] = np.zeros(1, np.int64)
    batch = pa.record_batch(head | columns)
    times = {"start": second * SECOND, "end": second * SECOND}
    about = {"stream": stream.name, "first": port << 56 | topic_partition << 32, "number": 0, "offset": 0}
    return pack(batch, about | times)


def test_a_sliding_window(shop):
    assert shop(AGGREGATE.format("sliding, count(2), count(2), partitioned"), "--key", "a") == [{
        "operator": "one", "window": "sliding, count(2), count(2), partitioned", "key": "a",
        "clock": "1970-01-01T00:00:03+00:00", "tuples": 2, "policy": {"since_trigger": 1, "full": True},
        "held": [{"v": 3}, {"v": 4}], "now": {"out": [{"n": 2, "s": 7}]},
    }]  # fmt: skip


def test_a_window_that_keeps_a_summary_only(shop):
    (found,) = shop(AGGREGATE.format("tumbling, count(5), partitioned"), "--key", "a")
    assert (found["tuples"], found["now"]) == (3, {"out": [{"n": 3, "s": 8}]})
    assert "held" not in found


def test_a_window_without_keys_needs_none(shop):
    operator = "{name: one, aggregate: in, window: 'tumbling, count(9)', output: {out: {all: Collect(v)}}}"
    (found,) = shop(operator)
    assert found["held"] == [{"v": 1}, {"v": 2}, {"v": 3}, {"v": 4}]


def test_both_sides_of_a_join(shop):
    operator = (
        "{name: met, join: {left: in, right: other}, window_left: 'sliding, count(2)', "
        "window_right: 'sliding, count(2)', equality_left: [k], equality_right: [k], "
        "output: {out: {k: left.k, v: v, w: w}}}"
    )
    left, right = shop(operator, "--key", "a")
    assert (left["side"], left["held"]) == ("left", [{"v": 3, "k": "a"}, {"v": 4, "k": "a"}])
    assert (right["side"], right["held"]) == ("right", [{"w": 1.5}, {"w": 2.0}])


def test_a_progressive_sort(shop):
    operator = "{name: sorted, sort: in, window: 'sliding, count(3)', order_by: {v: asc}, output: [out]}"
    (found,) = shop(operator)
    assert [held["v"] for held in found["held"]] == [2, 3, 4]


def test_a_window_over_event_time(shop):
    window = AGGREGATE.format("timeInterval, intervalDuration(10.0), creationPeriod(10.0), partitioned")
    (found,) = shop(window, "--key", "a", event_time=", event_time: t")
    assert found["policy"] == {"at": [{"time": 0.0, "tuples": 3}]}
    assert found["tuples"] == 3


def test_a_key_that_is_not_there(shop):
    window = AGGREGATE.format("sliding, count(2), count(2), partitioned")
    assert shop(window, "--key", "nobody") == "no window has contents for the key nobody\n"


def test_looking_changes_nothing(shop, tmp_path):
    shop(AGGREGATE.format("sliding, count(2), count(2), partitioned"), "--key", "a")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    CliRunner().invoke(main, ["windows", "shop.yaml", "--key", "a"])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("byte", [3, 70])
def test_a_damaged_state_is_refused_with_the_name_of_the_file(shop, tmp_path, byte):
    """In the head of an entry, behind which nothing is found, and in its rows."""
    shop(AGGREGATE.format("sliding, count(2), count(2), partitioned"), "--key", "a")
    (log,) = tmp_path.rglob("*.log")
    commits = log.parents[2] / "commits"
    commits.mkdir()
    (commits / str(len(TUPLES) - 1)).touch()
    flip(log, byte)
    result = CliRunner().invoke(main, ["windows", "shop.yaml", "--key", "a"])
    assert result.exit_code == 4
    assert f"{log}: the entry at byte 0 is damaged" in result.stderr


def test_a_state_that_is_older_than_the_last_batch_is_refused(shop, tmp_path):
    shop(AGGREGATE.format("sliding, count(2), count(2), partitioned"), "--key", "a")
    (log,) = tmp_path.rglob("*.log")
    commits = log.parents[2] / "commits"
    commits.mkdir()
    for batch, code in ((len(TUPLES) - 1, 0), (len(TUPLES), 4)):
        (commits / str(batch)).touch()
        result = CliRunner().invoke(main, ["windows", "shop.yaml", "--key", "a"])
        assert result.exit_code == code
    assert "there is no entry for version 5 of the state" in result.stderr


def test_a_folder_that_is_no_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    operator = AGGREGATE.format("tumbling, count(5), partitioned")
    Path("shop.yaml").write_text(FILE.format(operator=operator, event_time=""))
    result = CliRunner().invoke(main, ["windows", "shop.yaml", "--key", "a"])
    assert result.exit_code == 4
    assert "it does not exist" in result.stderr
