"""Each row of "What is refused at the start" in docs/exactly-once.md, as `sluice run` meets it (fault_rows.py)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.checkpoint.checkpoint_identity import FILE as IDENTITY
from sluice.checkpoint.checkpoint_identity import claim, fingerprint_of
from sluice.checkpoint.folder_store import FolderStore
from sluice.kafka import ledger
from tests.recovery.harness.service import Position, Service
from tests.recovery.harness.sums_and_runs import FILE, tuples

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: checkpoint and ledger do not fit together
REFUSED = 4
#: another instance has taken over
FENCED = 5


class History:
    """A service that has run, with copies of its checkpoint at some moments, and of its ledger."""

    def __init__(self, make: Callable[..., Service], folder: Path) -> None:
        self.service, self._make, self._folder = make(FILE), make, folder
        self.service.create("in")
        self.service.start()
        self._batch()
        self.old = self._copy("old")
        self._batch()
        self.service.at("feeding")
        self.service.send("in", tuples(200))
        self.service.await_moment("feeding")
        self.service.kill()
        #: the last batch that was planned has not been written
        self.planned = self._copy("planned")
        self.service.start()
        self.service.await_outputs()
        self.service.await_rest()

    def _batch(self) -> None:
        self.service.send("in", tuples(200))
        self.service.await_rest()

    def _copy(self, name: str) -> Path:
        """As a copy is made in practice: with all that stands in the folder at that time."""
        return Path(shutil.copytree(self.service.checkpoint, self._folder / name))

    def restored(self, checkpoint: Path | None) -> Service:
        """Another start of the same pipeline on a copy of the checkpoint, or on an empty folder."""
        folder = self._folder / f"restored-{len(list(self._folder.iterdir()))}"
        if checkpoint:
            shutil.copytree(checkpoint, folder)
        service = self._make(FILE, name=self.service.name, checkpoint=folder)
        service.adopt(self.service)
        return service

    def foreign(self) -> Service:
        """Another pipeline with the same name, whose checkpoint is used."""
        service = self.restored(self.service.checkpoint)
        (service.checkpoint / IDENTITY).unlink()
        new = service.folder / "new"
        buckets = service.pipeline.settings.buckets
        claim(FolderStore(new), service.name, fingerprint_of(service.pipeline), buckets, 2)
        (new / IDENTITY).rename(service.checkpoint / IDENTITY)
        return service


@pytest.fixture(scope="module")
def history(services, tmp_path_factory) -> History:
    return History(services, tmp_path_factory.mktemp("history"))


def assert_refused(service: Service, words: str, code: int = REFUSED) -> None:
    before = service.count("sums", "runs")
    service.start()
    assert service.await_end() == code, service.log()
    assert words in service.log()
    assert service.count("sums", "runs") == before, "nothing was written"


def assert_goes_on(service: Service) -> None:
    """It still runs, and writes what comes."""
    service.send("in", tuples(200))
    service.await_outputs()
    service.await_rest()


def killed_in_its_first_batch(services: Callable[..., Service]) -> Service:
    service = services(FILE)
    service.create("in")
    service.send("in", tuples(200))
    service.at("feeding")
    service.start()
    service.await_moment("feeding")
    service.kill()
    return service


def end_at_rest(service: Service) -> Position:
    """It has read all records, and has ended; the positions then."""
    service.start()
    service.await_log("message=running")
    position = service.await_rest()
    service.end()
    return position


@pytest.mark.slow
def test_s1_a_new_checkpoint_and_an_empty_ledger_start(history):
    """As the service of this module did."""
    assert history.service.position().next_batch > 2
    history.service.check_outputs(history.service.expected())


@pytest.mark.slow
def test_s2_only_batch_0_is_planned_and_the_ledger_is_empty(services):
    service = killed_in_its_first_batch(services)
    position = service.position()
    assert (position.planned, position.committed, position.next_batch) == (0, -1, 0)
    service.start()
    service.await_outputs()
    service.end()


def assert_takes_over(history: History, service: Service) -> None:
    """It restores its checkpoint and goes on. The instance that ran is shut out, and restores its own one later."""
    history.service.send("in", tuples(200))
    history.service.await_rest()  # it has a producer, which the start of the other instance fences
    service.start()
    service.await_log("checkpoint restored")
    service.send("in", tuples(200))
    assert history.service.await_end() == FENCED
    service.await_outputs()
    service.await_rest()
    service.end()
    history.service.start()
    assert_goes_on(history.service)


@pytest.mark.slow
def test_s3_a_lost_checkpoint_is_restored(history):
    """Also while another instance runs, which is shut out."""
    history.service.start()
    assert_takes_over(history, history.restored(None))


@pytest.mark.slow
def test_s12_a_checkpoint_that_was_never_used_becomes_that_of_the_ledger(services):
    """Of two instances, the first was killed before its first batch was written, and the second wrote it."""
    first = killed_in_its_first_batch(services)
    second = services(FILE, name=first.name)
    second.adopt(first)
    second.start()
    second.await_outputs()
    second.await_rest()
    second.end()
    first.start()
    first.await_log("checkpoint restored")
    assert_goes_on(first)
    first.end()


@pytest.mark.slow
def test_s4_a_checkpoint_beside_the_ledger_of_another_is_refused(history):
    history.service.start()
    assert_refused(history.foreign(), "belongs to the checkpoint")
    assert_goes_on(history.service)


@pytest.mark.slow
def test_s5_a_used_checkpoint_without_a_ledger_is_refused(services):
    """Another cluster, or someone deleted the ledger."""
    service = used(services)
    delete_ledger(service)
    assert_refused(service, "Kafka has no ledger")
    service.start("--reset-ledger")
    service.send("in", tuples(200))
    service.await_outputs()
    service.end()


@pytest.mark.slow
def test_s14_a_ledger_group_that_was_reset_counts_as_none(services):
    service = used(services)
    member = ledger.group_member(service.kafka, service.name)
    member.commit(offsets=[TopicPartition(ledger.TOPIC, ledger.PARTITION, 0)], asynchronous=False)
    member.close()
    service.start()
    assert_goes_on(service)
    service.end()


@pytest.mark.slow
def test_s6_an_older_copy_of_the_checkpoint_is_brought_to_the_ledgers_batch(history):
    history.service.start()
    history.service.await_rest()
    assert_takes_over(history, history.restored(history.old))


@pytest.mark.slow
def test_s6_an_older_copy_of_the_ledger_has_the_last_word(services):
    """As after a switch to another cluster, whose copy of the topics ends earlier."""
    service = services(FILE)
    service.create("in")
    service.start()
    service.send("in", tuples(200))
    service.await_rest()
    old = ledger_place(service)
    before = service.count("sums", "runs")
    service.send("in", tuples(200))
    service.await_rest()
    service.end()
    set_ledger(service, old)
    service.start()
    service.await_log("checkpoint restored")
    service.await_rest()
    assert service.count("sums", "runs") > before, "what the ledger does not know is written again"
    service.end()


@pytest.mark.slow
def test_s8_a_checkpoint_at_the_ledgers_batch_starts(history):
    position = end_at_rest(history.service)
    assert position.committed == position.next_batch - 1
    history.service.start()
    assert_goes_on(history.service)


@pytest.mark.slow
def test_s8_a_checkpoint_one_batch_before_the_ledger_starts(history):
    """A copy of the moment when the ledger had a batch that the checkpoint's commits did not have."""
    history.service.start()
    history.service.at("written")
    history.service.send("in", tuples(200))
    history.service.await_moment("written")
    position = history.service.kill()
    assert position.committed == position.next_batch - 2
    copy = history.restored(history.service.checkpoint)
    shutil.rmtree(history.service.checkpoint)
    shutil.copytree(copy.checkpoint, history.service.checkpoint)
    history.service.start()
    assert_goes_on(history.service)


