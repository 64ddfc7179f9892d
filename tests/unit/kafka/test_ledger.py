"""Which pairs of checkpoint and ledger may start, and how the ledger is followed and reset."""

from __future__ import annotations

import json
import queue
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Planned, Report
from sluice.kafka.batch_writer import TransactionalWriter, WriterSettings
from sluice.kafka.kafka_errors import LedgerError, UnavailableError
from sluice.kafka.ledger_follower import Follower

pytestmark = pytest.mark.kafka
MINE, OTHER = "checkpoint-1", "checkpoint-2"


def write(kafka, query, *batches, query_id=MINE):
    """The writer of these batches, which the broker has marked as committed: it answers a commit before."""
    one = TransactionalWriter(WriterSettings(tuple(kafka.items()), query, query_id))
    for batch in batches:
        one.write(batch, [], Report(written={"out": {"tuple": batch}}), planned=planned_for(batch))
    ledger.read_position(kafka, query)  # waits for the outcome of a transaction that ends
    return one


def planned_for(batch, offset=0):
    """What a batch reads; `offset`: of another copy of the checkpoint, other offsets."""
    return Planned(1_700_000_000_000_000_000 + batch, {("in", 0): batch + offset, ("in", 10): 5}, 99)


def fits(kafka, query, query_id, committed, planned, *, parted=None):
    """As a start asks the ledger. `parted`: the batch that the checkpoint has planned otherwise."""
    known = [] if planned is None else range(planned + 1)

    def digest_of(batch):
        return planned_for(batch, int(batch == parted)).digest if batch in known else None

    ledger.require_same_checkpoint(ledger.read_position(kafka, query, "read_uncommitted"), query, query_id, committed)
    ledger.end_open_transaction(kafka, query)
    position = ledger.read_position(kafka, query)
    return position is None or ledger.fits(position, committed, planned, digest_of=digest_of)


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
    assert fits(kafka, topic, MINE, committed, planned)


@pytest.mark.parametrize("planned", [None, 0])
def test_a_checkpoint_without_a_committed_batch_needs_no_ledger(kafka, topic, planned):
    assert fits(kafka, topic, MINE, None, planned)


def test_the_checkpoint_of_another_pipeline_is_refused_with_advice(kafka, topic):
    write(kafka, topic, 0, 1)
    with pytest.raises(
        LedgerError, match="belongs to the checkpoint checkpoint-1, this checkpoint is checkpoint-2"
    ) as refused:
        fits(kafka, topic, OTHER, 1, 1)
    assert "--reset-ledger" in str(refused.value)


@pytest.mark.parametrize(
    ("committed", "planned"),
    [pytest.param(None, None, id="the logs are lost"), pytest.param(0, 0, id="older"), pytest.param(4, 5, id="newer")],
)
def test_a_checkpoint_that_is_not_at_the_ledgers_batch_does_not_fit(kafka, topic, committed, planned):
    write(kafka, topic, 0, 1)
    assert not fits(kafka, topic, MINE, committed, planned)


@pytest.mark.parametrize(
    ("committed", "planned"),
    [
        pytest.param(0, 1, id="an older copy, whose next batch was planned and not written"),
        pytest.param(1, 1, id="a copy that was as far"),
        pytest.param(1, 2, id="a newer copy"),
    ],
)
def test_a_copy_that_has_parted_does_not_fit(kafka, topic, committed, planned):
    """The numbers fit; what the last batch read does not."""
    write(kafka, topic, 0, 1)
    assert not fits(kafka, topic, MINE, committed, planned, parted=1)


def test_the_topic_tells_too_where_the_group_is_gone(kafka, topic):
    write(kafka, topic, 0, 1)
    client = AdminClient(kafka)
    client.delete_consumer_groups([ledger.group_of(topic)])[ledger.group_of(topic)].result()
    assert fits(kafka, topic, MINE, 0, 1)
    assert not fits(kafka, topic, MINE, 0, 1, parted=1)


def test_a_ledger_of_an_earlier_version_says_nothing_about_what_was_read(kafka, topic):
    TransactionalWriter(WriterSettings(tuple(kafka.items()), topic, MINE)).write(0, [], Report())
    assert ledger.read_position(kafka, topic)[:3] == (1, MINE, "")
    assert fits(kafka, topic, MINE, 0, 0)


def test_after_a_reset_the_ledger_has_what_the_checkpoint_planned(kafka, topic):
    write(kafka, topic, 0, 1)
    ledger.reset(kafka, topic, MINE, 1, planned_for(1, 1))
    assert fits(kafka, topic, MINE, 1, 1, parted=1)


