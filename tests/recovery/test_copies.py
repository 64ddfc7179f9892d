"""Two copies of a checkpoint that part: what one of them wrote is neither lost nor doubled by the other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sluice.checkpoint import offset_log
from sluice.checkpoint.folder_store import FolderStore
from sluice.config.load import load
from sluice.kafka.batch_report import Report
from sluice.kafka.batch_writer import TransactionalWriter, WriterSettings
from sluice.kafka.kafka_errors import FencedError
from sluice.spark.query import prepare
from sluice.state.restore import RestoreError
from tests.recovery.harness.sums_and_runs import FILE, tuples

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def plan(folder, topic, batch, end):
    """As Spark does, in its log of offsets."""
    (folder / "offsets").mkdir(exist_ok=True)
    reads = json.dumps({topic: {"0": end}})
    (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{1000 + batch}}}\n{reads}')


def commit(folder, batch):
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def copies(services, tmp_path):
    """Two copies of a checkpoint at batch 0; and what writes a batch as a copy has planned it."""
    one = services(FILE)
    one.create("in", partitions=1)
    pipelines = [
        load(one.file, overrides={"checkpoint": str(folder)}) for folder in (one.checkpoint, tmp_path / "other")
    ]
    query = prepare(pipelines[0]).query
    (one.checkpoint / "buckets" / "0").mkdir(parents=True)
    (one.checkpoint / "buckets" / "1").mkdir(parents=True)
    (one.checkpoint / "metadata").write_text('{"id":"x"}')
    (one.checkpoint / "sources" / "0").mkdir(parents=True)
    (one.checkpoint / "sources" / "0" / "0").write_text(f'\0v1\n{{"{one.name}.in":{{"0":0}}}}')

    def write(folder, batch):
        settings = WriterSettings(tuple(sorted(one.kafka.items())), one.name, query)
        return TransactionalWriter(settings).write(
            batch, [], Report(), planned=offset_log.planned(FolderStore(folder), batch)
        )

    plan(one.checkpoint, f"{one.name}.in", 0, 50)
    write(one.checkpoint, 0)
    commit(one.checkpoint, 0)
    shutil.copytree(one.checkpoint, tmp_path / "other")
    return one, pipelines, [one.checkpoint, tmp_path / "other"], write


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("ends", [(60, 110), (110, 60)])
def test_a_copy_does_not_go_on_with_a_batch_that_is_not_the_one_that_was_written(copies, ends, committed):
    """Its batch would be skipped: with more records than the written one they would be lost, with fewer doubled.

    A start restores the copy. Here no state is left, so that is refused.
    """
    one, (mine, theirs), (first, other), write = copies
    for folder, end in zip((first, other), ends, strict=True):
        plan(folder, f"{one.name}.in", 1, end)
    assert write(first, 1)
    if committed:  # the copy is as far as the ledger, or one batch behind it
        commit(other, 1)
    with pytest.raises(RestoreError, match="none of the states that are left can be read") as refused:
        prepare(theirs)
    assert refused.value.exit_code == 4
    with pytest.raises(FencedError, match="has written batch 1; this one must stop"):
        write(other, 1)
    prepare(mine)
    assert not write(first, 1), "its own batch is skipped"


@pytest.mark.slow
def test_s7_real_services_on_two_copies(services, tmp_path):
    """Both have planned a batch of the same number; one of them has written it."""
    one = services(FILE)
    one.create("in")
    one.send("in", tuples(50))
    one.start()
    one.await_outputs()
    one.end()
    other = services(FILE, name=one.name, checkpoint=Path(shutil.copytree(one.checkpoint, tmp_path / "other")))
    other.adopt(one)
    one.send("in", tuples(10))
    other.at("feeding")
    other.start()
    other.await_moment("feeding")
    planned = other.kill().planned
    one.send("in", tuples(50))
    one.start()
    one.await_outputs()
    one.end()
    stores = [FolderStore(other.checkpoint), FolderStore(one.checkpoint)]
    assert len({offset_log.digest(store, planned) for store in stores}) == 2
    assert one.position().next_batch == planned + 1

    other.start()
    other.send("in", tuples(10))
    other.await_log("checkpoint restored")
    other.await_outputs()
    other.end()
