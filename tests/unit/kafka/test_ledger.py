"""Which pairs of checkpoint and ledger may start, and how the ledger is followed and reset."""

from __future__ import annotations

import queue

import pytest
from confluent_kafka import Producer

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Report
from sluice.kafka.kafka_errors import LedgerError
from sluice.kafka.ledger_follower import Follower
from sluice.kafka.transactions import TransactionalWriter, WriterSettings

pytestmark = pytest.mark.kafka
MINE, OTHER = "checkpoint-1", "checkpoint-2"


def write(kafka, query, *batches, query_id=MINE):
    one = TransactionalWriter(WriterSettings(tuple(kafka.items()), query, query_id))
    for batch in batches:
        one.write(batch, [], Report(written={"out": {"tuple": batch}}))
    return one


@pytest.mark.parametrize(
    ("committed", "planned"),
    [
        pytest.param(1, 1, id="both logs are complete"),
        pytest.param(1, 2, id="a batch was planned, not written"),
        pytest.param(0, 1, id="a batch was written, not committed in the checkpoint"),
    ],
)
def test_a_checkpoint_that_fits_may_start(kafka, topic, committed, planned):
    write(kafka, topic, 0, 1)
    ledger.verify(kafka, topic, MINE, committed, planned)


@pytest.mark.parametrize("planned", [None, 0])
def test_a_checkpoint_without_a_committed_batch_needs_no_ledger(kafka, topic, planned):
    ledger.verify(kafka, topic, MINE, None, planned)


@pytest.mark.parametrize(
    ("query_id", "logs", "message"),
    [
        pytest.param(OTHER, (None, None), r"2 batches were written, but the checkpoint is new", id="new"),
        pytest.param(
            OTHER, (1, 1), "belongs to the checkpoint checkpoint-1, this checkpoint is checkpoint-2", id="foreign"
        ),
        pytest.param(MINE, (0, 0), "batch 2 is next, the checkpoint says 1: one of them is an older copy", id="older"),
        pytest.param(MINE, (4, 5), "batch 2 is next, the checkpoint says 5 or 6: one of them", id="newer"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_with_advice(kafka, topic, query_id, logs, message):
    write(kafka, topic, 0, 1)
    with pytest.raises(LedgerError, match=message) as refused:
        ledger.verify(kafka, topic, query_id, *logs)
    assert "--reset-ledger" in str(refused.value)


def test_a_used_checkpoint_without_a_ledger_is_refused(kafka, topic):
    with pytest.raises(LedgerError, match="is at batch 3, but Kafka has no ledger of it"):
        ledger.verify(kafka, topic, MINE, 3, 3)


def test_a_refused_start_leaves_the_running_instance_alone(kafka, topic):
    running = write(kafka, topic, 0)
    with pytest.raises(LedgerError):
        ledger.verify(kafka, topic, OTHER, None, None)
    assert running.write(1, [], Report())


def test_a_start_ends_the_transaction_of_a_killed_process_at_once(kafka, topic):
    """Otherwise readers would wait for its timeout, a minute."""
    write(kafka, topic, 0)
    killed = Producer(kafka | {"transactional.id": ledger.transactional_id_of(topic)})
    killed.init_transactions()
    killed.begin_transaction()
    place = ledger.place_after(7, MINE)
    killed.send_offsets_to_transaction([place], ledger.group_member(kafka, topic).consumer_group_metadata())
    ledger.verify(kafka, topic, MINE, 0, 1)
    assert ledger.read_stand(kafka, topic) == (1, MINE)


@pytest.mark.parametrize("committed", [None, 0, 5])
def test_after_a_reset_the_checkpoint_may_start(kafka, topic, committed):
    write(kafka, topic, 0, 1)
    ledger.reset(kafka, topic, OTHER, committed)
    ledger.verify(kafka, topic, OTHER, committed, committed)
    one = write(kafka, topic, 0 if committed is None else committed + 1, query_id=OTHER)
    assert one.write(1 if committed is None else committed + 2, [], Report())


def test_a_follower_hears_what_is_written_from_now_on(kafka, topic):
    heard: queue.Queue[Entry] = queue.Queue()
    one = write(kafka, topic, 0)
    while ledger.last_entry(kafka, topic) is None:  # a batch is visible a moment after its commit
        pass
    with Follower(kafka, topic, heard.put):
        write(kafka, f"{topic}-other", 0)
        one.write(1, [], Report(written={"out": {"tuple": 1}}))
        entry = heard.get(timeout=20)
    assert (entry.query, entry.query_id, entry.batch, entry.report.written) == (topic, MINE, 1, {"out": {"tuple": 1}})
    assert heard.empty()


def test_an_entry_reads_back_as_it_was_written():
    report = Report({"in": {"tuple": 1, "window": 2}}, {"out": {"tuple": 3}}, {"in": {"not JSON": 4}})
    entry = Entry("größe", "id", 7, 1_700_000_000_000, 1, report)
    assert Entry.from_json(entry.to_json()) == entry


def test_reports_add_up():
    report = Report(read={"a": {"tuple": 1}})
    report.add(Report(read={"a": {"tuple": 2, "window": 1}, "b": {"tuple": 3}}, dead_letters={"a": {"not JSON": 1}}))
    assert report == Report({"a": {"tuple": 3, "window": 1}, "b": {"tuple": 3}}, {}, {"a": {"not JSON": 1}})
