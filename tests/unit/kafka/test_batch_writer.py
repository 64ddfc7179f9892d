from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from sluice.files import project_file
from sluice.kafka import batch_producers, batch_writer, ledger
from sluice.kafka.batch_producers import TimeLimits
from sluice.kafka.batch_report import Entry, Planned, Report
from sluice.kafka.batch_writer import TransactionalWriter, WriterSettings, writer
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.kafka_errors import ExpiredError, FencedError, LedgerError, UnavailableError, WriteError
from sluice.kafka.records import records, unpack
from sluice.kafka.topics import create
from tests.unit.kafka.broker_tools import visible

pytestmark = pytest.mark.kafka
ROOT = project_file("service").parent


def settings(kafka, query, query_id="checkpoint-1", **more):
    return WriterSettings(tuple(kafka.items()), query, query_id, **more)


def values(topic, *texts, partition=0):
    """Records without keys in one topic partition."""
    count = len(texts)
    texts = pa.array([text.encode() for text in texts], pa.binary())
    return records(topic, texts, pa.nulls(count, pa.binary()), np.full(count, partition), np.zeros(count, np.int64))


def texts(messages):
    return [message.value().decode() for message in messages]


@pytest.fixture(params=["exactly_once", "at_least_once"])
def delivery(request):
    return request.param


def test_a_batch_arrives_with_keys_partitions_times_and_headers_in_order(kafka, topic, read, delivery):
    batch = records(
        topic,
        pa.array([b"a", b"b", None, b""], pa.binary()),
        pa.array([b"k", None, b"k", b""], pa.binary()),
        np.array([1, 0, 1, 1]),
        np.array([1000, 2000, 3000, 4102444800000]),
        [None, None, [("sluice-mark", b"window")], [("x", None), ("x", b"\x00")]],
    )
    assert TransactionalWriter(settings(kafka, topic, delivery=delivery)).write(0, [unpack(batch.pack())], Report())
    rows = [(m.value(), m.key(), m.timestamp()[1], m.headers()) for m in read(topic, 1)]
    assert rows == [
        (b"a", b"k", 1000, None),
        (None, b"k", 3000, [("sluice-mark", b"window")]),
        (b"", b"", 4102444800000, [("x", None), ("x", b"\x00")]),
    ]
    assert [(m.value(), m.key()) for m in read(topic, 0)] == [(b"b", None)]


def test_a_batch_that_the_ledger_has_is_skipped(kafka, topic, read, delivery):
    first = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    assert first.write(0, [values(topic, "a")], Report())
    assert not first.write(0, [values(topic, "a")], Report())
    second = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    assert not second.write(0, [values(topic, "a")], Report())
    assert second.write(1, [values(topic, "b")], Report())
    assert texts(read(topic)) == ["a", "b"]


def test_each_batch_leaves_an_entry_with_its_counts(kafka, topic, read):
    report = Report(read={"in": {"tuple": 3}}, written={"out": {"tuple": 2}}, dead_letters={"in": {"not JSON": 1}})
    one = TransactionalWriter(settings(kafka, topic))
    one.write(0, [values(topic, "a")], report)
    one.write(0, [values(topic, "a")], report)
    one.write(1, [], Report())
    entries = [Entry.from_json(m.value()) for m in read(ledger.TOPIC) if m.key() == topic.encode()]
    assert [(entry.batch, entry.skipped, entry.report) for entry in entries] == [(0, 0, report), (1, 1, Report())]
    assert all(entry.at - 60_000 < entry.began <= entry.at for entry in entries)


def test_a_batch_that_fails_leaves_nothing_and_can_be_written_again(kafka, topic, read):
    def failing():
        yield values(topic, "a")
        raise ZeroDivisionError

    one = TransactionalWriter(settings(kafka, topic))
    with pytest.raises(ZeroDivisionError):
        one.write(0, failing(), Report())
    assert texts(read(topic)) == []
    assert one.write(0, [values(topic, "a", "b")], Report())
    assert texts(read(topic)) == ["a", "b"]


