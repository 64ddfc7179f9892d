"""The ledgers of buckets: each part of a batch is written once, by the buckets of the start that has taken over."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka import ledger
from sluice.kafka.batch_report import Planned, Report
from sluice.kafka.batch_writer import TransactionalWriter, WriterSettings
from sluice.kafka.kafka_errors import FencedError, LedgerError, TakenOverError
from sluice.kafka.records import records
from sluice.kafka.topics import LEDGER_CONFIG, create
from tests.unit.kafka.broker_tools import visible

pytestmark = pytest.mark.kafka
MINE, FIRST, SECOND = "checkpoint-1", "start-1", "start-2"
#: the streams of which the buckets write parts
PARTED = frozenset({"raw", "sums"})


def settings(kafka, query, start=FIRST, bucket=0):
    return WriterSettings(
        tuple(kafka.items()), query, MINE, start=start, parted=PARTED, bucket=bucket, made_for=("shape", 2, ())
    )


def planned_for(batch, more=0):
    return Planned(1_700_000_000_000_000_000 + batch, {("in", 0): batch + more}, 0)


def written(writer, topic, batch, more=0):
    """Whether the part was written now."""
    value = pa.array([b"%d" % batch], pa.binary())
    rows = [records(topic, value, value, np.array([0]), np.array([1]), pa.nulls(1))]
    before = Planned(0, {("in", 0): 0}, 0) if batch == 0 else None
    return writer.write(batch, rows, Report(), planned=planned_for(batch, more), before=before)


def values(kafka, topic):
    return [int(message.value()) for message in visible(kafka, topic)]


def delete_group(kafka, query):
    admin = AdminClient(kafka)
    (deleted,) = admin.delete_consumer_groups([ledger.group_of(query)]).values()
    deleted.result()


@pytest.fixture
def query(kafka, request):
    """The name of a pipeline of the test's own, whose buckets may write for the first start; its output topic."""
    name = f"parts-{request.node.name.replace('[', '-').strip(']')}"[:80]
    create(kafka, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG), NewTopic(name, 1))
    ledger.take_over(kafka, name, MINE, FIRST, 2)
    return name


def test_a_part_that_is_there_is_skipped_by_the_next_writer(kafka, query):
    assert written(TransactionalWriter(settings(kafka, query)), query, 0)
    assert not written(TransactionalWriter(settings(kafka, query)), query, 0)
    assert values(kafka, query) == [0]


def test_a_part_of_a_batch_that_one_writer_has_written_before_is_not_written(kafka, query):
    """Spark has not noted the batch when `writers` changes from `one` to `buckets`, and repeats it."""
    assert written(TransactionalWriter(replace(settings(kafka, query), bucket=None)), query, 0)
    ledger.take_over(kafka, query, MINE, SECOND, 2)
    bucket = TransactionalWriter(settings(kafka, query, SECOND))
    assert not written(bucket, query, 0)
    assert written(bucket, query, 1)
    assert values(kafka, query) == [0, 1]


def test_a_bucket_without_records_in_some_batches_writes_the_others(kafka, query):
    writer = TransactionalWriter(settings(kafka, query))
    assert [written(writer, query, batch) for batch in (3, 7, 8)] == [True, True, True]
    assert values(kafka, query) == [3, 7, 8]


def test_a_writer_elsewhere_fences_this_one_which_then_finds_the_part(kafka, query):
    old, new = TransactionalWriter(settings(kafka, query)), TransactionalWriter(settings(kafka, query))
    assert written(old, query, 0)
    assert written(new, query, 1)
    with pytest.raises(FencedError):
        written(old, query, 1)
    assert not written(old, query, 1), "its next attempt reads the ledger first, and does not fence the other one"
    assert written(new, query, 2)
    assert values(kafka, query) == [0, 1, 2]


def test_the_open_transaction_of_a_lost_writer_ends_with_the_next_writer(kafka, query):
    lost = TransactionalWriter(settings(kafka, query))
    producer = lost._opened(0, planned_for(0))  # noqa: SLF001
    producer.begin(ledger.offset_after(0, MINE, planned_for(0)))
    producer.produce(records(query, *[pa.array([b"9"])] * 2, np.array([0]), np.array([1]), pa.nulls(1)))
    producer.client.flush(10)
    time.sleep(0.5)  # until its offset is in the transaction, too
    begin = time.monotonic()
    assert written(TransactionalWriter(settings(kafka, query)), query, 0)
    assert values(kafka, query) == [0]
    assert time.monotonic() - begin < 30, "sooner than the time-out of the transaction"


