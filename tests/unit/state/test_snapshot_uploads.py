"""Which snapshots go to the store of `state:`, when, and what stays there. Kafka is a dictionary, the clock a list."""

from __future__ import annotations

import errno
import queue
from contextvars import copy_context
from dataclasses import replace
from itertools import count

import pytest

from sluice.checkpoint.checkpoint_store import StoreError, StoreRefusedError, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import write_logs
from sluice.kafka.batch_report import Planned
from sluice.kafka.kafka_errors import UnavailableError
from sluice.ops.log_lines import PIPELINE
from sluice.state import snapshot_uploads as module
from sluice.state.snapshot_archive import OWNER, NeededOffset, SnapshotArchive, SnapshotOwner, StoredSnapshot
from sluice.state.snapshot_uploads import LIST_S, REPEAT_S, RETENTION_S, SnapshotUploads
from sluice.time_units import SECOND
from tests.unit.checkpoint.memory_store import MemoryStore
from tests.unit.state.packed_rows import plan_of

#: seconds between two copies of a bucket's snapshots: half of `snapshot_interval`
HALF = 50
RECORDS = 1000
PLACE = ("in", 0)


def planned(batch):
    return Planned(batch * SECOND, {PLACE: 10 * (batch + 1)}, 0)


class Refusing(MemoryStore):
    """A store that cannot be reached while `down`, and from which nothing may be deleted while `kept`."""

    down = kept = False

    def delete(self, name):
        if self.kept:
            raise StoreRefusedError(f"{name}: status code: 403")
        super().delete(name)

    def put(self, name, write):
        if self.down:
            raise StoreError(f"{name}: no answer")
        super().put(name, write)


class Given:
    """A checkpoint folder with two buckets, a ledger with the plans of all batches, and a store."""

    def __init__(self, folder, monkeypatch):
        plan = plan_of(folder, "count(10)")
        settings = replace(
            plan.pipeline.settings, state="s3://bucket", snapshot_interval=2 * HALF * SECOND, snapshot_records=RECORDS
        )
        self.plan = replace(plan, pipeline=replace(plan.pipeline, settings=settings), buckets=2, checkpoint=str(folder))
        self.local, self.remote = FolderStore(folder), Refusing()
        self.ledger = {-1: Planned(0, {PLACE: 0}, 0)}
        self.oldest, self.now, self.reports = 0, 0.0, []
        owner = SnapshotOwner("p", "c", "k")
        monkeypatch.setattr(module, "owner_of", lambda _: owner)
        monkeypatch.setattr(module.ledger, "plans", lambda *_: dict(self.ledger))
        monkeypatch.setattr(module.ledger, "remove_plans", self._forget)
        monkeypatch.setattr(module, "oldest_needed", self._oldest_needed)
        self.archive = SnapshotArchive(self.remote, 1)
        self.restart()

    def _oldest_needed(self, _, starts, ends):
        return {PLACE: NeededOffset(starts[PLACE], self.oldest)} if starts[PLACE] < ends[PLACE] else {}

    def _forget(self, kafka, query, query_id, batches):
        for batch in batches:
            self.ledger.pop(batch, None)

    def restart(self):
        self.uploads = SnapshotUploads(self.plan, self.archive, self.reports.append, lambda: self.now)

    def commit(self, batch):
        self.ledger |= {one: planned(one) for one in range(batch + 1) if one not in self.ledger and one >= batch}
        write_logs(self.local, {one: planned(one) for one in (batch - 1, batch)}, batch, idle_clock=False)

    def snapshot(self, version, *buckets):
        for bucket in buckets or (0, 1):
            put_bytes(self.local, f"buckets/{bucket}/{version}.state", b"state %d" % version)

    def step(self):
        self.uploads.step()
        return self.reports[-1]

    def versions(self, bucket=0):
        return sorted(one.version for one in self.archive.snapshots(bucket))


@pytest.fixture
def given(tmp_path, monkeypatch):
    return Given(tmp_path, monkeypatch)


def test_the_first_snapshot_is_copied_at_once(given):
    given.commit(4)
    given.snapshot(5)
    report = given.step()
    assert (given.versions(0), given.versions(1)) == ([5], [5])
    assert report.up
    assert report.written == 2 * len("state 5")
    assert report.since == planned(4).time
    (one,) = given.archive.snapshots(0)
    assert planned(4).digest.startswith(one.digest)