def test_a_writer_that_is_killed_leaves_nothing_and_its_successor_continues(kafka, topic, read):
    killed = """
        import os, signal, sys
        from tests.unit.kafka.test_batch_writer import settings, values
        from sluice.kafka.batch_report import Entry, Report
        from sluice.kafka.batch_writer import TransactionalWriter

        def dying():
            yield values(TOPIC, "doomed")
            one._producer.client.flush(30)
            os.kill(os.getpid(), signal.SIGKILL)

        one = TransactionalWriter(settings(KAFKA, TOPIC))
        one.write(0, [values(TOPIC, "a")], Report())
        one.write(1, dying(), Report())
    """
    program = f"KAFKA, TOPIC = {kafka!r}, {topic!r}\n" + textwrap.dedent(killed)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    one = TransactionalWriter(settings(kafka, topic))
    assert not one.write(0, [values(topic, "a")], Report())
    assert one.write(1, [values(topic, "b")], Report())
    assert texts(read(topic)) == ["a", "b"]


def test_a_second_instance_shuts_out_the_first(kafka, topic, read):
    first, second = (TransactionalWriter(settings(kafka, topic)) for _ in range(2))
    first.write(0, [values(topic, "a")], Report())
    assert second.write(1, [values(topic, "b")], Report())
    with pytest.raises(FencedError, match="another instance of this pipeline has started"):
        first.write(1, [values(topic, "b")], Report())
    assert texts(read(topic)) == ["a", "b"]


def test_a_second_instance_that_starts_between_two_records_shuts_out_the_first(kafka, topic, read):
    """The client then refuses the second record with an error that does not name the reason."""
    first, second = (TransactionalWriter(settings(kafka, topic)) for _ in range(2))
    first.write(0, [values(topic, "a")], Report())

    def overtaken():
        yield values(topic, "b")
        assert second.write(1, [values(topic, "b")], Report())
        assert refusal(first, topic).code() == KafkaError._FATAL  # noqa: SLF001
        yield values(topic, "c")

    with pytest.raises(FencedError, match="another instance of this pipeline has started"):
        first.write(1, overtaken(), Report())
    assert texts(read(topic)) == ["a", "b"]


def refusal(writer, topic):
    """Produces records until the client refuses one, without a poll; the error then."""
    while True:
        try:
            writer._producer.client.produce(topic, b"x")  # noqa: SLF001
        except KafkaException as error:
            return error.args[0]
        time.sleep(0.01)


def test_a_writer_that_was_opened_early_writes_the_batch_with_that_producer(kafka, topic, read, delivery):
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    one.open(0)
    opened = one._producer  # noqa: SLF001
    assert one.write(0, [values(topic, "a")], Report())
    assert one._producer is opened  # noqa: SLF001
    assert texts(read(topic)) == ["a"]


def test_what_prevents_an_early_opening_is_left_to_the_batch(kafka, topic, read):
    one = TransactionalWriter(settings(kafka, topic))
    one.open(5)  # for which there must be a ledger
    assert one.write(0, [values(topic, "a")], Report())
    assert texts(read(topic)) == ["a"]


@pytest.fixture(scope="module")
def impatient():
    """The `kafka:` block of a broker that soon aborts transactions that are open for two seconds, with the ledger."""
    with EmbeddedBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap}
        create(kafka, NewTopic(ledger.TOPIC, 1))
        yield kafka | {"transaction.timeout.ms": "2000"}


def test_a_transaction_that_the_broker_aborted_is_not_taken_for_another_instance(impatient, create_topic, name):
    create_topic(name, at={"bootstrap.servers": impatient["bootstrap.servers"]})
    one = TransactionalWriter(settings(impatient, name))
    one.write(0, [values(name, "a")], Report())

    def slow():
        yield values(name, "b")
        aborted(impatient, one, name)

    with pytest.raises(ExpiredError, match=r"was open for \d+ seconds, .* aborted it after 2 \(transaction.timeout.ms"):
        one.write(1, slow(), Report())
    assert one.write(1, [values(name, "b")], Report())
    assert texts(visible({"bootstrap.servers": impatient["bootstrap.servers"]}, name)) == ["a", "b"]