def test_a_used_checkpoint_without_a_ledger_is_refused(kafka, topic):
    with pytest.raises(LedgerError, match="is at batch 3, but Kafka has no ledger of it"):
        fits(kafka, topic, MINE, 3, 3)


def test_a_refused_start_leaves_the_running_instance_alone(kafka, topic):
    running = write(kafka, topic, 0)
    with pytest.raises(LedgerError):
        fits(kafka, topic, OTHER, None, None)
    assert running.write(1, [], Report())


def test_a_start_ends_the_transaction_of_a_killed_process_at_once(kafka, topic):
    """Otherwise readers would wait for its timeout, a minute."""
    write(kafka, topic, 0)
    killed = Producer(kafka | {"transactional.id": ledger.transactional_id_of(topic)})
    killed.init_transactions()
    killed.begin_transaction()
    place = ledger.offset_after(7, MINE, planned_for(7))
    killed.send_offsets_to_transaction([place], ledger.group_member(kafka, topic).consumer_group_metadata())
    assert fits(kafka, topic, MINE, 0, 1)
    assert ledger.read_position(kafka, topic)[:3] == (1, MINE, planned_for(0).digest)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(lambda *of: list(ledger.plans(*of, MINE)), [0, 1], id="plans"),
        pytest.param(lambda *of: ledger.last_entry(*of).batch, 1, id="last entry"),
    ],
)
def test_a_start_reads_the_ledger_behind_which_a_killed_process_left_a_transaction_open(kafka, topic, read, expected):
    """The next start ends that transaction, but only after it has read the ledger."""
    write(kafka, topic, 0, 1)
    open_for_long = {"transaction.timeout.ms": 600_000}
    killed = Producer(kafka | open_for_long | {"transactional.id": ledger.transactional_id_of(topic)})
    killed.init_transactions()
    killed.begin_transaction()
    killed.produce(ledger.TOPIC, b"{}", topic, ledger.PARTITION)
    place = ledger.offset_after(2, MINE, planned_for(2))
    killed.send_offsets_to_transaction([place], ledger.group_member(kafka, topic).consumer_group_metadata())
    killed.flush(10)
    assert read(kafka, topic) == expected
    killed.abort_transaction(10)


@pytest.mark.parametrize("committed", [None, 0, 5])
def test_after_a_reset_the_checkpoint_may_start(kafka, topic, committed):
    write(kafka, topic, 0, 1)
    ledger.reset(kafka, topic, OTHER, committed)
    assert fits(kafka, topic, OTHER, committed, committed)
    one = write(kafka, topic, 0 if committed is None else committed + 1, query_id=OTHER)
    assert one.write(1 if committed is None else committed + 2, [], Report())


def test_the_topic_has_the_plans_of_past_batches(kafka, topic):
    """Of this query and checkpoint; with the position before batch 0."""
    before = Planned(0, {("in", 0): 3}, 0)
    one = TransactionalWriter(WriterSettings(tuple(kafka.items()), topic, MINE))
    one.write(0, [], Report(), planned=planned_for(0), before=before)
    write(kafka, f"{topic}-other", 0)
    one.write(1, [], Report(), planned=planned_for(1))
    assert ledger.plans(kafka, topic, MINE) == {-1: before, 0: planned_for(0), 1: planned_for(1)}
    assert ledger.plans(kafka, topic, OTHER) == {}


@pytest.fixture
def other(kafka, name):
    """A pipeline whose transaction stays open behind its entry in the ledger."""
    producer = Producer(kafka | {"transactional.id": f"{name}-other"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(ledger.TOPIC, b"{}", f"{name}-other", 0)
    producer.flush(10)
    return producer


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(lambda *of: list(ledger.plans(*of, MINE)), [0, 1, 2], id="plans"),
        pytest.param(lambda *of: ledger.last_entry(*of).batch, 2, id="last entry"),
    ],
)
def test_what_an_open_transaction_of_another_pipeline_hides_is_awaited(  # noqa: PLR0917 - fixtures and a case
    kafka, topic, monkeypatch, other, read, expected
):
    """The group has the position, so it is known that there is more."""
    write(kafka, topic, 0, 1, 2)
    group_offset = ledger._group_offset  # noqa: SLF001
    monkeypatch.setattr(ledger, "_group_offset", lambda *of: [group_offset(*of), other.abort_transaction(10)][0])
    assert read(kafka, topic) == expected