def test_after_another_start_has_taken_over_no_writer_of_this_one_can_write(kafka, query):
    running, late = (TransactionalWriter(settings(kafka, query)) for _ in range(2))
    assert written(running, query, 0)
    ledger.take_over(kafka, query, MINE, SECOND, 2)
    parts = ledger.fenced_parts(kafka, query, 2)
    assert [part and part.next_batch for part in parts] == [1, None]
    with pytest.raises(FencedError):
        written(running, query, 1)
    for writer in (running, late):
        with pytest.raises(TakenOverError, match="another instance of this pipeline has started and taken over"):
            written(writer, query, 1)
    assert written(TransactionalWriter(settings(kafka, query, SECOND)), query, 1)
    assert values(kafka, query) == [0, 1]


def test_a_part_with_another_plan_is_refused(kafka, query):
    assert written(TransactionalWriter(settings(kafka, query)), query, 0)
    with pytest.raises(FencedError, match="has written batch 0"):
        written(TransactionalWriter(settings(kafka, query)), query, 0, more=1)


def test_a_start_does_not_take_over_the_ledger_of_another_checkpoint(kafka, query):
    """It was overtaken since it has looked. Otherwise the other one could not go on with its own ledger."""
    assert written(TransactionalWriter(replace(settings(kafka, query), bucket=None)), query, 0)
    before = ledger.read_position(kafka, query)
    with pytest.raises(LedgerError, match="belongs to the checkpoint checkpoint-1, this checkpoint is checkpoint-2"):
        ledger.take_over(kafka, query, "checkpoint-2", SECOND, 2)
    assert ledger.read_position(kafka, query) == before


def test_a_start_finds_the_plan_of_a_batch_that_is_in_parts(kafka, query):
    written(TransactionalWriter(settings(kafka, query, bucket=1)), query, 0)
    parts = ledger.fenced_parts(kafka, query, 2)
    entry = ledger.entry_in_parts(kafka, query, MINE, 0, parts)
    assert (entry.planned, entry.buckets, entry.parted) == (planned_for(0), 2, ("raw", "sums"))
    assert ledger.entry_in_parts(kafka, query, MINE, 1, parts) is None, "the batch is closed"
    assert ledger.entry_in_parts(kafka, query, "another checkpoint", 0, parts) is None
    entry = ledger.first_part(kafka, query, fenced=True)
    assert (entry.query_id, entry.fingerprint, entry.buckets, entry.planned) == (MINE, "shape", 2, planned_for(0))
    assert ledger.plans(kafka, query, MINE) == {-1: Planned(0, {("in", 0): 0}, 0)}


def test_a_start_does_not_wait_for_a_first_batch_that_a_killed_process_has_left_open(kafka, query):
    """Brokers abort its transactions after a minute, and after 15 if the batch is large; the start ends them itself."""
    written(TransactionalWriter(settings(kafka, query, bucket=1)), query, 0)
    for name in (query, ledger.part_of(query, 0)):
        killed = Producer(kafka | {"transactional.id": ledger.transactional_id_of(name)})
        killed.init_transactions()
        killed.begin_transaction()
        killed.produce(ledger.TOPIC, b"{}", b"unfinished")
        killed.flush()
        offset, group = ledger.offset_after(0, MINE, planned_for(0)), ledger.group_member(kafka, name)
        killed.send_offsets_to_transaction([offset], group.consumer_group_metadata())
    began = time.monotonic()
    assert ledger.first_part(kafka, query, fenced=False).query_id == MINE
    assert [part and part.next_batch for part in ledger.part_positions(kafka, query, 2)] == [None, 1]
    assert time.monotonic() - began < 20
    ledger.fenced_parts(kafka, query, 2)
    ledger.reset_parts(kafka, query, 2)
    assert time.monotonic() - began < 40


def test_a_part_ahead_of_the_ledger_by_more_than_one_batch_is_refused(kafka, query):
    written(TransactionalWriter(settings(kafka, query)), query, 5)
    with pytest.raises(LedgerError, match="bucket 0 has written batch 5 already"):
        ledger.entry_in_parts(kafka, query, MINE, 3, ledger.fenced_parts(kafka, query, 1))


