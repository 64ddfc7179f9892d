"""Kafka in memory: topic partitions, transactions with their coordinator, epochs, fencing, markers, groups.

It follows Kafka 4: the marks of a transaction are written some time after its end was decided; a transaction that is
open for too long is aborted, with a new epoch; the first record of a transaction in a topic partition is checked with
the coordinator (KIP-890, part 1) unless `verifies` is False, as in brokers before 3.6: a late record of an aborted
transaction is then accepted, and no coordinator ever ends it. Clients do not implement part 2 of KIP-890, so a late
EndTxn ends whatever transaction of its epoch is open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError

from tests.chaos.simulation.scheduler import Process, World

Place = tuple[str, int]
#: seconds between two looks of the coordinator at old transactions
LOOK_S = 10.0
#: seconds without a heartbeat after which a member of a group is removed
SESSION_S = 6.0


class BrokerError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(KafkaError(code).str())
        self.code = code


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None
    timestamp: int


class Offset(NamedTuple):
    offset: int
    metadata: str


@dataclass
class Producer:
    """What a topic partition has of a producer: its epoch, its last sequence number, its open transaction."""

    epoch: int = -1
    sequence: int = -1
    first: int | None = None


@dataclass
class Partition:
    """The log: records, None for a marker; and whether each is committed, None while that is open."""

    records: list[Record | None] = field(default_factory=list)
    committed: list[bool | None] = field(default_factory=list)
    start: int = 0
    producers: dict[int, Producer] = field(default_factory=lambda: defaultdict(Producer))

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def stable(self) -> int:
        return min((one.first for one in self.producers.values() if one.first is not None), default=self.end)

    def append(self, record: Record | None, committed: bool | None) -> None:  # noqa: FBT001
        self.records.append(record)
        self.committed.append(committed)

    def visible(self, start: int, *, committed: bool, hidden: int = 0) -> tuple[list[tuple[int, Record]], int]:
        """The records from an offset on that a reader gets, without the newest `hidden` ones, and up to where it has
        read.
        """
        end = max(start, (self.stable if committed else self.end) - hidden)
        found = [
            (offset, record)
            for offset in range(max(start, self.start), end)
            if (record := self.records[offset]) is not None and (self.committed[offset] or not committed)
        ]
        return found, end

    def mark(self, number: int, epoch: int, *, commit: bool) -> None:
        known = self.producers[number]
        if epoch < known.epoch:
            return
        if epoch > known.epoch:
            known.epoch, known.sequence = epoch, -1
        if known.first is not None:
            for offset in range(known.first, self.end):
                if self.committed[offset] is None and self.owners[offset] == number:
                    self.committed[offset] = commit
            known.first = None
        self.owners[self.end] = number
        self.append(None, committed=True)

    owners: dict[int, int] = field(default_factory=dict)


@dataclass
class Transaction:
    """What the coordinator has of a transactional id."""

    name: str
    number: int
    epoch: int = -1
    state: str = "empty"
    commit: bool = False
    timeout: float = 60.0
    since: float = 0.0
    places: dict[Place, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)


@dataclass
class Group:
    offsets: dict[Place, Offset] = field(default_factory=dict)
    #: by number of a producer: offsets of its open transaction
    pending: dict[int, dict[Place, Offset]] = field(default_factory=dict)
    members: dict[int, Process] = field(default_factory=dict)
    owner: int | None = None


class Kafka:
    def __init__(self, world: World, *, verifies: bool = True) -> None:
        self._world, self._verifies = world, verifies
        self.process = world.process("kafka", "broker")
        self.partitions: dict[Place, Partition] = {}
        self.transactions: dict[str, Transaction] = {}
        self.groups: dict[str, Group] = defaultdict(Group)
        #: transactional id, batch and digest of its plan -> what each transaction of it was to write
        self.attempts: dict[tuple[str, int, str], list[dict[Place, list[Record]]]] = defaultdict(list)
        #: until when the brokers do not answer, and the coordinators
        self.down_until = 0.0
        #: until when readers get answers of a leader that has just been elected: it takes the newest records for unsafe
        self.stale_until = 0.0
        self._numbers = 1000
        world.spawn(self.process, "expiry", self._expire)

    def create(self, topic: str, partitions: int) -> None:
        """Creates the topic, or gives it more topic partitions."""
        self.partitions |= {(topic, n): Partition() for n in range(partitions) if (topic, n) not in self.partitions}

    # ---- of transactions ---------------------------------------------------------------------------------------------

    def init_producer_id(self, name: str | None, timeout: float) -> tuple[int, int]:
        if name is None:
            self._numbers += 1
            return self._numbers, 0
        if name not in self.transactions:
            self._numbers += 1
            self.transactions[name] = Transaction(name, self._numbers)
        one = self.transactions[name]
        if one.state == "open":
            one.epoch += 1
            self._end(one, commit=False)
        if one.state == "ending":
            raise BrokerError(KafkaError.CONCURRENT_TRANSACTIONS)
        one.epoch, one.state, one.timeout = one.epoch + 1, "empty", timeout
        return one.number, one.epoch

    def add(self, name: str, epoch: int, *, places: Iterable[Place] = (), groups: Iterable[str] = ()) -> None:
        one = self._transaction(name, epoch)
        if one.state == "ending":
            raise BrokerError(KafkaError.CONCURRENT_TRANSACTIONS)
        if one.state != "open":
            one.state, one.since, one.places, one.groups = "open", self._world.now, {}, {}
        one.places |= dict.fromkeys(places)
        one.groups |= dict.fromkeys(groups)

    def end_transaction(self, name: str, epoch: int, *, commit: bool) -> None:
        one = self._transaction(name, epoch)
        if one.state == "open":
            self._end(one, commit=commit)
        elif one.state == "empty" or one.commit != commit:
            raise BrokerError(KafkaError.INVALID_TXN_STATE)

    def _transaction(self, name: str, epoch: int) -> Transaction:
        one = self.transactions.get(name)
        if one is None:
            raise BrokerError(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if epoch != one.epoch:
            raise BrokerError(KafkaError.PRODUCER_FENCED)
        return one

    def _end(self, one: Transaction, *, commit: bool) -> None:
        one.state, one.commit = "ending", commit
        self._world.say(self.process, f"{one.name} epoch {one.epoch}: {'COMMIT' if commit else 'ABORT'} decided")
        self._world.spawn(self.process, f"markers of {one.name}", lambda: self._complete(one, one.epoch))

    def _complete(self, one: Transaction, epoch: int) -> None:
        """Writes the marks, one topic partition after the other."""
        seeded = self._world.random
        steps = [*one.places, *one.groups]
        seeded.shuffle(steps)
        slow = seeded.random() < 0.1
        for step in steps:
            self._world.tick(f"mark {step} for {one.name}", seeded.random() * (2.0 if slow else 0.004))
            if isinstance(step, tuple):
                self.partitions[step].mark(one.number, epoch, commit=one.commit)
            else:
                offsets = self.groups[step].pending.pop(one.number, {})
                self.groups[step].offsets |= offsets if one.commit else {}
        one.state = "ended"

    def _expire(self) -> None:
        while True:
            self._world.tick("look for old transactions", LOOK_S)
            for one in self.transactions.values():
                if one.state == "open" and self._world.now - one.since > one.timeout:
                    one.epoch += 1
                    self._end(one, commit=False)

    # ---- of records and offsets --------------------------------------------------------------------------------------

    def produce(  # noqa: PLR0917
        self, name: str | None, number: int, epoch: int, place: Place, sequence: int, records: list[Record]
    ) -> None:
        """A batch of a producer; `sequence` is the number of its first record, from 0 on in each epoch."""
        partition = self.partitions[place]
        known = partition.producers[number]
        if epoch < known.epoch:
            raise BrokerError(KafkaError.INVALID_PRODUCER_EPOCH)
        expected = known.sequence + 1 if epoch == known.epoch else 0
        if sequence < expected:
            return  # it has come before
        if name is not None and known.first is None and self._verifies:
            one = self._transaction(name, epoch)
            if one.state != "open" or place not in one.places:
                raise BrokerError(KafkaError.INVALID_TXN_STATE)
        if sequence > expected:
            raise BrokerError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        known.epoch, known.sequence = epoch, sequence + len(records) - 1
        if name is not None and known.first is None:
            known.first = partition.end
        for record in records:
            partition.owners[partition.end] = number
            partition.append(record, None if name is not None else True)

    def commit_offset(self, name: str, epoch: int, group: str, place: Place, offset: Offset) -> None:
        one = self._transaction(name, epoch)
        if one.state != "open" or group not in one.groups:
            raise BrokerError(KafkaError.INVALID_TXN_STATE)
        self.groups[group].pending.setdefault(one.number, {})[place] = offset

    def committed_offset(self, group: str, place: Place, *, stable: bool) -> Offset | None:
        found = self.groups[group]
        if stable and any(place in offsets for offsets in found.pending.values()):
            raise BrokerError(KafkaError.UNSTABLE_OFFSET_COMMIT)
        return found.offsets.get(place)

    def forget(self) -> None:
        """Removes what brokers keep for a week after its last use: offsets of groups, and transactional ids. What a
        transaction that has not ended holds stays.
        """
        for group in self.groups.values():
            if not group.pending:
                group.offsets.clear()
        ended = [name for name, one in self.transactions.items() if one.state in {"empty", "ended"}]
        for name in ended:
            del self.transactions[name]

    # ---- of groups ---------------------------------------------------------------------------------------------------

    def take_part(self, group: str, member: int, process: Process) -> int | None:
        """A member asks who has the topic partition of the group. Returns the member that has it."""
        found = self.groups[group]
        found.members.setdefault(member, process)
        for other, its in [*found.members.items()]:
            if other != member and not self._beats(its):
                del found.members[other]
        if found.owner not in found.members:
            found.owner = next(iter(found.members))
        return found.owner

    def leave(self, group: str, member: int) -> None:
        self.groups[group].members.pop(member, None)

    def _beats(self, process: Process) -> bool:
        now = self._world.now
        stopped = process.stopped_until > now and now - process.stopped_at > SESSION_S
        return process.alive and not stopped