def test_a_transaction_of_another_pipeline_that_does_not_end_is_an_error(kafka, topic, monkeypatch, other):
    write(kafka, topic, 0)
    monkeypatch.setattr(ledger, "OPEN_S", 0.0)
    with pytest.raises(UnavailableError, match=r"a transaction of another pipeline in topic sluice\.ledger is open"):
        ledger.plans(kafka, topic, MINE)
    other.abort_transaction(10)
    assert list(ledger.plans(kafka, topic, MINE)) == [0]


def test_nothing_is_awaited_if_nothing_is_hidden(kafka, topic, other):
    assert ledger.plans(kafka, topic, MINE) == {}
    other.abort_transaction(10)


def test_the_topic_forgets_the_plans_that_are_too_old(kafka, topic):
    one = TransactionalWriter(WriterSettings(tuple(kafka.items()), topic, MINE, keep=2))
    for batch in range(5):
        one.write(batch, [], Report(), planned=planned_for(batch), before=planned_for(-1) if batch == 0 else None)
    assert sorted(ledger.plans(kafka, topic, MINE)) == [2, 3, 4]


def test_a_reset_forgets_the_plans(kafka, topic):
    write(kafka, topic, 0, 1)
    ledger.reset(kafka, topic, OTHER, None)
    assert ledger.plans(kafka, topic, MINE) == {}


def test_after_a_reset_the_topic_has_the_plan_of_the_batch_at_which_the_checkpoint_is(kafka, topic):
    """With it, the checkpoint in the folder can get another number of buckets."""
    write(kafka, topic, 0, 1)
    ledger.reset(kafka, topic, OTHER, 7, planned_for(7))
    assert ledger.plans(kafka, topic, OTHER) == {7: planned_for(7)}
    assert ledger.plans(kafka, topic, MINE) == {}


def test_more_plans_than_the_queue_of_the_client_takes_are_forgotten(kafka, topic):
    crowded = kafka | {"queue.buffering.max.messages": "10"}
    many = {batch: planned_for(batch) for batch in range(200)}
    producer = Producer(kafka)
    for value, key in ledger.plan_records(topic, MINE, many):
        producer.produce(ledger.TOPIC, value, key, ledger.PARTITION)
    producer.flush()
    ledger.remove_plans(crowded, topic, MINE, range(100))
    assert ledger.plans(kafka, topic, MINE).keys() == set(range(100, 200))
    ledger.reset(crowded, topic, OTHER, None)
    assert ledger.plans(kafka, topic, MINE) == {}


def test_a_changed_pipeline_begins_with_a_batch_of_its_own(kafka, topic):
    """The batches before it are forgotten, so no earlier state is used. Writing it again changes nothing."""
    write(kafka, topic, 0, 1)
    entry = Entry(topic, MINE, 2, 1_700_000_000_000, 0, Report(), planned=planned_for(2), fingerprint="new", buckets=2)
    for _ in range(2):
        ledger.begin_anew(kafka, entry)
        assert ledger.read_position(kafka, topic)[:3] == (3, MINE, planned_for(2).digest)
        assert ledger.plans(kafka, topic, MINE) == {2: planned_for(2)}
        assert ledger.last_entry(kafka, topic) == entry
    assert write(kafka, topic, 3).write(4, [], Report(), planned=planned_for(4))


def test_a_changed_pipeline_does_not_begin_over_a_batch_that_was_written_before_its_writer_was_fenced(
    kafka, topic, monkeypatch
):
    """An instance that still runs commits between the first look at the ledger and the fencing."""
    zombie = write(kafka, topic, 0, 1)
    entry = Entry(topic, MINE, 2, 1_700_000_000_000, 0, Report(), planned=planned_for(2), fingerprint="new", buckets=2)
    member = ledger.group_member

    def late(*arguments):
        zombie.write(2, [], Report(), planned=planned_for(2, offset=7))
        return member(*arguments)

    monkeypatch.setattr(ledger, "group_member", late)
    with pytest.raises(LedgerError, match="another instance has gone on meanwhile"):
        ledger.begin_anew(kafka, entry)
    monkeypatch.undo()
    assert ledger.read_position(kafka, topic)[:3] == (3, MINE, planned_for(2, offset=7).digest)


@pytest.mark.parametrize("to", [1, 2, 40], ids=["back", "to where it was", "too far"])
def test_a_group_that_was_reset_is_no_group(kafka, topic, to):
    """Kafka's tool for offsets commits them without metadata. The entry in the topic says where the ledger is."""
    write(kafka, topic, 0, 1)
    with closing(ledger.group_member(kafka, topic)) as member:
        member.commit(offsets=[TopicPartition(ledger.TOPIC, ledger.PARTITION, to)], asynchronous=False)
    assert ledger.read_position(kafka, topic)[:3] == (2, MINE, planned_for(1).digest)
    assert fits(kafka, topic, MINE, 1, 1)
    assert write(kafka, topic, 2)
    assert ledger.read_position(kafka, topic)[:3] == (3, MINE, planned_for(2).digest)