def test_an_instance_that_took_over_is_named_however_late_that_is_noticed(impatient, create_topic, name):
    create_topic(name, at={"bootstrap.servers": impatient["bootstrap.servers"]})
    one, other = (TransactionalWriter(settings(impatient, name)) for _ in range(2))
    one.write(0, [values(name, "a")], Report())

    def overtaken():
        yield values(name, "b")
        aborted(impatient, one, name)
        assert other.write(1, [values(name, "b")], Report())

    with pytest.raises(FencedError, match="another instance of this pipeline has started"):
        one.write(1, overtaken(), Report())
    assert texts(visible({"bootstrap.servers": impatient["bootstrap.servers"]}, name)) == ["a", "b"]


def aborted(kafka, writer, topic):
    """Waits until the broker has aborted the writer's transaction: then a committed reader gets past its records."""
    writer._producer.client.flush(30)  # noqa: SLF001
    client = AdminClient({"bootstrap.servers": kafka["bootstrap.servers"]})
    deadline = time.monotonic() + 30
    place = TopicPartition(topic, 0)

    def end(isolation):
        (found,) = client.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation).values()
        return found.result().offset

    while end(IsolationLevel.READ_COMMITTED) < end(IsolationLevel.READ_UNCOMMITTED):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_processes_of_one_service_may_take_turns(kafka, topic, read, delivery):
    """Spark hands a batch to any of its idle workers, of which several stages leave several."""
    writers = [TransactionalWriter(settings(kafka, topic, delivery=delivery)) for _ in range(2)]
    for batch, turn in enumerate([0, 1, 0, 0, 1, 1, 0]):
        assert writers[turn].write(batch, [values(topic, str(batch))], Report())
    assert texts(read(topic)) == [str(batch) for batch in range(7)]


@pytest.mark.parametrize("written", [1, 2])
def test_an_instance_that_was_overtaken_does_not_fence_the_one_that_replaced_it(kafka, topic, read, written):
    """It opens a new producer after a failure, while the other one has written so many batches that it planned."""
    first, second = (TransactionalWriter(settings(kafka, topic)) for _ in range(2))
    first.write(0, [values(topic, "0")], Report(), planned=plan(0))
    for batch in range(1, 1 + written):
        assert second.write(batch, [values(topic, str(batch))], Report(), planned=plan(batch))
    first.close()
    with pytest.raises(FencedError, match=rf"batch 1 of .* has written batch {written}; this one must stop"):
        first.write(1, [values(topic, "mine")], Report(), planned=plan(1, end=99))
    assert second.write(1 + written, [values(topic, "go on")], Report(), planned=plan(1 + written))
    assert texts(read(topic)) == [*map(str, range(1 + written)), "go on"]


def test_a_ledger_whose_first_transaction_is_not_marked_yet_is_not_lost(kafka, topic, read, monkeypatch):
    """The brokers answer a commit before they have marked the transaction in all topic partitions."""
    marked = ledger.read_position

    def unmarked(kafka, query, isolation="read_committed"):
        return None if isolation == "read_uncommitted" else marked(kafka, query)

    monkeypatch.setattr(ledger, "read_position", unmarked)
    for batch in range(2):
        one = TransactionalWriter(settings(kafka, topic))
        assert one.write(batch, [values(topic, str(batch))], Report(), planned=plan(batch))
    assert texts(read(topic)) == ["0", "1"]


def test_a_batch_that_this_instance_has_written_is_no_sign_of_another_one(kafka, topic, read):
    """The answer to the commit was lost, and the batch is written again with a new producer."""
    one = TransactionalWriter(settings(kafka, topic))
    one.write(0, [values(topic, "a")], Report(), planned=plan(0))
    one.close()
    assert not one.write(0, [values(topic, "a")], Report(), planned=plan(0))
    assert texts(read(topic)) == ["a"]


def plan(batch, end=60):
    return Planned(batch, {("in", 0): batch * end}, 0)


