"""The ledger records in Kafka which batches of a query were written. It consists of a consumer group and a topic.

The transaction of each batch commits, beside the batch's outputs,

- offset `batch + 1` of a consumer group. The offset's metadata contain the id of the query's checkpoint and a digest of
  the batch's input;
- an entry in a small compacted topic, whose key is the query. The entry contains the batch's input and its report
  (batch_report.py);
- the batch's planned input once more, with the batch's number in the key, so that it stays when the next batch is
  written. From these a start can repeat past batches whose results were lost with a disk (`plans`).

The group is read first. The topic is read when the group has no offset: the offsets of a group expire, by default after
seven days without a commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sluice.kafka.batch_report import Entry, Planned, Report
from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import LedgerError, UnavailableError
from sluice.kafka.requests import REQUEST, clients, produce_row, send_request
from sluice.time_units import MILLISECOND

TOPIC = "sluice.ledger"
PARTITION = 0
#: between the parts of the key of a plan; the names of queries have no such character
KEY_PARTS = "/"
#: in place of a digest, or of the id of a start, that is not known
UNKNOWN = "-"
#: time-out of each step of a transaction, in seconds
SECONDS = 30.0
#: The isolation level of a read of the position while a transaction of the query itself may be open: the read gives the
#: last committed position, and does not wait. A transaction that a killed process has left open ends with the next
#: start, or after its time-out, a minute.
OPEN = "read_uncommitted"
#: seconds of a wait for open transactions of other pipelines that hide what the topic must have: brokers abort one
#: after 60 s by default, and look every 10 s
OPEN_S = 90.0

#: the most buckets whose writers are fenced at the same time
CONCURRENT = 8

START_OVER = "to use this checkpoint nevertheless, start once with --reset-ledger (outputs may repeat)"


class LedgerPosition(NamedTuple):
    """The position of the ledger.

    next_batch   number of the batch that is to be written next
    query_id     id of the checkpoint that numbers the batches
    digest       digest of the input of batch `next_batch - 1`; empty if an earlier version wrote that batch
    start        id of the start whose buckets may write parts of batches; empty if there is one writer; UNKNOWN if the
                 group, which has it, is gone
    buckets      the most buckets that may have written parts since the last closed batch; 0 if it is not known
    """

    next_batch: int
    query_id: str
    digest: str = ""
    start: str = ""
    buckets: int = 0


#: the digest of a batch's input according to the checkpoint; None if the checkpoint does not have the batch
DigestOf = Callable[[int], str | None]


def group_of(query: str) -> str:
    return f"sluice.ledger.{query}"


def transactional_id_of(query: str) -> str:
    return f"sluice.{query}"


def part_of(query: str, bucket: int) -> str:
    """The name of the ledger of a bucket's parts of batches, in place of the name of a query."""
    return f"{query}{KEY_PARTS}{bucket}"


def require_same_checkpoint(position: LedgerPosition | None, query: str, query_id: str, committed: int | None) -> None:
    """Raises LedgerError if the ledger is missing or names another checkpoint.

    committed   last batch in the checkpoint's log of commits, None if the log is empty

    A start calls this function before `end_open_transaction`, so that a start by mistake does not fence the service
    that runs.
    """
    if position is None:
        if committed is not None:
            raise LedgerError(lost_message(query, committed))
    elif position.query_id != query_id:
        raise LedgerError(foreign_message(query, query_id, position))


def fits(position: LedgerPosition, committed: int | None, planned: int | None, *, digest_of: DigestOf) -> bool:
    """Whether the service can go on with a checkpoint as it is.

    committed   last batch in the checkpoint's log of commits, None if the log is empty
    planned     last batch in the checkpoint's log of offsets, None if the log is empty

    False if the checkpoint is older or newer than the ledger, or if the last written batch read other records than the
    checkpoint planned for its number.
    """
    first, last = 1 + (-1 if committed is None else committed), 1 + (-1 if planned is None else planned)
    if not first <= position.next_batch <= last:
        return False
    return not position.digest or digest_of(position.next_batch - 1) in (None, position.digest)