def test_the_snapshot_of_a_batch_that_is_not_committed_waits(given):
    given.commit(4)
    given.snapshot(6)
    given.step()
    assert given.versions() == []
    given.commit(5)
    given.step()
    assert given.versions() == [6]


@pytest.mark.parametrize(("seconds", "batch", "expected"), [(HALF - 1, 9, [5]), (HALF, 9, [5, 10]), (1, 110, [5, 111])])
def test_the_next_one_is_copied_after_half_the_interval_or_enough_records(given, seconds, batch, expected):
    given.commit(4)
    given.snapshot(5)
    given.step()
    given.commit(batch)
    given.snapshot(batch + 1)
    given.now += seconds
    given.step()
    assert given.versions() == expected


def copies(given, *versions):
    for version in versions:
        given.commit(version - 1)
        given.snapshot(version)
        given.now += HALF
        given.step()


def test_two_snapshots_stay_and_the_plans_since_the_older_one(given):
    copies(given, 1, 5, 8)
    assert given.versions() == [5, 8]
    assert min(given.ledger) == 4


def test_before_there_are_two_of_each_bucket_all_plans_stay(given):
    copies(given, 1)
    assert -1 in given.ledger
    given.commit(7)
    given.snapshot(8, 0)
    given.now += HALF
    given.step()
    assert given.versions(0) == [1, 8]
    assert given.versions(1) == [1]
    assert -1 in given.ledger


def test_a_store_that_is_gone_is_told_and_ends_nothing(given, caplog):
    given.commit(4)
    given.snapshot(5)
    given.remote.down = True
    assert not given.step().up
    assert not given.step().up
    assert [record.levelname for record in caplog.records] == ["WARNING"], "logged once"
    given.remote.down = False
    assert given.step().up
    assert given.versions() == [5]


def test_a_failure_is_logged_once_a_minute_also_if_its_text_names_another_file_each_time(given, caplog):
    """A folder's error has the name of the file that is written, which no other attempt uses."""
    files = count()

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system", f"{next(files)}.part")

    given.commit(4)
    given.snapshot(5)
    given.remote.put = refuse
    for given.now in (0, 2, 4, REPEAT_S, REPEAT_S + 2):
        assert not given.step().up
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_log_lines_of_the_thread_name_the_pipeline(given, monkeypatch):
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    names, context = queue.Queue(), copy_context()
    context.run(PIPELINE.set, "orders")
    with context.run(SnapshotUploads, given.plan, given.archive, lambda _: names.put(PIPELINE.get())):
        assert names.get(timeout=30) == "orders"


def test_a_new_start_goes_on_with_what_the_store_has(given):
    copies(given, 1, 5, 8)
    given.restart()
    given.commit(9)
    given.snapshot(10)
    given.step()
    assert given.versions() == [8, 10]


def another_number(given, version):
    """The archive of another number of buckets, with the snapshots that the change of the number has made."""
    archive = SnapshotArchive(given.remote, 3)
    put_bytes(given.local, f"buckets/0/{version}.state", b"divided anew")
    archive.save(0, StoredSnapshot(version, planned(version - 1).digest), given.local)
    return archive


def test_snapshots_of_another_number_of_buckets_are_removed(given):
    """The start that changed the number may have been killed before it could."""
    copies(given, 1, 5)
    given.commit(5)
    given.plan, given.archive = replace(given.plan, buckets=1), another_number(given, 6)
    given.restart()
    given.step()
    assert list(given.remote.list("snapshots/1/")) == []
    assert given.versions() == [6]


@pytest.mark.parametrize("version", [5, 6])
def test_an_instance_without_the_lead_keeps_the_snapshots_of_the_new_number(given, version):
    """It reaches the store for the first time when another instance has changed the number of buckets already."""
    copies(given, 1, 5)
    given.commit(version - 1)
    new = another_number(given, version)
    given.restart()
    given.step()
    assert [one.version for one in new.snapshots(0)] == [version]


def test_retention_that_has_passed_is_logged_until_a_snapshot_is_newer(given, caplog):
    """The margin is then 0: nothing is left of an alert."""
    given.commit(4)
    given.snapshot(5)
    given.commit(5)
    given.oldest = 60
    assert given.step().margins == {PLACE: 50 - 60}
    assert "Kafka has deleted the records before offset 60" in caplog.text
    given.now += max(HALF, RETENTION_S)
    given.snapshot(6)
    given.step()
    given.now += RETENTION_S
    assert given.step().margins == {PLACE: 0}