def test_a_producer_whose_ledger_cannot_be_read_is_closed(monkeypatch):
    closed = []
    positions = iter([None])

    class Opened:
        def __init__(self, *_):
            pass

        def close(self):
            closed.append(self)

    def read_position(*_):
        if (found := next(positions, "gone")) == "gone":
            message = "no broker answers"
            raise UnavailableError(message)
        return found

    monkeypatch.setitem(batch_producers.BATCH_PRODUCERS, "exactly_once", Opened)
    monkeypatch.setattr(ledger, "read_position", read_position)
    with pytest.raises(UnavailableError):
        TransactionalWriter(settings({}, "q")).write(0, [], Report())
    assert len(closed) == 1


def test_a_ledger_of_another_checkpoint_is_refused(kafka, topic, delivery):
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    one.write(0, [], Report())
    with pytest.raises(LedgerError, match="belongs to the checkpoint checkpoint-1, this checkpoint is checkpoint-2"):
        TransactionalWriter(settings(kafka, topic, "checkpoint-2", delivery=delivery)).write(1, [], Report())
    assert one.write(1, [], Report()), "it is not fenced"


def test_a_batch_out_of_line_is_refused(kafka, topic):
    one = TransactionalWriter(settings(kafka, topic))
    one.write(0, [], Report())
    with pytest.raises(LedgerError, match="expects batch 1, Spark hands over 3"):
        one.write(3, [], Report())


@pytest.mark.parametrize("same_writer", [True, False])
def test_a_batch_that_the_ledger_has_with_other_records_is_refused(kafka, topic, read, delivery, same_writer):
    """Two copies of a checkpoint that have planned a batch of one number each."""
    mine, theirs = (Planned(1, {("in", 0): end}, 0) for end in (60, 90))
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    one.write(0, [values(topic, "a")], Report(), planned=theirs)
    other = one if same_writer else TransactionalWriter(settings(kafka, topic, delivery=delivery))
    message = "batch 0 read other records than the checkpoint has planned for batch 0"
    error, text = (LedgerError, message) if same_writer else (FencedError, "another instance .* has written batch 0")
    with pytest.raises(error, match=text):
        other.write(0, [values(topic, "b")], Report(), planned=mine)
    assert not other.write(0, [values(topic, "a")], Report(), planned=theirs)
    assert texts(read(topic)) == ["a"]


def test_a_batch_before_the_last_one_is_refused(kafka, topic, delivery):
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    for batch in range(3):
        one.write(batch, [], Report())
    with pytest.raises(LedgerError, match="has batch 2 already, Spark runs batch 1"):
        one.write(1, [], Report())


def test_an_entry_has_what_the_batch_read(kafka, topic, read):
    planned = Planned(17, {("in", 0): 60, ("in", 1): 0}, 5)
    TransactionalWriter(settings(kafka, topic)).write(0, [], Report(), planned=planned)
    (entry,) = [Entry.from_json(m.value()) for m in read(ledger.TOPIC) if m.key() == topic.encode()]
    assert entry.planned == planned


def test_a_used_checkpoint_without_a_ledger_is_refused(kafka, topic):
    with pytest.raises(LedgerError, match="is at batch 7, but Kafka has no ledger of it"):
        TransactionalWriter(settings(kafka, topic)).write(7, [], Report())


def test_the_topic_tells_where_the_group_is_gone(kafka, topic, read):
    one = TransactionalWriter(settings(kafka, topic))
    one.write(0, [values(topic, "a")], Report())
    one.close()
    forget_group(kafka, topic)
    two = TransactionalWriter(settings(kafka, topic))
    assert not two.write(0, [values(topic, "a")], Report())
    assert two.write(1, [values(topic, "b")], Report())
    assert texts(read(topic)) == ["a", "b"]


def forget_group(kafka, query):
    """What a broker does with a group that was not used for long."""
    client = AdminClient(kafka)
    (future,) = client.delete_consumer_groups([ledger.group_of(query)]).values()
    future.result()