def parted_message(query: str, batch: int) -> str:
    return (
        f"the ledger of {query!r} says that batch {batch} read other records than the checkpoint has planned for batch "
        f"{batch}: the batch was written with another copy of this checkpoint. To go on with this copy would lose or "
        f"double records. Restore the copy that wrote the batch; {START_OVER}"
    )


def lost_message(query: str, batch: int) -> str:
    return (
        f"the checkpoint of {query!r} is at batch {batch}, but Kafka has no ledger of it "
        f"(group {group_of(query)!r} has no position, topic {TOPIC!r} no entry). Is this the right cluster? If so, "
        f"{START_OVER}"
    )


def foreign_message(query: str, query_id: str, position: LedgerPosition) -> str:
    return (
        f"the ledger of {query!r} belongs to the checkpoint {position.query_id}, this checkpoint is {query_id}: two "
        f"pipelines have one name, or the checkpoint was changed. Rename one, or restore the checkpoint; {START_OVER}"
    )


def moved_message(entry: Entry, position: LedgerPosition | None) -> str:
    at = "gone" if position is None else f"at batch {position.next_batch - 1} of checkpoint {position.query_id}"
    return (
        f"the ledger of {entry.query!r} is {at}, and the checkpoint was changed after batch {entry.batch - 1} of "
        f"checkpoint {entry.query_id}: another instance has gone on meanwhile. Stop it and start again"
    )


def end_open_transaction(kafka: Mapping[str, str], query: str) -> None:
    """Ends a transaction that a killed process left open, and fences an instance that still runs."""
    properties = {"transactional.id": transactional_id_of(query)}

    def initialise(producer: Producer) -> None:
        producer.init_transactions(SECONDS)

    send_request(kafka, "producer", "end the open transaction", initialise, properties, seconds=SECONDS)