def test_an_entry_names_the_pipeline_for_which_the_checkpoint_was_made(kafka, topic):
    made_for = ("digest", 3, (("in", "id of in"),))
    one = TransactionalWriter(WriterSettings(tuple(kafka.items()), topic, MINE, made_for=made_for))
    one.write(0, [], Report())
    entry = ledger.last_entry(kafka, topic)
    assert (entry.query_id, entry.fingerprint, entry.buckets) == (MINE, "digest", 3)
    assert entry.topics == {"in": "id of in"}


def test_a_follower_hears_what_is_written_from_now_on(kafka, topic):
    entries: queue.Queue[Entry] = queue.Queue()
    one = write(kafka, topic, 0)
    while ledger.last_entry(kafka, topic) is None:  # a batch is visible a moment after its commit
        pass
    with Follower(kafka, topic, entries.put):
        write(kafka, f"{topic}-other", 0)
        one.write(1, [], Report(written={"out": {"tuple": 1}}))
        entry = entries.get(timeout=20)
    assert (entry.query, entry.query_id, entry.batch, entry.report.written) == (topic, MINE, 1, {"out": {"tuple": 1}})
    assert entries.empty()


def test_an_entry_reads_back_as_it_was_written():
    report = Report({"in": {"tuple": 1, "window": 2}}, {"out": {"tuple": 3}}, {"in": {"not JSON": 4}})
    entry = Entry("größe", "id", 7, 1_700_000_000_000, 1, report)
    assert Entry.from_json(entry.to_json()) == entry
    whole = replace(entry, planned=planned_for(7))
    assert Entry.from_json(whole.to_json()) == whole


def test_an_entry_of_an_earlier_version_can_be_read():
    fields = json.loads(Entry("q", "id", 7, 1, 1, Report()).to_json())
    del fields["planned"]
    assert Entry.from_json(json.dumps(fields).encode()).planned is None


def test_an_entry_of_a_newer_version_is_read_without_the_fields_that_are_not_known():
    """After a return to this version, the last entry of the topic is one of the newer version."""
    entry = Entry("q", "id", 7, 1, 1, Report(read={"in": {"tuple": 1}}), planned=planned_for(7))
    fields = json.loads(entry.to_json())
    fields["region"] = "north"
    fields["report"]["retries"] = {"out": 3}
    fields["planned"]["lease"] = 5
    assert Entry.from_json(json.dumps(fields).encode()) == entry
    assert Report.from_json(json.dumps(fields["report"]).encode()) == entry.report


def test_a_digest_depends_on_all_that_enters_a_batch_and_on_nothing_else():
    one = Planned(1, {("a", 0): 1, ("b", 0): 2}, 3)
    assert one.digest == Planned(1, {("b", 0): 2, ("a", 0): 1}, 3).digest == Planned.of_fields(one.to_fields()).digest
    others = [
        one._replace(time=2), one._replace(idle_clock=4), one._replace(offsets={("a", 0): 1, ("b", 1): 2}),
        one._replace(offsets={("a", 0): 1, ("b", 0): 3}), one._replace(offsets={("a", 0): 1}),
    ]  # fmt: skip
    assert len({one.digest, *(other.digest for other in others)}) == 6


def test_reports_add_up():
    report = Report(read={"a": {"tuple": 1}})
    report.add(Report(read={"a": {"tuple": 2, "window": 1}, "b": {"tuple": 3}}, dead_letters={"a": {"not JSON": 1}}))
    read = {"a": {"tuple": 3, "window": 1}, "b": {"tuple": 3}}
    assert report == Report(read=read, dead_letters={"a": {"not JSON": 1}})


def test_the_ledger_is_read_from_its_first_record_also_if_earlier_ones_were_deleted(kafka, topic, monkeypatch):
    monkeypatch.setattr(ledger, "TOPIC", topic)
    admin, producer = AdminClient(kafka), Producer(kafka)
    for batch in range(3):
        entry = Entry("query", MINE, batch, 0, 0, Report())
        producer.produce(topic, entry.to_json(), b"query", ledger.PARTITION)
    producer.flush()
    place = TopicPartition(topic, ledger.PARTITION, 2)
    admin.delete_records([place])[place].result()
    assert ledger.last_entry(kafka, "query").batch == 2