def test_a_reset_forgets_the_parts_also_of_buckets_that_the_checkpoint_has_not(kafka, query):
    """It is a copy from before the number of buckets was raised to two."""
    for bucket in (0, 1):
        written(TransactionalWriter(settings(kafka, query, bucket=bucket)), query, 5)
    ledger.reset_parts(kafka, query, 1)
    for bucket in (0, 1):
        assert written(TransactionalWriter(settings(kafka, query, bucket=bucket)), query, 2)


def test_a_start_that_has_fewer_buckets_fences_all_that_may_have_written(kafka, query):
    """It does not know of them: its checkpoint is lost, or a copy from before their number was raised."""
    assert ledger.take_over(kafka, query, MINE, SECOND, 1) == 2
    assert ledger.take_over(kafka, query, MINE, FIRST, 3) == 3
    three = replace(settings(kafka, query, bucket=2), made_for=("shape", 3, ()))
    assert written(TransactionalWriter(three), query, 0)
    most = ledger.take_over(kafka, query, MINE, SECOND, 1)
    assert ledger.entry_in_parts(kafka, query, MINE, 0, ledger.fenced_parts(kafka, query, most)).buckets == 3


def test_a_closed_batch_notes_the_buckets_of_the_start_that_closed_it(kafka, query):
    """So a number that was lowered does not stay the larger one for ever."""
    ledger.take_over(kafka, query, MINE, SECOND, 7)
    whole = replace(settings(kafka, query, SECOND), bucket=None)
    assert TransactionalWriter(whole).write(0, [], Report(), planned=planned_for(0))
    assert ledger.noted_buckets(kafka, query) == 2


def test_without_its_group_the_topic_shows_that_buckets_have_begun_the_next_batch(kafka, query):
    """As after seven days, in which Kafka deletes the offsets of groups."""
    whole = replace(settings(kafka, query), bucket=None)
    TransactionalWriter(whole).write(0, [], Report(), planned=planned_for(0), before=Planned(0, {("in", 0): 0}, 0))
    delete_group(kafka, query)
    assert ledger.read_position(kafka, query) == (1, MINE, planned_for(0).digest, "", 0)
    ledger.take_over(kafka, query, MINE, FIRST, 2)
    written(TransactionalWriter(settings(kafka, query, bucket=1)), query, 1)
    delete_group(kafka, query)
    assert ledger.read_position(kafka, query) == (1, MINE, planned_for(0).digest, ledger.UNKNOWN, 2)


def test_the_driver_keeps_the_owner_and_its_position(kafka, query):
    whole = WriterSettings(tuple(kafka.items()), query, MINE, start=FIRST, parted=PARTED, made_for=("shape", 2, ()))
    TransactionalWriter(whole).write(0, [], Report(), planned=planned_for(0))
    assert ledger.read_position(kafka, query) == (1, MINE, planned_for(0).digest, FIRST, 2)
    ledger.take_over(kafka, query, MINE, SECOND, 2)
    assert ledger.read_position(kafka, query) == (1, MINE, planned_for(0).digest, SECOND, 2)
    assert ledger.owner(kafka, query) == (MINE, SECOND)


def test_a_driver_that_another_start_has_replaced_does_not_open_again(kafka, query):
    """The other start has closed the same batch with the same plan, so the position of the ledger does not show it."""

    def driver(start):
        return TransactionalWriter(WriterSettings(tuple(kafka.items()), query, MINE, start=start, parted=PARTED))

    old, new = driver(FIRST), driver(SECOND)
    assert old.write(0, [], Report(), planned=planned_for(0))
    old.close()  # as after a slow commit
    ledger.take_over(kafka, query, MINE, SECOND, 2)
    assert new.write(1, [], Report(), planned=planned_for(1))
    with pytest.raises(TakenOverError, match=r"cannot write batch 1 of .*another instance .* has started"):
        old.write(1, [], Report(), planned=planned_for(1))
    assert new.write(2, [], Report(), planned=planned_for(2)), "the old one has not fenced it"


def test_one_writer_ends_the_ownership(kafka, query):
    one = WriterSettings(tuple(kafka.items()), query, MINE, start=FIRST)
    TransactionalWriter(one).write(0, [], Report(), planned=planned_for(0))
    assert ledger.read_position(kafka, query) == (1, MINE, planned_for(0).digest, "", 0)
    assert ledger.owner(kafka, query) == ("", "")