def take_over(kafka: Mapping[str, str], query: str, query_id: str, start: str, buckets: int) -> int:
    """Does what `end_open_transaction` does, and notes that the buckets of this start alone may write from now on.

    Writers of earlier starts that open after this find the id of another start (`owner`). Returns the number of buckets
    whose writers may still write or have written parts: `buckets`, which this start may have, or more of an earlier
    one. Raises LedgerError, and changes nothing, if the ledger is that of another checkpoint by now.
    """
    properties = {"transactional.id": transactional_id_of(query)}

    def write(producer: Producer) -> int:
        group = group_member(kafka, query)
        try:
            producer.init_transactions(SECONDS)
            position = read_position(kafka, query)
            if position is not None and position.query_id != query_id:
                raise LedgerError(foreign_message(query, query_id, position))
            at, digest = (position.next_batch, position.digest) if position else (0, "")
            most = max(buckets, position.buckets if position else noted_buckets(kafka, query))
            producer.begin_transaction()
            offset = _offset(at, _metadata(query_id, digest, start, most))
            producer.send_offsets_to_transaction([offset], group.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
        finally:
            group.close()
        return most

    return send_request(kafka, "producer", "take over the ledger", write, properties, seconds=3 * SECONDS)


def owner(kafka: Mapping[str, str], query: str, isolation: str = "read_committed") -> tuple[str, str]:
    """The ids of the checkpoint and of the start that `take_over` has noted last; empty if it never has.

    Waits until it is known whether a transaction that ends has noted another one; not with the isolation OPEN.
    """
    query_id, _, start, _ = _words(_group_offset(kafka, query, isolation))
    return (query_id, start) if start else ("", "")


def noted_buckets(kafka: Mapping[str, str], query: str, isolation: str = "read_committed") -> int:
    """The most buckets that may have written parts since the last closed batch; 0 if no start has noted it. Waits as
    `owner` does.
    """
    return int(_words(_group_offset(kafka, query, isolation))[3] or 0)


def is_closed(kafka: Mapping[str, str], query: str, query_id: str, batch: int) -> bool:
    """Whether the group has the position after this batch or a later one of the checkpoint. Waits until the outcome of
    a transaction that ends is known. A start that has taken over has given the group its position (`take_over`).
    """
    position = _from_group(kafka, query, "read_committed")
    return position is not None and position.query_id == query_id and position.next_batch > batch


def fenced_parts(kafka: Mapping[str, str], query: str, buckets: int) -> list[LedgerPosition | None]:
    """Fences the writers of all buckets, aborts their open transactions, and reads the position of each.

    No writer of an earlier start can write any more if `take_over` was called before.
    """

    def position(bucket: int) -> LedgerPosition | None:
        end_open_transaction(kafka, part_of(query, bucket))
        return part_position(kafka, part_of(query, bucket), fenced=True)

    calls = [partial(copy_context().run, position, bucket) for bucket in range(buckets)]
    with ThreadPoolExecutor(CONCURRENT, thread_name_prefix="sluice-parts") as threads:
        return list(threads.map(lambda call: call(), calls))


def part_positions(kafka: Mapping[str, str], query: str, buckets: int) -> list[LedgerPosition | None]:
    """The positions of the parts of this many buckets, or of all that an earlier start had, without fencing them."""
    most = max(buckets, noted_buckets(kafka, query, OPEN))
    return [part_position(kafka, part_of(query, bucket)) for bucket in range(most)]


def ahead(parts: Iterable[LedgerPosition | None], query_id: str, next_batch: int) -> dict[int, LedgerPosition]:
    """By bucket, the parts of this checkpoint that are of the batch `next_batch` or a later one."""
    return {
        number: part
        for number, part in enumerate(parts)
        if part is not None and part.query_id == query_id and part.next_batch > next_batch
    }


def entry_in_parts(
    kafka: Mapping[str, str], query: str, query_id: str, next_batch: int, parts: Sequence[LedgerPosition | None]
) -> Entry | None:
    """The entry of a part of the batch `next_batch`, if a bucket has written one; else None. `parts`: by bucket.

    Raises LedgerError if a bucket has written a later batch, or if the plan is lost.
    """
    for number, part in ahead(parts, query_id, next_batch).items():
        entry = last_entry(kafka, part_of(query, number))
        if part.next_batch > next_batch + 1 or entry is None or entry.planned is None or entry.batch != next_batch:
            raise LedgerError(
                f"the ledger of {query!r} expects batch {next_batch}, and bucket {number} has written batch "
                f"{part.next_batch - 1} already: entries of topic {TOPIC!r} are lost. {START_OVER}"
            )
        return entry
    return None


def reset(
    kafka: Mapping[str, str], query: str, query_id: str, committed: int | None, planned: Planned | None = None
) -> None:
    """Overwrites the ledger with the position of this checkpoint. A batch after `committed` may then be written twice.

    committed   last batch in the checkpoint's log of commits, None for a new checkpoint
    planned     the input of batch `committed`, None if the checkpoint does not have it any more
    """
    offset = _offset(0, "") if committed is None else offset_after(committed, query_id, planned)
    planned_batches = {} if committed is None or planned is None else {committed: planned}
    plans = plan_records(query, query_id, planned_batches)
    _overwrite(kafka, query, _reset_entry(query, query_id, committed, planned), plans, offset)


def reset_parts(kafka: Mapping[str, str], query: str, buckets: int) -> None:
    """Removes the positions of the parts of all buckets, also of the buckets of earlier starts. Before `reset`, which
    fences as this does.
    """
    end_open_transaction(kafka, query)
    for part in (part_of(query, bucket) for bucket in range(max(buckets, noted_buckets(kafka, query)))):
        if part_position(kafka, part) is not None:
            _overwrite(kafka, part, None, [], _offset(0, ""))


def first_part(kafka: Mapping[str, str], query: str, *, fenced: bool) -> Entry | None:
    """The entry of a part of batch 0 that a bucket has written, if no batch was ever closed; None if there is none.

    Without `fenced`, a writer that was killed may have an open transaction, which brokers abort after a minute, and
    after 15 if its batch is large: this does not wait for it, and an entry behind its records is not found.
    """
    if not owner(kafka, query, "read_committed" if fenced else OPEN)[1]:
        return None
    return next((entry for entry in _last_parts(kafka, query, wait=fenced) if entry.batch == 0), None)


def _last_parts(kafka: Mapping[str, str], query: str, *, wait: bool = True) -> list[Entry]:
    """The topic's entry about the last part of each bucket, also of buckets that only an earlier start had. With
    `wait`, waits for open transactions that hide entries.
    """
    entries: dict[bytes, Entry] = {}
    before = part_of(query, 0)[:-1].encode()

    def keep(message: Message) -> None:
        key = message.key() or b""
        if key.startswith(before) and key.removeprefix(before).isdigit() and message.value():
            entries[key] = Entry.from_json(message.value())

    _read_entries(kafka, keep, lambda: not wait)
    return list(entries.values())


def begin_anew(kafka: Mapping[str, str], entry: Entry) -> None:
    """Writes the entry of a batch without outputs that stands for a change of the states (state/upgrade/).

    Removes the plans of all batches before it, so no state before the change is used any more. Writing it again changes
    nothing. Raises LedgerError if the ledger is at another batch: an instance that was fenced only now has written it.
    """
    offset = offset_after(entry.batch, entry.query_id, entry.planned)
    plans = plan_records(entry.query, entry.query_id, {entry.batch: entry.planned})

    def require_next() -> None:
        position = read_position(kafka, entry.query)
        if position is None or position.query_id != entry.query_id or position[0] not in (entry.batch, entry.batch + 1):
            raise LedgerError(moved_message(entry, position))
        if position.next_batch == entry.batch + 1 and position.digest != _digest(entry.planned):
            raise LedgerError(moved_message(entry, position))

    _overwrite(kafka, entry.query, entry.to_json(), plans, offset, fenced=require_next)


def _overwrite(
    kafka: Mapping[str, str], query: str, entry: bytes | None, plans: list[tuple[bytes | None, bytes]],
    offset: TopicPartition, *, fenced: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Writes the entry, these plans (`plan_records`) in place of all others, and the position, in one transaction.

    `fenced` is called before, when no other instance can write any more.
    """
    properties = {"transactional.id": transactional_id_of(query)}

    def write(producer: Producer) -> None:
        group = group_member(kafka, query)
        try:
            producer.init_transactions(SECONDS)
            fenced()
            removed: dict[bytes, bytes | None] = dict.fromkeys(_plan_keys(kafka, query))
            producer.begin_transaction()
            produce_row(producer, TOPIC, (entry, query.encode(), PARTITION))
            for key, value in (removed | {key: value for value, key in plans}).items():
                produce_row(producer, TOPIC, (value, key, PARTITION))
            producer.send_offsets_to_transaction([offset], group.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
        finally:
            group.close()

    send_request(kafka, "producer", "overwrite the ledger", write, properties, seconds=3 * SECONDS)


def _reset_entry(query: str, query_id: str, committed: int | None, planned: Planned | None) -> bytes | None:
    """The entry to write; for a new checkpoint None, a tombstone that removes the query from the compacted topic."""
    now = time.time_ns() // MILLISECOND
    if committed is None:
        return None
    return Entry(query, query_id, committed, now, 0, Report(), planned=planned).to_json()


def read_position(kafka: Mapping[str, str], query: str, isolation: str = "read_committed") -> LedgerPosition | None:
    """The position of the ledger, from the group or else from the topic; None if neither has the query."""
    return _from_group(kafka, query, isolation) or _from_topic(kafka, query)


def part_position(kafka: Mapping[str, str], part: str, *, fenced: bool = False) -> LedgerPosition | None:
    """The position of the parts of a bucket (`part_of`).

    With `fenced` no earlier writer can write any more: waits for the outcome of a transaction that ends, and reads the
    topic if the group has no position. Otherwise it may be the position before that transaction.
    """
    if not fenced:
        return _from_group(kafka, part, OPEN)
    return _from_group(kafka, part, "read_committed") or _from_topic(kafka, part)


def _from_group(kafka: Mapping[str, str], query: str, isolation: str) -> LedgerPosition | None:
    return _position_of(_group_offset(kafka, query, isolation))


def _position_of(offset: TopicPartition) -> LedgerPosition | None:
    """The position that this offset of the group stands for. None without one, and for one without metadata: it is not
    an offset of the ledger, since the group was reset from outside.
    """
    query_id, digest, start, buckets = _words(offset)
    position = LedgerPosition(offset.offset, query_id, digest.removeprefix(UNKNOWN), start, int(buckets or 0))
    return position if offset.offset > 0 and query_id else None


def _words(offset: TopicPartition) -> list[str]:
    """The four words of the metadata (`_metadata`). Those that are missing are empty."""
    return [*(offset.metadata or "").split(" "), "", "", ""][:4]


def _group_offset(kafka: Mapping[str, str], query: str, isolation: str) -> TopicPartition:
    return send_request(kafka, "consumer", "read the ledger", _committed, _membership(query, isolation))


def _committed(consumer: Consumer) -> TopicPartition:
    offset = consumer.committed([TopicPartition(TOPIC, PARTITION)], timeout=REQUEST)[0]
    if offset.error:
        raise KafkaException(offset.error)
    return offset


def _from_topic(kafka: Mapping[str, str], query: str) -> LedgerPosition | None:
    """The group has gone, and with it which start may write parts: UNKNOWN if there are parts of the next batch."""
    entry = last_entry(kafka, query)
    if entry is None:
        return None
    parts = [part for part in _last_parts(kafka, query) if part.query_id == entry.query_id and part.batch > entry.batch]
    start, buckets = (UNKNOWN, max(part.buckets for part in parts)) if parts else ("", 0)
    return LedgerPosition(entry.batch + 1, entry.query_id, _digest(entry.planned), start, buckets)


def last_entry(kafka: Mapping[str, str], query: str) -> Entry | None:
    """The topic's entry about the last batch of a query; None if the topic has none. Reads the whole topic.

    Does not wait for a transaction of the query itself that is open.

    Raises UnavailableError if transactions of other pipelines hide the entry for OPEN_S.
    """
    last: list[Message] = []

    def keep(message: Message) -> None:
        if message.key() == query.encode():
            last[:] = [message]

    def found() -> Entry | None:
        return Entry.from_json(last[0].value()) if last and last[0].value() else None

    def complete() -> bool:
        offset, entry = _group_offset(kafka, query, OPEN), found()
        position = _position_of(offset)
        if position is None:  # the last entry of a group that was reset may be hidden
            return bool(offset.offset <= 0)
        return entry is not None and entry.batch >= position.next_batch - 1

    _read_entries(kafka, keep, complete)
    return found()


def plan_key(query: str, query_id: str, batch: int) -> bytes:
    """The key of the record with the planned input of a batch. Batch -1 stands for the position before batch 0."""
    return f"{query}{KEY_PARTS}{query_id}{KEY_PARTS}{batch}".encode()


def plan_records(query: str, query_id: str, plans: Mapping[int, Planned | None]) -> list[tuple[bytes | None, bytes]]:
    """The value and the key of the records that keep these plans, by batch. None removes the plan of a batch."""
    return [
        (None if planned is None else json.dumps(planned.to_fields()).encode(), plan_key(query, query_id, batch))
        for batch, planned in plans.items()
    ]


def plans(kafka: Mapping[str, str], query: str, query_id: str) -> dict[int, Planned]:
    """The planned inputs of past batches, as far as the topic still has them. Reads the whole topic.

    Batch -1 is the position before batch 0. Does not wait for a transaction of the query itself that is open. Raises
    UnavailableError if transactions of other pipelines hide the plan of the last batch for OPEN_S.
    """
    planned: dict[int, Planned] = {}
    before = plan_key(query, query_id, 0)[:-1]

    def keep(message: Message) -> None:
        key = message.key() or b""
        if not key.startswith(before):
            return
        batch = int(key.removeprefix(before))
        if message.value():
            planned[batch] = Planned.of_fields(json.loads(message.value()))
        else:
            planned.pop(batch, None)

    def complete() -> bool:
        position = _from_group(kafka, query, OPEN)
        return position is None or position.query_id != query_id or position.next_batch - 1 in planned

    _read_entries(kafka, keep, complete)
    return planned


def remove_plans(kafka: Mapping[str, str], query: str, query_id: str, batches: Iterable[int]) -> None:
    """Removes the plans of these batches. Nothing depends on when, so no transaction is needed."""
    records = plan_records(query, query_id, dict.fromkeys(batches))

    def write(producer: Producer) -> None:
        for value, key in records:
            produce_row(producer, TOPIC, (value, key, PARTITION))
        if producer.flush(SECONDS):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    send_request(kafka, "producer", "remove old plans from the ledger", write, {"linger.ms": 5}, seconds=2 * SECONDS)


def _plan_keys(kafka: Mapping[str, str], query: str) -> list[bytes]:
    """The keys of all plans of the query, also of plans of earlier checkpoints."""
    keys: dict[bytes, bool] = {}
    before = f"{query}{KEY_PARTS}".encode()

    def keep(message: Message) -> None:
        key = message.key() or b""
        if key.startswith(before):
            keys[key] = bool(message.value())

    _read_entries(kafka, keep, lambda: False)
    return [key for key, present in keys.items() if present]


def _read_entries(kafka: Mapping[str, str], handle: Callable[[Message], None], complete: Callable[[], bool]) -> None:
    """Calls `handle` with each entry of the topic. After a transient error a new client reads the rest.

    A transaction that is open hides its own entries and all later ones, also those of other pipelines. If `complete`
    is then False, waits until what the topic had at its end can be read. Raises UnavailableError after OPEN_S.
    """
    properties = {
        "group.id": "sluice.ledger", "enable.auto.commit": False, "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    reading = _Reading(handle, complete)
    with clients(kafka, "consumer", properties | {"fetch.wait.max.ms": 10}) as requests:
        while not requests.send("read the ledger", reading.some, seconds=2 * REQUEST):
            if reading.seconds_left() <= 0:
                raise UnavailableError(
                    f"cannot read the ledger: a transaction of another pipeline in topic {TOPIC} is open for more than "
                    f"{OPEN_S:g} seconds; start again when it has ended"
                )


class _Reading:
    """How far the topic is read, over several clients."""

    def __init__(self, handle: Callable[[Message], None], complete: Callable[[], bool]) -> None:
        self._handle, self._complete = handle, complete
        #: Compaction leaves the beginning at 0. If records were deleted, the client asks for the beginning
        #: (auto.offset.reset), which takes half a second.
        self._position = 0
        #: the end of the topic at the first visible end, and until when to wait for it
        self._end: int | None = None
        self._deadline = float("inf")

    def seconds_left(self) -> float:
        """The seconds that are left of the wait for open transactions."""
        return self._deadline - time.monotonic()

    def some(self, consumer: Consumer) -> bool:
        """Reads for at most REQUEST seconds. True if everything was read that is wanted."""
        topic_partition = TopicPartition(TOPIC, PARTITION)
        consumer.assign([TopicPartition(TOPIC, PARTITION, self._position)])
        deadline = time.monotonic() + REQUEST
        while (left := min(deadline - time.monotonic(), self.seconds_left())) > 0:
            message = consumer.poll(left)
            if message is None and self._end is not None:
                return False
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
            if message.error() is None:
                self._handle(message)
                self._position = message.offset() + 1
            elif message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(message.error())
            elif self._at_end(message.offset(), consumer.get_watermark_offsets(topic_partition, cached=True)[1]):
                return True
        return False

    def _at_end(self, visible: int, end: int) -> bool:
        """Whether no more is wanted. `visible`: the end of what can be read; `end`: that of the topic (exclusive)."""
        if self._end is None:
            self._end, self._deadline = end, time.monotonic() + OPEN_S
        return visible >= self._end or self._complete()


def group_member(kafka: Mapping[str, str], query: str, isolation: str = "read_committed") -> Consumer:
    """A consumer that reads and commits the offset of the ledger's group, and never joins the group."""
    return Consumer(client_properties(kafka, "consumer") | _membership(query, isolation))


def _membership(query: str, isolation: str) -> dict[str, object]:
    return {"group.id": group_of(query), "enable.auto.commit": False, "isolation.level": isolation}


def _offset(offset: int, metadata: str) -> TopicPartition:
    return TopicPartition(TOPIC, PARTITION, offset, metadata=metadata)


def offset_after(
    batch: int, query_id: str, planned: Planned | None, start: str = "", buckets: int = 0
) -> TopicPartition:
    """The offset, with its metadata, that the group commits with a batch. `start`, `buckets` as in `LedgerPosition`."""
    return _offset(batch + 1, _metadata(query_id, _digest(planned), start, buckets))


def _metadata(query_id: str, digest: str, start: str, buckets: int) -> str:
    return f"{query_id} {digest or UNKNOWN} {start} {buckets}" if start else f"{query_id} {digest}".rstrip()


def _digest(planned: Planned | None) -> str:
    return "" if planned is None else planned.digest
