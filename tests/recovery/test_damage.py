"""A damaged checkpoint is never taken for a good one: the service goes on from what is whole, restores it, or ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.checkpoint.checkpoint_identity import FILE as IDENTITY
from sluice.cli import main
from tests.recovery.harness.service import TOPIC_PARTITIONS, Service
from tests.unit.state.damaged_files import flip

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RECORDS, KEYS, HELD = 1500, 20, 30
#: so many batches that there are several snapshots, and a log behind the last one
FILE = f"""
buckets: 1
max_records_per_batch: 100
clock: records
trigger_interval: 0.05
streams:
  in: {{schema: {{k: string, v: int64}}}}
  out: {{marks: none}}
operators:
  - name: sums
    aggregate: in
    window: sliding, count({HELD}), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {{out: {{k: k, v: Max(v), n: Count(), s: Sum(v)}}}}
"""


def tuples(first: int, count: int) -> list[dict]:
    return [{"k": f"key {number % KEYS}", "v": number} for number in range(first, first + count)]


def ended_service(services) -> Service:
    """A service that has read some records and has ended."""
    one = services(FILE)
    one.create("in")
    one.send("in", tuples(0, RECORDS))
    one.start()
    one.await_outputs()
    one.end()
    return one


@pytest.fixture(scope="module")
def ended(services) -> Service:
    return ended_service(services)


@pytest.fixture
def checkpoint(ended, tmp_path):
    """A copy of its checkpoint, to damage."""
    return shutil.copytree(ended.checkpoint, tmp_path / "copy")


def snapshots(checkpoint):
    """The newest first."""
    return sorted((checkpoint / "buckets" / "0").glob("*.state"), key=lambda path: -int(path.stem))


def half(path):
    return path.stat().st_size // 2


def test_the_service_goes_on_from_an_older_snapshot_and_says_so(services):
    one = ended_service(services)
    newest = snapshots(one.checkpoint)[0]
    flip(newest, half(newest))
    one.send("in", tuples(RECORDS, 300))
    one.start()
    one.await_outputs()
    one.end()
    (line,) = [line for line in one.log().splitlines() if "is damaged" in line]
    assert "level=warning" in line
    assert f"{newest}: block 0 (bytes " in line


def test_where_nothing_whole_leads_to_the_state_the_next_start_restores_it(services):
    """The snapshots, and the logs behind them."""
    one = ended_service(services)
    newest = snapshots(one.checkpoint)[0]
    for file in (one.checkpoint / "buckets" / "0").iterdir():
        flip(file, half(file))
    one.send("in", tuples(RECORDS, 10))  # the state is made again for the next batch
    one.start()
    assert one.await_end() == 6
    last = one.log().splitlines()[-1]
    assert last.startswith(f"sluice: {newest}: block 0 (bytes ")
    assert last.endswith("; the next start restores the checkpoint")
    one.start()
    one.await_outputs()
    assert f"{newest}: block 0 (bytes " in one.log()
    assert "checkpoint restored: " in one.log()
    one.end()


def test_where_the_records_are_gone_too_it_ends_with_code_4_and_names_the_file(services):
    one = ended_service(services)
    for file in (one.checkpoint / "buckets" / "0").iterdir():
        flip(file, half(file))
    ends = [TopicPartition(one.topic("in"), number, -1) for number in range(TOPIC_PARTITIONS)]  # -1: all
    admin = AdminClient(dict(one.kafka))
    for future in admin.delete_records(ends).values():
        future.result(30)
    one.send("in", tuples(RECORDS, 10))
    one.start()
    assert one.await_end() == 6
    one.start()
    assert one.await_end() == 4
    last = one.log().splitlines()[-1]
    assert "but Kafka has deleted those before" in last
    assert f"It has to be restored: {one.checkpoint}/buckets/0/" in last


def test_a_damaged_identity_ends_it_with_code_4(ended, checkpoint):
    file = checkpoint / IDENTITY
    flip(file, half(file))
    ended.start("--checkpoint", str(checkpoint))
    assert ended.await_end() == 4
    assert "Traceback" not in ended.log()
    last = ended.log().splitlines()[-1]
    assert IDENTITY in last
    assert "damaged" in last or "cannot be read" in last
    assert "Remove the folder, or start with --checkpoint ANOTHER_FOLDER" in last
    shutil.rmtree(checkpoint)
    ended.start("--checkpoint", str(checkpoint))
    ended.send("in", tuples(RECORDS, 10))
    ended.await_outputs()
    assert "checkpoint restored: " in ended.log()
    ended.end()


def test_readers_of_the_checkpoint_say_the_same(ended, checkpoint):
    newest = snapshots(checkpoint)[0]
    command = ["windows", str(ended.file), "--key", "key 3", "--checkpoint", str(checkpoint)]
    whole = CliRunner().invoke(main, command)
    assert whole.exit_code == 0
    assert len(json.loads(whole.stdout)["held"]) == HELD

    flip(newest, half(newest))
    again = CliRunner().invoke(main, command)
    assert (again.exit_code, again.stdout) == (0, whole.stdout)

    for file in (checkpoint / "buckets" / "0").iterdir():
        if file != newest:
            flip(file, half(file))
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 4
    assert f"sluice: {newest}: block 0 " in refused.stderr

    replay = [sys.executable, "-m", "sluice", "replay", str(ended.file), "--checkpoint", str(checkpoint)]
    repeated = subprocess.run(replay, capture_output=True, text=True, check=False)
    assert repeated.returncode == 4
    # If a snapshot came right after the last batch, the state before that batch is gone, damaged or not.
    damaged = f"{checkpoint}/buckets/0/" in repeated.stderr and "is damaged" in repeated.stderr
    assert damaged or "it no longer records batch" in repeated.stderr