@pytest.mark.slow
def test_s7_the_other_one_of_two_copies_is_brought_to_the_ledgers_batch(history):
    """Each planned a batch with the same number, and one of them wrote it."""
    first = history.service
    end_at_rest(first)
    second = history.restored(first.checkpoint)
    second.at("feeding")
    second.start()
    second.send("in", tuples(200))
    second.await_moment("feeding")
    planned = second.kill()
    first.at("written")
    first.start()
    first.await_moment("written")
    written = first.kill()
    assert written.next_batch == planned.planned + 1, "both planned this batch"
    second.start()
    second.await_log("checkpoint restored")
    assert_goes_on(second)
    second.end()
    first.start()
    assert_goes_on(first)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["damaged", "missing"])
@pytest.mark.parametrize("pattern", ["metadata", "offsets/[0-9]*", "commits/[0-9]*", "sources/0/0", "buckets"])
def test_s9_a_file_of_spark_and_lost_buckets_are_made_again(history, how, pattern):
    service = history.service
    end_at_rest(service)
    file = max(service.checkpoint.glob(pattern), key=lambda path: int(path.name) if path.name.isdigit() else 0)
    if file.is_dir():
        shutil.rmtree(file)
    elif how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"\0" * file.stat().st_size)
    named = f"its file {file.relative_to(service.checkpoint)} is damaged" if file.exists() else ""
    service.start()
    assert_goes_on(service)
    assert named in service.log()


