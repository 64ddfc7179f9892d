"""What a lost checkpoint is restored from. The store is in memory; the inputs of past batches are lists of rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.batch.inputs_again import PastInput
from sluice.batch.packed_rows import PartitionSlice
from sluice.checkpoint.checkpoint_store import StoreError, put_bytes
from sluice.checkpoint.offset_log import batches, write_plan
from sluice.kafka.batch_report import Planned
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.state import restore as module
from sluice.state.bucket import Bucket
from sluice.state.restore import NO_ROOM, RestoreError, require_restorable, restore
from sluice.state.snapshot_archive import NeededOffset, SnapshotArchive, StoredSnapshot
from sluice.time_units import SECOND
from tests.unit.checkpoint.memory_store import MemoryStore
from tests.unit.state.damaged_files import flip
from tests.unit.state.packed_rows import plan_of, rows_of

#: number of the last batch in the ledger; batch n has the tuples from 10 n on
LAST = 9
PLACE = ("in", 0)


def planned(batch):
    return Planned((batch + 1) * SECOND, {PLACE: 10 * (batch + 1)}, 0)


PLANS = {batch: planned(batch) for batch in range(-1, LAST + 1)}


class Given:
    """A service with one bucket that lost its folder after batch LAST, and a store with snapshots of these versions."""

    def __init__(self, folder, monkeypatch, *versions):
        self.monkeypatch = monkeypatch
        self.plan = replace(plan_of(folder / "new"), buckets=1)
        self.remote, self.repeated, self.oldest = MemoryStore(), [], 0
        self.archive = SnapshotArchive(self.remote, self.plan.buckets)
        self.undisturbed = Bucket(replace(self.plan, checkpoint=str(folder / "undisturbed")), 0)
        for batch in range(LAST + 1):
            self.undisturbed.feed(batch, rows_of(10 * batch, 10))
            if batch + 1 in versions:
                self.save(batch + 1, planned(batch).digest)
        monkeypatch.setattr(module, "inputs_again", self._again)
        monkeypatch.setattr(
            module, "oldest_needed", lambda _, starts, __: {PLACE: NeededOffset(starts[PLACE], self.oldest)}
        )

    def save(self, version, digest):
        local = MemoryStore()
        self.undisturbed.export(local, version)
        self.archive.save(0, StoredSnapshot(version, digest), local)

    def _again(self, plan, before, wanted):
        self.repeated = [one.offsets[PLACE] // 10 - 1 for one in wanted]
        assert before.offsets[PLACE] == 10 * self.repeated[0]
        for batch in self.repeated:
            slices = [PartitionSlice.of(packed) for _, packed in rows_of(10 * batch, 10)]
            yield PastInput(plan.topic_partitions, {0: slices}, None)

    def restore(self, plans=PLANS):
        restore(self.plan, LAST, plans, self.archive)
        return self.state(Bucket(self.plan, 0))

    def state(self, bucket):
        return content(bucket.at(LAST + 1), bucket)

    def damage(self, version, change):
        (name,) = (name for name in self.remote.objects if f"/{version}-" in name)
        self.remote.objects[name] = change(self.remote.objects[name])


def content(state, bucket):
    """The bytes of a state."""
    store = MemoryStore()
    bucket.install(LAST + 1, state)
    bucket.export(store, LAST + 1)
    return store.objects[f"buckets/0/{LAST + 1}.state"]


@pytest.fixture
def given(tmp_path, monkeypatch):
    return Given(tmp_path, monkeypatch, 4, 7)


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_the_newest_snapshot_is_used_and_the_batches_since_then_are_repeated(given):
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == [7, 8, 9]
    assert batches(given.plan.store) == (LAST, LAST)


def test_a_snapshot_of_the_last_batch_needs_no_record(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch, LAST + 1)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == []


def test_without_a_snapshot_all_batches_are_repeated(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == list(range(LAST + 1))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(flipped, id="a bit is flipped"),
        pytest.param(lambda data: data[: len(data) // 2], id="half of it"),
        pytest.param(lambda _: b"", id="empty"),
    ],
)
def test_a_damaged_snapshot_is_told_and_the_one_before_it_is_used(given, caplog, change):
    given.damage(7, change)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == [4, 5, 6, 7, 8, 9]
    assert "the state of version 7 in the store cannot be used" in caplog.text


@pytest.mark.parametrize("number", NO_ROOM)
def test_a_local_disk_without_room_ends_the_start_and_no_older_state_is_used(given, number):
    """The older one needs records that Kafka may have deleted: the message would say to give the checkpoint up."""

    def full(*_: object) -> None:
        raise OSError(number, "no room")

    given.monkeypatch.setattr(given.archive, "fetch", full)
    with pytest.raises(OSError, match="no room"):
        given.restore()
    assert given.repeated == []


def test_a_snapshot_that_is_listed_but_absent_is_told_and_the_one_before_it_is_used(given, caplog):
    fetch = given.archive.fetch

    def absent(bucket, snapshot, into):
        if snapshot.version == 7:
            raise FileNotFoundError("snapshots/0/7")
        fetch(bucket, snapshot, into)

    given.monkeypatch.setattr(given.archive, "fetch", absent)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == [4, 5, 6, 7, 8, 9]
    assert "the state of version 7 in the store cannot be used: snapshots/0/7" in caplog.text


def test_if_all_snapshots_are_damaged_the_first_batch_is_the_beginning(given):
    given.damage(7, flipped)
    given.damage(4, flipped)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == list(range(LAST + 1))


def test_if_nothing_can_be_read_the_start_is_refused(given):
    given.damage(7, flipped)
    given.damage(4, flipped)
    since = {batch: plan for batch, plan in PLANS.items() if batch >= 3}
    with pytest.raises(RestoreError, match=r"none of the states that are left can be read; .* Put back a newer copy"):
        given.restore(since)


def test_a_store_that_stops_to_answer_ends_the_restore(given):
    """The snapshot before would need more records; the store may answer the next start."""

    def unreachable(*_):
        raise StoreError("no answer")

    given.monkeypatch.setattr(given.archive, "fetch", unreachable)
    with pytest.raises(StoreError, match="no answer"):
        given.restore()


def test_a_snapshot_of_another_history_is_not_used(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch, 4)
    given.save(8, "f" * 16)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == [4, 5, 6, 7, 8, 9]


def test_a_snapshot_that_is_newer_than_the_ledger_is_not_used(given):
    put_bytes(given.remote, f"snapshots/0/{LAST + 2}-{planned(LAST + 1).digest[:16]}.state", b"?")
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == [7, 8, 9]


def test_a_damaged_log_is_replaced_by_the_snapshot_before_it_and_the_records_since_then(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch)
    bucket = Bucket(given.plan, 0)
    for batch in range(LAST + 1):
        bucket.feed(batch, rows_of(10 * batch, 10))
        write_plan(given.plan.store, batch, planned(batch), idle_clock=False)
        if batch == 3:
            bucket.write_snapshot()
    assert module.unreadable(given.plan, LAST + 1) == ""
    *_, log = sorted((tmp_path / "new" / "buckets" / "0").glob("*.log"))
    flip(log, log.stat().st_size // 2)
    assert f"{log}: the entry at byte " in module.unreadable(given.plan, LAST + 1)
    assert given.restore() == given.state(given.undisturbed)
    assert given.repeated == list(range(4, LAST + 1))
    assert module.unreadable(given.plan, LAST + 1) == ""


def test_records_that_kafka_has_deleted_are_named_before_anything_is_changed(given):
    given.oldest = 71
    with pytest.raises(RestoreError, match=r"topic in, topic partition 0, from offset 70 on, .* before offset 71"):
        require_restorable(given.plan, LAST, PLANS, given.archive)


def test_records_before_the_snapshot_may_be_deleted(given):
    given.oldest = 70
    require_restorable(given.plan, LAST, PLANS, given.archive)
    assert given.restore() == given.state(given.undisturbed)


def test_records_of_a_compacted_topic_are_not_repeated(given):
    plan = replace(given.plan, compacted=frozenset({"in"}))
    with pytest.raises(RestoreError, match=r"topic in, topic partition 0, from offset 70 on, but Kafka compacts"):
        require_restorable(plan, LAST, PLANS, given.archive)
    with pytest.raises(RestoreError, match="Kafka compacts this topic"):
        restore(plan, LAST, PLANS, given.archive)


def test_records_of_a_topic_that_was_created_again_are_not_repeated(given):
    """The new topic may have other records at the same offsets."""
    plan = replace(given.plan, created_again=frozenset({"in"}))
    with pytest.raises(RestoreError, match=r"topic in, which was deleted and created again since then. Put back"):
        require_restorable(plan, LAST, PLANS, given.archive)


def test_a_compacted_topic_is_allowed_if_none_of_its_records_is_needed(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch, LAST + 1)
    given.monkeypatch.setattr(module, "oldest_needed", lambda *_: {})
    given.plan = replace(given.plan, compacted=frozenset({"in"}))
    assert given.restore() == given.state(given.undisturbed)


def test_plans_that_the_ledger_has_forgotten_are_named(tmp_path, monkeypatch):
    given = Given(tmp_path, monkeypatch, 2)
    since = {batch: plan for batch, plan in PLANS.items() if batch >= 4}
    with pytest.raises(RestoreError, match=r"No snapshot is left, .* from 5 on only") as refused:
        require_restorable(given.plan, LAST, since, given.archive)
    assert "--reset-ledger" in str(refused.value)


def test_a_record_that_only_spark_can_read_refuses_the_restore(given, monkeypatch):
    def again(*_):
        message = "the name of a header is not UTF-8 (topic in, topic partition 0, offset 71)"
        raise HeaderNameError(message)

    monkeypatch.setattr(module, "inputs_again", again)
    with pytest.raises(RestoreError, match=r"only Spark can read: the name .* offset 71\). Put back"):
        given.restore()