def test_a_record_above_its_topics_limit_is_handed_back_and_the_batch_is_written(kafka, topic, read, delivery):
    handed = []

    def too_large(records, row, limit):
        handed.append((len(records.columns.column("value")[row].as_py()), limit))
        return [values(topic, "dead", partition=1)]

    small = settings(kafka, topic, delivery=delivery, limits=((topic, 2000),))
    batch = [values(topic, "a", "x" * 2000, "b", "y" * 3000, "c")]
    assert TransactionalWriter(small).write(0, batch, Report(), too_large)
    assert texts(read(topic)) == ["a", "b", "c"]
    assert texts(read(topic, 1)) == ["dead", "dead"]
    assert handed == [(2000, 2000), (3000, 2000)]


def test_the_largest_record_below_the_limit_is_written(kafka, create_topic, topic, read):
    """Keys and headers count; what the writer lets through the broker takes."""
    tight, limit = f"{topic}-tight", 5000
    create_topic(tight, **{"max.message.bytes": str(limit)})
    whole = records(tight, pa.array([os.urandom(4000)] * 3, pa.binary()), pa.array([b"k" * 500] * 3, pa.binary()),
                    np.zeros(3), np.zeros(3), [[("h", b"v" * 100)] * 3] * 3)  # fmt: skip
    size = int(whole.sizes()[0])
    assert 4800 < size < limit
    rest = pa.array([os.urandom(4000 + limit - size)] * 3, pa.binary())
    full = records(tight, rest, whole.columns.column("key"), np.zeros(3), np.zeros(3), whole.columns.column("headers"))
    assert full.sizes().tolist() == [limit] * 3
    assert TransactionalWriter(settings(kafka, topic, limits=((tight, limit),))).write(0, [full], Report())
    assert len(read(tight)) == 3


def test_a_record_that_the_broker_refuses_fails_the_batch(kafka, create_topic, topic, read, delivery):
    tight = f"{topic}-tight"
    create_topic(tight, **{"max.message.bytes": "1000"})
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    with pytest.raises(WriteError, match=r"write the batch .*batch 0.*max\.message\.bytes was lowered"):
        one.write(0, [values(tight, os.urandom(2000).hex())], Report())
    assert one.write(0, [], Report()), "the ledger does not have the batch that has failed"
    assert texts(read(tight)) == []


def test_a_compacted_topic_refuses_a_record_without_a_key(kafka, create_topic, topic, read, delivery):
    compacted = f"{topic}-compacted"
    create_topic(compacted, **{"cleanup.policy": "compact"})
    one = TransactionalWriter(settings(kafka, topic, delivery=delivery))
    with pytest.raises(WriteError, match="only records that have a key"):
        one.write(0, [values(compacted, "a")], Report())
    assert texts(read(compacted)) == []


def test_a_process_keeps_one_writer_for_equal_settings(kafka, topic):
    assert writer(settings(kafka, topic)) is writer(settings(kafka, topic))
    assert writer(settings(kafka, topic)) is not writer(settings(kafka, topic, "checkpoint-2"))


def test_secrets_do_not_show():
    assert "hunter2" not in repr(settings({"sasl.password": "hunter2"}, "q"))


def test_a_full_queue_is_waited_for(kafka, topic, read):
    crowded = settings(kafka | {"queue.buffering.max.messages": "10"}, topic)
    assert TransactionalWriter(crowded).write(0, [values(topic, *map(str, range(100)))], Report())
    assert texts(read(topic)) == [str(i) for i in range(100)]


def test_records_are_handed_to_the_client_a_few_bytes_at_a_time():
    """Each may be a Python object then, so gigabytes of records must not be handed over at once."""
    chunks, polls = [], []

    def enqueue(records, start, stop):
        chunks.append(records.columns.column("value").to_pylist()[start:stop])
        return stop

    sent = [f"{number:0200}" for number in range(50)]
    batch_producers.hand_over(enqueue, polls.append, values("t", *sent), chunk_bytes=1000)
    assert [value.decode() for chunk in chunks for value in chunk] == sent
    assert max(len(value) * len(chunk) for chunk in chunks for value in chunk[:1]) <= 1000
    assert len(chunks) < 25
    assert polls == [0] * len(chunks)