@pytest.mark.slow
def test_s9_a_restored_service_that_is_killed_in_its_first_batch_starts(services):
    """Spark then compares the planned batch with one that it has not written itself."""
    service = services(FILE)
    service.create("in")
    service.start()
    service.send("in", tuples(200))
    service.await_rest()
    service.lose_machine()
    service.at("feeding")
    service.start()
    service.send("in", tuples(200))
    service.await_moment("feeding")
    service.kill()
    service.start()
    service.await_outputs()
    service.end()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_s10_a_damaged_identity_is_named(history, how):
    end_at_rest(history.service)
    broken = history.restored(history.service.checkpoint)
    file = broken.checkpoint / IDENTITY
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"\0" * file.stat().st_size)
    assert_refused(broken, file.name)
    history.service.start()
    assert_goes_on(history.service)


@pytest.mark.slow
def test_s11_a_lost_checkpoint_whose_records_are_gone_is_refused(services):
    """The message names the topic and the offset, and the instance that runs goes on."""
    service = services(FILE)
    service.create("in")
    service.start()
    service.send("in", tuples(200))
    service.await_rest()
    place = service.code_of("in", "key 1")
    topic = service.topic("in")
    client = AdminClient(service.kafka)
    client.delete_records([TopicPartition(topic, place, 5)])[TopicPartition(topic, place)].result()
    lost = services(FILE, name=service.name)
    lost.adopt(service)
    assert_refused(
        lost, f"topic {topic}, topic partition {place}, from offset 0 on, but Kafka has deleted those before"
    )
    service.send("in", tuples(200))
    service.await_rest()
    service.end()


def used(services: Callable[..., Service]) -> Service:
    """A service that has written a batch and has ended."""
    service = services(FILE)
    service.create("in")
    service.start()
    service.send("in", tuples(200))
    service.await_rest()
    service.end()
    return service


def delete_ledger(service: Service) -> None:
    """Of this service; other services of the test have theirs in the same topic."""
    admin = AdminClient(service.kafka)
    (future,) = admin.delete_consumer_groups([ledger.group_of(service.name)]).values()
    future.result()
    producer = Producer(service.kafka)
    producer.produce(ledger.TOPIC, None, service.name, ledger.PARTITION)
    assert producer.flush(30) == 0


def ledger_place(service: Service) -> TopicPartition:
    """What the ledger's group has committed."""
    member = ledger.group_member(service.kafka, service.name)
    (place,) = member.committed([TopicPartition(ledger.TOPIC, ledger.PARTITION)], timeout=30)
    member.close()
    return place


def set_ledger(service: Service, place: TopicPartition) -> None:
    group = ConsumerGroupTopicPartitions(ledger.group_of(service.name), [place])
    admin = AdminClient(service.kafka)
    (future,) = admin.alter_consumer_group_offsets([group]).values()
    future.result()