def test_retention_is_watched_while_the_store_cannot_be_reached(given):
    given.commit(4)
    given.snapshot(5)
    given.commit(5)
    assert given.step().margins == {PLACE: 50}
    given.remote.down, given.oldest = True, 60
    given.snapshot(6)
    given.now += max(HALF, RETENTION_S)
    report = given.step()
    assert (report.up, report.margins) == (False, {PLACE: 50 - 60})


def test_the_margin_of_retention_is_there_as_soon_as_there_is_a_snapshot(given):
    given.step()
    given.commit(4)
    given.snapshot(5)
    assert given.step().margins == {PLACE: 0}


# ---- objects that somebody else removes, or nobody may remove --------------------------------------------------------


def list_again(given):
    given.now += LIST_S
    return given.step()


def test_a_snapshot_that_was_removed_from_the_store_is_copied_again(given, caplog):
    """By a life cycle rule of the bucket, for instance, while the pipeline is quiet and has no newer one."""
    copies(given, 5, 8)
    given.remote.objects.clear()
    assert list_again(given).up
    assert (given.versions(0), given.versions(1)) == ([8], [8])
    assert OWNER in given.remote.objects
    assert "removed the snapshots of bucket 0, versions 5, 8" in caplog.text


def test_as_long_as_one_of_two_is_missing_no_further_plan_is_removed(given):
    copies(given, 5, 8)
    for bucket in (0, 1):
        given.archive.delete(bucket, next(one for one in given.archive.snapshots(bucket) if one.version == 5))
    list_again(given)
    given.step()
    assert given.versions() == [8]
    assert min(given.ledger) == 4
    copies(given, 9)
    assert given.versions() == [8, 9]
    assert min(given.ledger) == 7


def test_what_another_instance_has_replaced_is_not_copied_again(given, caplog):
    """This instance has lost the lead, and does not know it yet."""
    copies(given, 5, 8)
    given.remote.objects = {name: data for name, data in given.remote.objects.items() if "state" not in name}
    for bucket in (0, 1):
        put_bytes(given.local, f"buckets/{bucket}/20.state", b"state 20")
        given.archive.save(bucket, StoredSnapshot(20, "0" * 16), given.local)
        given.local.delete(f"buckets/{bucket}/20.state")
    list_again(given)
    assert given.versions() == [20]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_prefix_that_another_cluster_has_got_meanwhile_is_left_alone(given, caplog):
    copies(given, 5)
    SnapshotArchive(given.remote, 1).delete(0, StoredSnapshot(5, planned(4).digest))
    given.remote.objects[OWNER] = b'{"pipeline": "p", "checkpoint": "other", "cluster": "other"}'
    assert not list_again(given).up
    assert given.versions() == []
    assert "refused" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_without_the_permission_to_delete_the_store_is_reported_as_unusable_and_gets_new_snapshots(given, caplog):
    copies(given, 1, 5)
    given.remote.kept = True
    copies(given, 8)
    for _ in range(2):
        assert not given.step().up, "also in steps that copy nothing"
    assert (given.versions(0), given.versions(1)) == ([1, 5, 8], [1, 5, 8])
    assert min(given.ledger) == 4, "the ledger does not grow for that reason"
    assert "status code: 403" in caplog.text
    given.remote.kept = False
    assert given.step().up
    assert (given.versions(0), given.versions(1)) == ([5, 8], [5, 8])


def test_a_new_start_removes_the_snapshots_from_before_a_change_of_the_file(given):
    """The change has removed the plans of all batches before it, so no restore uses them."""
    copies(given, 1, 5)
    given.ledger = {}
    given.commit(7)
    given.ledger = {7: planned(7)}
    given.snapshot(8)
    for bucket in (0, 1):
        given.archive.save(bucket, StoredSnapshot(8, planned(7).digest), given.local)
    given.restart()
    given.step()
    assert (given.versions(0), given.versions(1)) == ([8], [8])


def test_a_failure_of_kafka_is_named_as_such_without_a_stack_trace(given, monkeypatch, caplog):
    def unavailable(*_):
        raise UnavailableError("cannot read the ledger")

    monkeypatch.setattr(module.ledger, "plans", unavailable)
    given.step()
    assert "Kafka does not answer, and the service continues" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