def test_records_are_handed_over_from_the_first_one_for_which_the_queue_had_no_room():
    calls, polls = [], []

    def enqueue(_, start, stop):
        calls.append((start, stop))
        return start if len(calls) == 2 else min(start + 2, stop)

    batch_producers.hand_over(enqueue, polls.append, values("t", *"abcde"))
    assert calls == [(0, 5), (2, 5), (2, 5), (4, 5)]
    assert polls == [0.05, 0.05, 0.05, 0]


def test_a_large_batch_has_more_time_and_shuts_out_no_small_one(kafka, topic, read, monkeypatch):
    timeouts = []
    opened = batch_producers.BATCH_PRODUCERS["exactly_once"]

    def batch_producer(properties, *rest):
        timeouts.append(properties.get("transaction.timeout.ms"))
        return opened(properties, *rest)

    monkeypatch.setitem(batch_producers.BATCH_PRODUCERS, "exactly_once", batch_producer)
    small, large = (writer(settings(kafka, topic, large=large)) for large in (False, True))
    for batch, (one, text) in enumerate([(small, "a"), (large, "b"), (large, "c"), (small, "d"), (large, "e")]):
        assert one.write(batch, [values(topic, text)], Report())
    assert texts(read(topic)) == ["a", "b", "c", "d", "e"]
    assert timeouts == [None, "900000", None, "900000"]


def test_a_broker_that_is_gone_fails_the_batch_and_its_return_heals(tmp_path, monkeypatch):
    """Killed and started again, the broker has its address and its records; stopped, it leaves nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with EmbeddedBroker({"num.partitions": "3"}) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": "2000"}
        for name in ("out", ledger.TOPIC):
            create(kafka, NewTopic(name, 1))
        short = TransactionalWriter(settings(kafka, "q", times=TimeLimits(step=3, offsets=3, abort=1)))
        assert short.write(0, [values("out", "a")], Report())
        broker.kill()
        with pytest.raises(UnavailableError, match=r"cannot write the batch \('q', batch 1\): "):
            short.write(1, [values("out", "b")], Report())
        broker.restart()
        assert broker.bootstrap == kafka["bootstrap.servers"]
        assert TransactionalWriter(settings(kafka, "q")).write(1, [values("out", "b")], Report())
        assert texts(visible({"bootstrap.servers": broker.bootstrap}, "out")) == ["a", "b"]
    assert [*tmp_path.iterdir()] == []


def test_producers_of_others_do_not_disturb(kafka, topic, read):
    other = Producer(kafka | {"transactional.id": "other"})
    other.init_transactions()
    other.begin_transaction()
    other.produce(topic, b"other", partition=1)
    other.flush()
    assert TransactionalWriter(settings(kafka, topic)).write(0, [values(topic, "a")], Report())
    assert texts(read(topic)) == ["a"]
    other.abort_transaction()


def test_a_new_start_closes_the_writers_of_the_starts_of_the_query_before_it(monkeypatch):
    settings = WriterSettings((), "q", "id", start="first")
    other = replace(settings, query="p")
    kept = kept_writers(monkeypatch, settings, replace(settings, large=True), other)
    small, large, left = kept.values()
    second = replace(settings, start="second")
    new = writer(second)
    assert (small.closed, large.closed, left.closed) == (1, 1, 0)
    assert kept == {other: left, second: new}
    assert writer(replace(second, large=True)) is not new
    assert kept[second] is new


def test_closing_the_writers_of_a_query_closes_those_of_small_and_of_large_batches_and_no_others(monkeypatch):
    settings = WriterSettings((), "q", "id", start="first")
    other = replace(settings, start="second")
    kept = kept_writers(monkeypatch, settings, replace(settings, large=True), other)
    small, large, left = kept.values()
    batch_writer.close_writers(settings)
    assert (small.closed, large.closed, left.closed) == (1, 1, 0)
    assert kept == {other: left}
    batch_writer.close_writers(settings)
    assert small.closed == 1


class Closing(TransactionalWriter):
    """A writer that counts how often it is closed."""

    closed = 0

    def close(self):
        self.closed += 1


def kept_writers(monkeypatch, *every):
    """The writers of the process, by their settings: one with each of these."""
    kept = {settings: Closing(settings) for settings in every}
    monkeypatch.setattr(batch_writer, "_writers", kept)
    return kept
